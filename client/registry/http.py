"""Requests to the schema registry over HTTP/1.1: tried again, checked, and refused by name."""

from __future__ import annotations

import enum
import logging
import ssl
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import httpx

from pyspark_pravega import errors

from .. import tls
from ..config import ClientConfig, Endpoint
from ..credentials import make_authorization_header
from ..retry import FirstContact, retry

_log = logging.getLogger(__name__)

Parsed = TypeVar("Parsed")

_KEPT, _KEPT_SECONDS = 64, 30.0
"""Most idle connections that are kept, and for how long: statements at the same time have several requests each."""

_LONGEST_REASON = 300
"""Most characters of the registry's own words in a message."""

_NEVER_ANSWERED = (
    ". Registry 0.6.0 never answers when a schema is added to a group of format Any that has the type name in another "
    "format"
)


class HttpServer:
    """One server, by the address with which all its URLs begin. Thread-safe: no two requests share a connection."""

    def __init__(self, uri: str, context: ssl.SSLContext | None) -> None:
        """Send nothing yet. `context` is for https. Raises InvalidOptionError for an address that no URL can have."""
        base = uri.rstrip("/")
        try:
            httpx.URL(base)
        except httpx.InvalidURL as error:
            raise errors.InvalidOptionError(
                f"the schema registry address {uri} is not valid ({error}); give one such as http://localhost:9092"
            ) from None
        parts = urlsplit(base)
        self.endpoint = Endpoint(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self._base = base
        # Without https nothing is verified, and the system's certificates would be read for nothing.
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if context is None else context
        self._lock = threading.Lock()
        self._idle: list[tuple[float, httpx.HTTPTransport]] = []
        self._busy: set[httpx.HTTPTransport] = set()
        self._closed = False

    def request(
        self, method: str, path: str, *, query: Mapping[str, str], body: Any, headers: Mapping[str, str], seconds: float
    ) -> httpx.Response:
        """Send a request and return its answer, whatever its status.

        `body` is sent as JSON, unless it is None. `seconds` bounds the wait for the connection and each wait for the
        answer. Raises the errors of httpx, and OSError if there is no connection.
        """
        url = f"{self._base}{path}?{urlencode(query)}" if query else f"{self._base}{path}"
        timeout = {"timeout": httpx.Timeout(seconds).as_dict()}
        request = httpx.Request(method, url, json=body, headers=headers, extensions=timeout)
        try:
            with self._borrow() as transport, closing(transport.handle_request(request)) as answer:
                answer.read()
                if self._closed:  # since this request began: the transport may not know its connection any more
                    answer.extensions["network_stream"].close()
        except httpx.ConnectError as error:
            if (reason := _find_system_error(error)) is not None:
                raise reason from error
            raise
        answer.request = request
        return answer

    def _make_transport(self) -> httpx.HTTPTransport:
        """Make a transport of one connection: one of several looks at each of them for every request.

        There is no client above it, which writes a line into the log of the program for each request, and follows
        proxies of the environment: the server belongs to the cluster.
        """
        limits = httpx.Limits(max_connections=1, keepalive_expiry=None)
        return httpx.HTTPTransport(verify=self._context, trust_env=False, limits=limits)

    @contextmanager
    def _borrow(self) -> Iterator[httpx.HTTPTransport]:
        """Yield a transport that no other request uses. Close those that none has used for long."""
        now = time.monotonic()
        with self._lock:
            if self._closed:
                raise errors.ClientClosedError("the client is closed; connect again")
            transport = self._idle.pop()[1] if self._idle else self._make_transport()
            self._busy.add(transport)
            recent = bisect_left(self._idle, now - _KEPT_SECONDS, key=itemgetter(0))
            old, self._idle = self._idle[:recent], self._idle[recent:]
        for _, unused in old:  # the server may have closed its connection, which only a request would notice
            unused.close()
        try:
            yield transport
        finally:
            with self._lock:
                self._busy.remove(transport)
                if keeps := not self._closed and len(self._idle) < _KEPT:
                    self._idle.append((time.monotonic(), transport))
            if not keeps:
                transport.close()

    def close(self) -> None:
        """Close the connections. Requests that wait for an answer fail, and so do later ones."""
        with self._lock:
            self._closed = True
            transports = [*(transport for _, transport in self._idle), *self._busy]
        for transport in transports:
            transport.close()


def _find_system_error(error: BaseException) -> OSError | None:
    """Return the OSError that prevented a connection; ssl.SSLError is one."""
    cause = error.__cause__ or error.__context__
    return cause if cause is None or isinstance(cause, OSError) else _find_system_error(cause)


class Right(enum.Enum):
    """What a request does with the registry or a group, as words that messages put in front of its name."""

    READ = "read"
    CREATE = "create"
    DELETE = "delete"
    SET_POLICY = "set the policy of"
    ADD_SCHEMA = "add a schema to"
    DELETE_SCHEMA = "delete a schema of"
    ADD_CODEC = "add a codec to"


@dataclass(frozen=True)
class Request:
    """A request, the group that it is about, and the right that it needs there."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    group: str | None = None
    right: Right = Right.READ

    @classmethod
    def of_group(
        cls,
        method: str,
        group: str,
        rest: str = "",
        *,
        body: Mapping[str, Any] | None = None,
        right: Right = Right.READ,
    ) -> Request:
        """Return a request for a group, or for what has the path `rest` in it."""
        # Special characters, `/` and blanks are escaped, and dots in `.` and `..`.
        name = group.replace(".", "%2E") if group in (".", "..") else quote(group, safe="")
        path = f"/v1/groups/{name}/{rest}" if rest else f"/v1/groups/{name}"
        return cls(method, path, body=body, group=group, right=right)


UNAVAILABLE_STATUS = (429, 502, 503, 504)
"""The answers of a registry with too many requests, and of a proxy whose registry is unreachable: like no answer, they
are a ServerUnavailableError."""


def is_transient(error: BaseException) -> bool:
    """Return whether a request that may be repeated is sent again: the registry is unreachable, or answered 500.

    Registry 0.6.0 answers 500 for some seconds while Pravega's containers move to another server ("updateEntries in
    table: _schemaregistry/groups/0" in its log). On secured servers it also answers 500 to the first change after its
    own token for Pravega has expired: it gets a new token, and then sends a buffer that is already freed
    (IllegalReferenceCountException).
    """
    return isinstance(error, errors.ServerUnavailableError) or (
        isinstance(error, errors.RegistryError) and error.status == 500
    )


def _read_reason(response: httpx.Response) -> str:
    text = response.text.strip()
    # Internal errors come as HTML pages that say nothing.
    if not text or text.startswith("<"):
        return ""
    return f" ({text[:_LONGEST_REASON]})"


def _name_needed_permission(namespace: str | None, group: str | None, right: Right) -> str:
    """Return the permission to ask for, in the notation of the registry's password file."""
    scope = "prn::/" if namespace is None else f"prn::/namespace:{namespace}"
    if group is None or right is Right.CREATE:
        return f"{scope},READ_UPDATE"
    resource = f"prn::/namespace:{namespace or '/'}/group:{group}"
    if right in (Right.ADD_SCHEMA, Right.DELETE_SCHEMA):
        return f"{resource}/schemas:*,READ_UPDATE"
    if right is Right.ADD_CODEC:
        return f"{resource}/codecs:*,READ"
    return f"{resource},READ" if right is Right.READ else f"{resource},READ_UPDATE"


class RegistryRequests:
    """Sends requests about one namespace (None is the default one) and keeps the connections."""

    kind = "the schema registry"
    advice = ". A registry whose own Pravega user lacks rights runs without ever opening its port; its log says so"
    """What messages call it, and what they add if it is unreachable."""

    def __init__(self, config: ClientConfig, namespace: str | None, first_contact: FirstContact) -> None:
        if config.registry_uri is None:
            raise errors.InvalidOptionError(
                "no schema registry address is set; set PRAVEGA_SCHEMA_REGISTRY_URI or 'schema-registry-uri', for "
                "example to http://localhost:9092"
            )
        self._config = config
        self._namespace = namespace
        self._first_contact = first_contact
        secure = urlsplit(config.registry_uri).scheme == "https"
        self._http = HttpServer(config.registry_uri, tls.make_ssl_context(config) if secure else None)
        self.endpoint = self._http.endpoint

    def close(self) -> None:
        self._http.close()

    def ask(self, request: Request, parse: Callable[[Any], Parsed]) -> Parsed:
        """Send a request that is safe to repeat, and return what `parse` makes of the JSON of its answer.

        Raises ProtocolError if the answer is no JSON, or `parse` finds another form than it expects.
        """
        response = self.send(request)
        what = f"{request.method} {request.path}"
        try:
            reply = response.json()
        except ValueError as error:
            raise errors.ProtocolError(
                f"the answer of the server at {self.endpoint} to {what} is not JSON; is it a schema registry?"
            ) from error
        try:
            return parse(reply)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.ProtocolError(
                f"the registry's answer to {what} does not have the expected form ({error!r})"
            ) from error

    def send(self, request: Request) -> httpx.Response:
        """Send a request that is safe to repeat."""
        send, limit = partial(self._send_once, request), self._config.retry_timeout
        return retry(send, timeout=limit, transient=is_transient, first_contact=self._first_contact)

    def _send_once(self, request: Request, seconds: float) -> httpx.Response:
        method, path = request.method, request.path
        parameters = dict(request.query)
        if self._namespace is not None:
            parameters["namespace"] = self._namespace
        authorization = make_authorization_header(self._config.effective_registry_credentials)
        limit = min(self._config.request_timeout, seconds)
        started = time.monotonic()
        try:
            response = self._http.request(
                method,
                path,
                query=parameters,
                body=request.body,
                headers={"Accept": "application/json"}
                | ({} if authorization is None else {"Authorization": authorization}),
                seconds=limit,
            )
        except (httpx.HTTPError, OSError) as error:
            raise self._unreachable(error, method, path, limit) from error
        self._first_contact.note_answer()
        _log.debug("%s %s at %s took %.1f ms", method, path, self.endpoint, (time.monotonic() - started) * 1e3)
        if response.status_code in UNAVAILABLE_STATUS:
            raise errors.ServerUnavailableError(
                f"{self.kind} at {self.endpoint} answered {response.status_code} ({response.reason_phrase})"
            )
        if response.is_success:
            return response
        raise self.refuse(response, request)

    def refuse(self, response: httpx.Response, request: Request) -> errors.PravegaError:
        """Make the error for a status that is not a success."""
        status, group, right, namespace = response.status_code, request.group, request.right, self._namespace
        reason, path = _read_reason(response), response.request.url.path
        if group is None:
            target = "the schema registry"
        else:
            target = f"the schema group '{group}' of " + (
                "the default namespace" if namespace is None else f"namespace '{namespace}'"
            )
        if status == 401:
            return errors.AuthenticationError(
                "the schema registry knows no such user, or the password is wrong"
                + (f" ({target})" if group is not None else "")
                + "; check the credentials, and give them in the same place as its address"
            )
        if status == 403:
            return errors.PermissionDeniedError(
                f"the user may not {right.value} {target}; grant {_name_needed_permission(namespace, group, right)}"
            )
        if status == 404 and path.endswith("/v1/groups"):
            return errors.ProtocolError(f"the server at {self.endpoint} is not a schema registry; check the address")
        if status == 404:
            return errors.SchemaNotFoundError(f"{target} does not exist, or has nothing at {path}{reason}")
        if status == 409:
            if right is Right.CREATE:
                return errors.SchemaExistsError(f"{target} already exists")
            if right is Right.ADD_SCHEMA:
                return errors.IncompatibleSchemaError(
                    f"{target} refuses the schema: its compatibility policy does not allow the change, or the "
                    f"group takes only one type{reason}"
                )
            return errors.IncompatibleSchemaError(f"{target} was changed by another client in the meantime{reason}")
        if status in (400, 417) and right is Right.ADD_SCHEMA:
            what = "its format differs from the group's" if status == 417 else "it cannot be parsed or is misnamed"
            return errors.InvalidSchemaError(f"{target} refuses the schema: {what}{reason}")
        error = errors.RegistryError(
            f"the schema registry answered {status} when asked to {right.value} {target}{reason}"
        )
        error.status, error.group = status, group
        return error

    def _unreachable(
        self, error: httpx.HTTPError | OSError, method: str, path: str, limit: float
    ) -> errors.PravegaError:
        name = f"{self.kind} at {self.endpoint}"
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            return errors.ServerTimeoutError(
                f"{name} did not take the connection within {limit:.3g} s; is it up, and does it speak the "
                "protocol of the address (http:// or https://)?"
            )
        if isinstance(error, httpx.TimeoutException):
            return errors.ServerTimeoutError(
                f"{name} did not answer {method} {path} within {limit:.3g} s. It hangs or is overloaded: look at its "
                "log, or raise the request timeout" + (_NEVER_ANSWERED if method == "POST" else "")
            )
        if isinstance(error, httpx.HTTPError):
            return errors.ServerUnavailableError(
                f"{name} closed the connection without an answer; if it expects TLS, use an https:// address"
            )
        return tls.make_connection_error(error, self.endpoint, self.kind, self.advice)
