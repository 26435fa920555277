"""Errors of servers, of the connections to them, and of this machine."""

from __future__ import annotations

from dataclasses import dataclass

from .root import PravegaError


class AuthenticationError(PravegaError, condition="PRAVEGA_AUTHENTICATION_FAILED", sql_state="28000"):
    """The credentials are missing or wrong. The call is not retried."""

    cure = "Check `security.username` and `security.password`, or `security.auth-type` and `security.auth-token`. \
`pyspark-pravega doctor` tries them."


class PermissionDeniedError(PravegaError, condition="PRAVEGA_PERMISSION_DENIED", sql_state="42501"):
    """The user is known, but lacks a right; the message names the resource and the right."""

    cure = "Ask an administrator for the right that the message names."


class TlsError(PravegaError, condition="PRAVEGA_TLS_FAILED", sql_state="08001"):
    """A certificate is untrusted, expired or of another host, or TLS meets a plain port."""

    cure = "Set `security.trust-store` to a PEM file with the authority of the servers' certificates, and use `tls://` \
with servers that have TLS. See [Deployment](deployment.md)."


@dataclass(frozen=True)
class Unreached:
    """A server that accepted no connection, as messages name it (`the controller at host:9090`), and the reason."""

    server: str
    why: str


class ServerUnavailableError(PravegaError, condition="PRAVEGA_SERVER_UNAVAILABLE", sql_state="08001"):
    """The server could not be reached within the retry time."""

    unreached: Unreached | None = None
    """Set if there was no connection, because nothing listens there or the host is unknown."""
    at_first_contact = False
    """Whether retries ended early, because the server has never answered."""

    cure = "Check the address, and that the server runs: `pyspark-pravega doctor`. Set a longer `retry-timeout` \
for servers that may be away for longer. A server that has never answered is tried for only 10 s, unless it is set, \
and another server at that address is refused at once."


class ServerTimeoutError(PravegaError, condition="PRAVEGA_TIMEOUT", sql_state="HYT00"):
    """The server was reached and did not finish within the time allowed."""

    cure = "Raise `request-timeout`, or look at the load and the log of the server."


class ServerFailedError(PravegaError, condition="PRAVEGA_SERVER_FAILED", sql_state="58000"):
    """The server itself failed; the message carries what it said."""

    cure = "Look at the log of the server that the message names."


class ProtocolError(PravegaError, condition="PRAVEGA_PROTOCOL_ERROR", sql_state="08P01"):
    """A server sent a reply that the protocol does not allow at this point."""

    cure = "Check that a Pravega 0.13 controller, or a schema registry 0.6, has this address, and that no proxy is in \
between."


class ClientClosedError(PravegaError, condition="PRAVEGA_CLIENT_CLOSED", sql_state="08003"):
    """A connection was used after it was closed."""

    cure = "Run the statement again. This happens to statements that run while the session stops."


class RegistryError(PravegaError, condition="PRAVEGA_SCHEMA_REGISTRY_ERROR", sql_state="58000"):
    """The schema registry refused a request."""

    cure = "Look at the log of the schema registry."
    status: int | None = None
    """HTTP status of the answer."""
    group: str | None = None
    """Full name of the schema group, if the request was about one."""


class LakeError(PravegaError, condition="PRAVEGA_LAKE_FAILED", sql_state="58000"):
    """A lake cannot be reached, is not that of the stream, or was changed so that it lacks events."""

    cure = "Do what the message says. `'lake'='ignore'` reads what the stream has alone. See [History in a \
lake](history-in-a-lake.md)."


class ServiceError(PravegaError, condition="PRAVEGA_SERVICE_FAILED", sql_state="58000"):
    """The catalog service could not be started, or ended before it answered."""

    cure = "Run the statement again; the service starts again. If it does not start, name a Python that has \
pyspark-pravega installed, with `PYSPARK_PYTHON` or the catalog's conf `python`."


class SetupError(PravegaError, condition="PRAVEGA_SETUP_FAILED", sql_state="F0000"):
    """Something on this machine is missing or wrong: Java, PySpark's version, a jar, a checksum, a port."""

    cure = "Do what the message says; `pyspark-pravega doctor` looks at everything else too."


class InternalError(PravegaError, condition="PRAVEGA_INTERNAL_ERROR", sql_state="XX000"):
    """A bug in this package; the driver's standard error has the details."""

    cure = "Report it, with the details."
