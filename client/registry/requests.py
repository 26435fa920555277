"""Requests to the schema registry about the groups of one namespace: tried again, checked, and refused by name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from pyspark_pravega.errors import (
    InvalidOptionError,
    PravegaError,
    ProtocolError,
    ServerTimeoutError,
    ServerUnavailableError,
    Unreached,
)

from .. import tls
from ..config import ClientConfig
from ..credentials import make_authorization_header
from ..retry import FirstContact, describe_unreached, retry
from .http import (
    UNAVAILABLE_STATUS,
    HttpServer,
    Right,
    is_transient,
    make_refusal,
)

_log = logging.getLogger(__name__)

Parsed = TypeVar("Parsed")

_NEVER_ANSWERED = (
    ". Registry 0.6.0 never answers when a schema is added to a group of format Any that has the type name in another "
    "format"
)


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


class RegistryRequests:
    """Sends requests about one namespace (None is the default one) and keeps the connections."""

    def __init__(self, config: ClientConfig, namespace: str | None, first_contact: FirstContact) -> None:
        if config.registry_uri is None:
            raise InvalidOptionError(
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
        """Close the connections."""
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
            raise ProtocolError(
                f"the answer of the server at {self.endpoint} to {what} is not JSON; is it a schema registry?"
            ) from error
        try:
            return parse(reply)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(
                f"the registry's answer to {what} does not have the expected form ({error!r})"
            ) from error

    def send(self, request: Request, tries: list[float] | None = None) -> httpx.Response:
        """Send a request that is safe to repeat, and add to `tries` the seconds that each try had left."""

        def send(seconds: float) -> httpx.Response:
            if tries is not None:
                tries.append(seconds)
            return self._send_once(request, seconds)

        return retry(
            send, timeout=self._config.retry_timeout, transient=is_transient, first_contact=self._first_contact
        )

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
            raise ServerUnavailableError(
                f"the schema registry at {self.endpoint} answered {response.status_code} ({response.reason_phrase})"
            )
        if response.is_success:
            return response
        raise make_refusal(response, self.endpoint, namespace=self._namespace, group=request.group, right=request.right)

    def _unreachable(self, error: httpx.HTTPError | OSError, method: str, path: str, limit: float) -> PravegaError:
        name = f"the schema registry at {self.endpoint}"
        if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
            return ServerTimeoutError(
                f"{name} did not take the connection within {limit:.3g} s; is it up, and does it speak the "
                "protocol of the address (http:// or https://)?"
            )
        if isinstance(error, httpx.TimeoutException):
            return ServerTimeoutError(
                f"{name} did not answer {method} {path} within {limit:.3g} s. It hangs or is overloaded: look at its "
                "log, or raise the request timeout" + (_NEVER_ANSWERED if method == "POST" else "")
            )
        if isinstance(error, httpx.HTTPError):
            return ServerUnavailableError(
                f"{name} closed the connection without an answer; if it expects TLS, use an https:// address"
            )
        failure = tls.make_connection_error(error, self.endpoint)
        if not isinstance(failure, ServerUnavailableError):
            return failure
        why = describe_unreached(error)
        unavailable = ServerUnavailableError(
            f"cannot reach {name} ({why or error}); check the address, and that the server runs. A registry whose own "
            "Pravega user lacks rights runs without ever opening its port; its log says so"
        )
        unavailable.unreached = None if why is None else Unreached(name, why)
        return unavailable
