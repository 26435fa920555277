"""Check the servers with real calls: the controller, the segment stores and the schema registry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark_pravega import errors
from pyspark_pravega.client.retry import FirstContact
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.tls import is_tls
from pyspark_pravega.errors import format_count
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import is_internal

from .check_result import CheckResult

if TYPE_CHECKING:
    from pyspark_pravega.client.config import ClientConfig, Endpoint
    from pyspark_pravega.client.controller.controller import Controller

_RETRY_TIMEOUT = "5s"
_STREAMS_LOOKED_AT = 20
_SCOPES_LOOKED_AT = 100
_SEGMENTS_PER_STREAM = 8


def check_servers(settings: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield the answers of the servers of a catalog with these settings."""
    from pyspark_pravega.client.controller.controller import Controller
    from pyspark_pravega.client.tls import load_trust_store
    from pyspark_pravega.datasource.connecting import read_client_config

    quick = {"retry-timeout": _RETRY_TIMEOUT, "request-timeout": _RETRY_TIMEOUT}
    try:
        options = o.resolve(conf={**quick, **settings}, env=environment)
        uri, registry_uri = options.get(o.CONTROLLER_URI), options.get(o.SCHEMA_REGISTRY_URI)
        if uri is None:
            yield CheckResult(
                "Controller",
                False,
                "not set",
                "Set PRAVEGA_CONTROLLER_URI=tcp://host:9090 (tls:// with TLS), or run one here: "
                'pyspark-pravega local start; eval "$(pyspark-pravega local env)"',
            )
            return
        config = read_client_config(options)
        load_trust_store(config)
    except errors.InvalidOptionError as error:
        yield CheckResult("Connection", False, str(error), "")
        return
    scopes: list[str] = []
    with Controller(config, FirstContact(config.retry_timeout)) as controller:
        try:
            scopes = sorted(controller.list_scopes())
            visible = sum(not is_internal(scope) for scope in scopes)
            yield CheckResult("Controller", True, f"{uri} answers: {format_count(visible, 'scope')}")
        except errors.PermissionDeniedError as error:
            # A user who may not list scopes can still use scopes by name.
            scopes = [scope for scope in [options.get(o.SCOPE)] if scope is not None]
            yield CheckResult("Controller", True, f"{uri} knows this user: {error.message}", _NO_SCOPES, sure=False)
        except errors.PravegaError as error:
            yield _describe_failure("Controller", uri, error, config.controller_endpoints[0], config.tls)
            yield from _check_registry(config, registry_uri, [])
            return
        yield from _check_segment_stores(controller, config, scopes)
    yield from _check_registry(config, registry_uri, [scope for scope in scopes if not is_internal(scope)])


def _check_registry(config: ClientConfig, uri: str | None, scopes: Sequence[str]) -> Iterator[CheckResult]:
    """Count the schema groups in the namespaces of these scopes; without scopes, check that the registry answers."""
    from pyspark_pravega.client.config import Endpoint
    from pyspark_pravega.client.registry.schema_registry import SchemaRegistry

    if uri is None:
        yield CheckResult(
            "Schema registry",
            False,
            "not set",
            "Set PRAVEGA_SCHEMA_REGISTRY_URI=http://host:9092 (https:// with TLS). Without it there are only "
            "formats whose columns are not kept there, such as raw, text and csv.",
        )
        return
    groups = 0
    looked_at: list[str | None] = [*scopes[:_SCOPES_LOOKED_AT]]
    try:
        for namespace in looked_at or [None]:
            with SchemaRegistry(config, namespace) as registry:
                groups += len(registry.groups())
    except errors.PermissionDeniedError as error:
        yield CheckResult("Schema registry", True, f"{uri} knows this user: {error.message}", _NO_GROUPS, sure=False)
    except errors.PravegaError as error:
        parts = urlsplit(uri)
        tls = parts.scheme == "https"
        endpoint = Endpoint(parts.hostname or "", parts.port or (443 if tls else 80))
        yield _describe_failure("Schema registry", uri, error, endpoint, tls)
    else:
        some = "" if len(looked_at) == len(scopes) else f" of the first {len(looked_at)} scopes"
        text = f"{uri} answers" + (f": {format_count(groups, 'schema group')}{some}" if looked_at else "")
        yield CheckResult("Schema registry", True, text)


def _describe_failure(subject: str, uri: str, error: errors.PravegaError, endpoint: Endpoint, tls: bool) -> CheckResult:
    advice = _ADVICE.get(error.condition, "")
    if error.condition in ("PRAVEGA_TLS_FAILED", "PRAVEGA_SERVER_UNAVAILABLE", "PRAVEGA_TIMEOUT"):
        speaks = is_tls(endpoint)
        if speaks is not None and speaks != tls:
            advice = _advise_other_scheme(urlsplit(uri).scheme, endpoint)
    return CheckResult(subject, False, f"{uri}: {error}", advice)


def _advise_other_scheme(scheme: str, endpoint: Endpoint) -> str:
    """Advise an address with TLS instead of one without, or vice versa."""
    other = {"http": "https", "https": "http", "tcp": "tls", "pravega": "pravegas", "pravegas": "pravega"}.get(
        scheme, "tcp"
    )
    if other in ("https", "tls", "pravegas"):
        return (
            f"The server speaks TLS: write {other}://{endpoint}, and set PRAVEGA_TRUST_STORE to a PEM file with the "
            "authority that signed its certificate, unless the system trusts it."
        )
    return f"The server does not speak TLS: write {other}://{endpoint}."


def _check_segment_stores(controller: Controller, config: ClientConfig, scopes: Sequence[str]) -> Iterator[CheckResult]:
    """Greet the segment stores that hold streams of this user, because data does not pass through the controller."""
    try:
        streams = itertools.islice(_list_streams(controller, scopes), _STREAMS_LOOKED_AT)
        endpoints = {endpoint for stream in streams for endpoint in _find_stores(controller, stream)}
    except errors.PravegaError as error:
        yield CheckResult("Segment store", False, str(error), _STORE_ADVICE)
        return
    if not endpoints:
        text = "not checked, because there is no stream that this user may read"
        yield CheckResult("Segment store", True, text, _NO_STREAMS, sure=False)
    for endpoint in sorted(endpoints):
        yield greet(endpoint, config)


def _list_streams(controller: Controller, scopes: Sequence[str]) -> Iterator[Stream]:
    """Yield the streams that this user may see. Pravega's own, which also serve, come last."""
    for scope in sorted(scopes, key=lambda scope: (is_internal(scope), scope)):
        try:
            names = controller.list_streams(scope)
        except (errors.PermissionDeniedError, errors.ScopeNotFoundError):  # dropped just now
            continue
        yield from (Stream(scope, name) for name in names)


def _find_stores(controller: Controller, stream: Stream) -> set[Endpoint]:
    """Return where the first segments of a stream are; nothing if the user may not know, or the stream is dropped."""
    try:
        segments = list(controller.head(stream).positions)[:_SEGMENTS_PER_STREAM]
        return {controller.segment_location(stream, segment_id) for segment_id in segments}
    except (errors.PermissionDeniedError, errors.StreamNotFoundError):
        return set()


def greet(endpoint: Endpoint, config: ClientConfig) -> CheckResult:
    """Connect to a segment store and exchange greetings, as every task that reads or writes does."""
    from pyspark_pravega.client.segments.connection import Connection
    from pyspark_pravega.client.tls import make_ssl_context

    try:
        context = make_ssl_context(config) if config.tls else None
        Connection.open(endpoint, context, config.request_timeout).close()
    except errors.PravegaError as error:
        return CheckResult(
            "Segment store", False, f"{endpoint}: {error}", _TLS_ADVICE.get(error.condition, _STORE_ADVICE)
        )
    return CheckResult("Segment store", True, f"{endpoint} greets")


_NO_SCOPES = (
    "SHOW NAMESPACES needs READ on 'prn::/'. Without it, name a scope that the user may read (PRAVEGA_SCOPE) and run "
    "this again."
)
_NO_GROUPS = "CREATE TABLE and reading by a schema need rights in the registry as well; its administrator grants them."
_NO_STREAMS = (
    "Data goes between Spark and the segment stores directly. Run this again as a user who may read a stream, or when "
    "there is one."
)
_STORE_ADVICE = (
    "The controller gives this address to every client. It must lead to the segment store from here and from every "
    "executor: set the address that the store publishes (HOST_IP of the standalone container, "
    "pravegaservice.service.published.host.nameOrIp and .port elsewhere), and open its port."
)
_ADVICE = {
    "PRAVEGA_SERVER_UNAVAILABLE": "Is the server running, and is the address right?",
    "PRAVEGA_TIMEOUT": "Is the address right, or does a firewall block it?",
    "PRAVEGA_AUTHENTICATION_FAILED": "Set pravega_client_auth_method=Basic and pravega_client_auth_token to base64 of "
    "user:password, or security.username and security.password in the catalog's conf.",
    "PRAVEGA_TLS_FAILED": "Set PRAVEGA_TRUST_STORE to a PEM file with the authority that signed the server's "
    "certificate; when only the host name differs, security.validate-hostname=false in the catalog's conf.",
}
_TLS_ADVICE = {"PRAVEGA_TLS_FAILED": _ADVICE["PRAVEGA_TLS_FAILED"]}
