"""Where Pravega is and how to connect to it: addresses, credentials, trust and time limits."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from pyspark_pravega.errors import InvalidOptionError, shorten

from .credentials import Credentials

DEFAULT_CONTROLLER_PORT = 9090

PLAIN_SCHEMES = ("tcp", "pravega")
TLS_SCHEMES = ("tls", "ssl", "pravegas")
"""The schemes of the Java client. `pravega(s)` stands for discovery of controllers there; see `ClientConfig`."""

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?")


@dataclass(frozen=True, order=True)
class Endpoint:
    """Host and TCP port of one server. The host is a name or an address, IPv6 without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ClientConfig:
    """Describes how to connect to a cluster. Immutable and picklable; `repr` shows no credentials.

    Parameters
    ----------
    controller_uri : str
        `tcp://host:port` or `pravega://host:port` (plain), `tls://`, `ssl://` or `pravegas://` (TLS); several
        controllers as `host:port,host:port`. The scheme also decides whether segment stores are spoken to with TLS.
        The hosts of `pravega(s)://` are used as they stand, since a standalone server cannot answer the discovery call.
    registry_uri : str, optional
        `http://` or `https://` address of the schema registry.
    credentials : Credentials, optional
        Who the client is: `BasicCredentials`, `TokenCredentials`, or your own class.
    registry_credentials : Credentials, optional
        By default those of `credentials`.
    trust_store : str, optional
        Path of a PEM file with the CA certificates to trust instead of the system's. It must exist on every machine
        that connects.
    validate_hostname : bool
        False accepts certificates of other hosts; their CA is still checked.
    request_timeout : float
        Seconds for one request.
    retry_timeout : float
        Seconds for all tries of one request.
    confluent_uri : str, optional
        `http://` or `https://` address of a registry with Confluent's REST API.
    confluent_credentials : Credentials, optional
        Those for that registry, which never gets the others.
    allow_plain_registry : bool
        True lets credentials go to an `http://` registry, in the clear, though the controller's address asks for TLS.

    Raises InvalidOptionError if a value that cannot work; the message names it.

    Examples
    --------
    >>> config = ClientConfig(
    ...     "tls://pravega.example:9090",
    ...     registry_uri="https://registry.example:9092",
    ...     credentials=BasicCredentials("reader", os.environ["PASSWORD"]),
    ...     trust_store="/etc/pravega/ca.pem",
    ... )
    """

    controller_uri: str
    registry_uri: str | None = None
    credentials: Credentials | None = field(default=None, repr=False)
    registry_credentials: Credentials | None = field(default=None, repr=False)
    trust_store: str | None = None
    validate_hostname: bool = True
    request_timeout: float = 30.0
    retry_timeout: float = 60.0
    allow_plain_registry: bool = False
    confluent_uri: str | None = None
    confluent_credentials: Credentials | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parse_controller_uri(self.controller_uri)
        _check_registry(self, "schema registry", self.registry_uri, self.effective_registry_credentials)
        _check_registry(self, "'confluent.registry-uri'", self.confluent_uri, self.confluent_credentials)
        if self.confluent_uri is None and self.confluent_credentials is not None:
            raise InvalidOptionError("'confluent.username' needs 'confluent.registry-uri'; set both or neither")
        for name in ("request_timeout", "retry_timeout"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise InvalidOptionError(f"{name} is {value!r}; it must be a number of seconds greater than 0")
        if self.trust_store is not None and not self.trust_store:
            raise InvalidOptionError(
                "trust_store is empty; give the path of a PEM file, or leave it out to trust the system's CAs"
            )

    @property
    def controller_endpoints(self) -> list[Endpoint]:
        """Return the controllers to try, in the order in which the address names them."""
        return parse_controller_uri(self.controller_uri)[1]

    @property
    def tls(self) -> bool:
        """Return whether connections to the controller and the segment stores use TLS."""
        return parse_controller_uri(self.controller_uri)[0] in TLS_SCHEMES

    @property
    def effective_registry_credentials(self) -> Credentials | None:
        """Return the credentials for the schema registry: its own, or else the controller's."""
        return self.registry_credentials if self.registry_credentials is not None else self.credentials

    def at_confluent(self) -> ClientConfig:
        """Return how to connect to Confluent's registry, as if it were the only one. Raises InvalidOptionError."""
        if self.confluent_uri is None:
            raise InvalidOptionError("'confluent.registry-uri' is not set; set it in the catalog's conf")
        uri, login = self.confluent_uri, self.confluent_credentials
        return replace(self, registry_uri=uri, registry_credentials=login, credentials=None)


def parse_controller_uri(uri: str) -> tuple[str, list[Endpoint]]:
    """Split a controller address into its scheme (lower case) and its endpoints.

    A port that is left out is 9090. Raises InvalidOptionError, including for a user name or password inside the
    address, which the message does not repeat.
    """
    example = "an address looks like tcp://localhost:9090, or tls://host1:9090,host2:9090 for TLS"
    if not isinstance(uri, str) or not uri.strip():
        raise InvalidOptionError(f"the controller address is empty; {example}")
    text = uri.strip()
    scheme, separator, rest = text.partition("://")
    if "@" in text:
        raise InvalidOptionError(
            f"the controller address must not hold a user name or password; give credentials instead; {example}"
        )
    scheme = scheme.lower()
    if not separator or scheme not in PLAIN_SCHEMES + TLS_SCHEMES:
        raise InvalidOptionError(
            f"the controller address '{shorten(text)}' must begin with one of "
            f"{', '.join(name + '://' for name in PLAIN_SCHEMES)} (plain), "
            f"{', '.join(name + '://' for name in TLS_SCHEMES)} (TLS); {example}"
        )
    if rest.endswith("/"):
        rest = rest[:-1]
    endpoints = [_parse_endpoint(part.strip(), text, example) for part in rest.split(",")]
    return scheme, endpoints


def _parse_endpoint(part: str, uri: str, example: str) -> Endpoint:
    def make_error(reason: str) -> InvalidOptionError:
        return InvalidOptionError(f"the controller address '{uri}' {reason}; {example}")

    if not part:
        raise make_error("has no host")
    if "://" in part:
        raise make_error("repeats the scheme; write it once and separate the hosts by commas")
    if part.startswith("["):
        host, bracket, port_text = part[1:].partition("]")
        if not bracket or not _IPV6.fullmatch(host) or (port_text and not port_text.startswith(":")):
            raise make_error(f"has '{part}', which is not of the form [IPv6]:port")
        port_text = port_text[1:] if port_text else str(DEFAULT_CONTROLLER_PORT)
    else:
        host, colon, port_text = part.partition(":")
        port_text = port_text if colon else str(DEFAULT_CONTROLLER_PORT)
        if not _HOST_NAME.fullmatch(host):
            raise make_error(f"has '{host}', which is not a host name")
    if not (port_text.isascii() and port_text.isdigit()) or not 0 < int(port_text) < 65536:
        raise make_error(f"has '{port_text}', which is not a port from 1 to 65535")
    return Endpoint(host, int(port_text))


def _check_registry(config: ClientConfig, name: str, uri: str | None, login: Credentials | None) -> None:
    if uri is None:
        return
    example = "an address looks like http://localhost:9092 or https://host:9092, without query and fragment"
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if "@" in uri:
        raise InvalidOptionError(
            f"the {name} address must not hold a user name or password; give credentials instead; {example}"
        )
    if parts.scheme not in ("http", "https") or not host or port == 0 or parts.query or parts.fragment:
        raise InvalidOptionError(f"the {name} address '{re.split('[?#]', uri)[0]}' is not a valid one; {example}")
    if parts.scheme == "http" and config.tls and login and not config.allow_plain_registry:
        raise InvalidOptionError(
            f"the {name} address '{uri}' would send the login in the clear, while the controller is reached by TLS; "
            "give an https:// address, or set 'security.allow-plain-registry' to true"
        )
