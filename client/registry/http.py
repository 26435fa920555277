"""Requests over HTTP/1.1 to the schema registry, and the errors that its refusals become."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from pyspark_pravega.errors import (
    AuthenticationError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    PermissionDeniedError,
    PravegaError,
    ProtocolError,
    RegistryError,
    SchemaExistsError,
    SchemaNotFoundError,
    ServerUnavailableError,
)

from ..config import Endpoint

_KEPT = 64
"""Idle connections that are kept at most: of many statements at the same time, each with several requests."""

# That one more connection is not kept is nobody's concern.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


class NotTakenError(Exception):
    """The server did not take the connection in time."""


class NotAnsweredError(Exception):
    """The server took the connection, and did not answer in time."""


class NoAnswerError(Exception):
    """The connection was closed without an answer, or what came is no HTTP."""


@dataclass(frozen=True)
class Response:
    """The answer to a request; `path` is that of the request, as people write it."""

    method: str
    path: str
    status: int
    reason: str
    body: bytes

    @property
    def is_success(self) -> bool:
        """Tell whether the server has done what it was asked for."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """Return the body as text, whatever it is."""
        return self.body.decode("utf-8", errors="replace")

    def json(self) -> Any:
        """Return the body's JSON. Raises ValueError if it is none."""
        return json.loads(self.body)


class HttpServer:
    """One server, by the address at which all its paths begin. Thread-safe; a request has a connection for itself."""

    def __init__(self, uri: str, context: ssl.SSLContext | None) -> None:
        """`context` is for https. Nothing is sent yet."""
        parts = urlsplit(uri.rstrip("/"))
        secure = parts.scheme == "https"
        self.endpoint = Endpoint(parts.hostname or "", parts.port or (443 if secure else 80))
        self._prefix = parts.path
        host, port = self.endpoint.host, self.endpoint.port
        # No proxy of the environment comes between: the server belongs to the cluster.
        self._pool = (
            urllib3.HTTPSConnectionPool(host, port, maxsize=_KEPT, ssl_context=context)
            if secure
            else urllib3.HTTPConnectionPool(host, port, maxsize=_KEPT)
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
        seconds: float,
    ) -> Response:
        """Send a request and return its answer, whatever its status. `body` goes as JSON; None: there is none.

        `seconds` bounds the wait for the connection and each wait for the answer. Raises what stands above, and OSError
        when the server cannot be connected to.
        """
        path = f"{self._prefix}{path}"
        try:
            answer = self._pool.request(
                method,
                f"{path}?{urlencode(query)}" if query else path,
                json=body,
                headers=dict(headers),
                timeout=seconds,
                retries=False,
            )
        except ClosedPoolError as error:
            raise RuntimeError("the client is closed; connect again") from error
        except HTTPError as error:
            raise _find_cause(error) from error
        return Response(method, unquote(path), answer.status, answer.reason or "", answer.data)

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are given back. No request is sent any more."""
        self._pool.close()


def _find_cause(error: HTTPError) -> Exception:
    """Return what went wrong: one of the errors above, or the OSError for which there is no connection."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, NewConnectionError) and isinstance(cause, OSError):
        return cause
    if isinstance(error, SSLError) and error.args and isinstance(error.args[0], OSError):
        return error.args[0]
    if isinstance(error, ConnectTimeoutError):
        return NotTakenError()
    if isinstance(error, ReadTimeoutError):
        # A server that does not speak TLS keeps silent when it is greeted with it.
        return NotTakenError() if "handshake" in str(cause) else NotAnsweredError()
    return NoAnswerError()


_LONGEST_REASON = 300


def refusal(
    response: Response, endpoint: Endpoint, *, namespace: str | None, group: str | None, right: str
) -> PravegaError:
    """Make the error for a status that is no success. `right` says what was tried with the group."""
    status = response.status
    reason = _reason(response)
    path = response.path
    adding_schema = response.method == "POST" and path.endswith("/schemas")
    if group is None:
        target = "the schema registry"
    else:
        target = f"the schema group '{group}' of " + (
            "the default namespace" if namespace is None else f"namespace '{namespace}'"
        )
    if status == 401:
        return AuthenticationError(
            "the schema registry knows no such user, or the password is wrong"
            + (f" ({target})" if group is not None else "")
            + "; check the credentials"
        )
    if status == 403:
        return PermissionDeniedError(
            f"the user may not {right} {target}; grant {_needed_permission(namespace, group, right)}"
        )
    if status == 404 and path.endswith("/v1/groups"):
        return ProtocolError(f"what answers at {endpoint} is no schema registry; check its address")
    if status == 404:
        return SchemaNotFoundError(f"{target} is not there, or has nothing at {path}{reason}")
    if status == 409:
        if right == "create":
            return SchemaExistsError(f"{target} exists already")
        if adding_schema:
            return IncompatibleSchemaError(
                f"{target} refuses the schema: its compatibility policy does not allow the change, or it "
                f"takes one type only{reason}"
            )
        return IncompatibleSchemaError(f"{target} was changed by somebody else meanwhile{reason}")
    if status in (400, 417) and adding_schema:
        what = "its format is not that of the group" if status == 417 else "it cannot be parsed or is misnamed"
        return InvalidSchemaError(f"{target} refuses the schema: {what}{reason}")
    error = RegistryError(f"the schema registry answered {status} when asked to {right} {target}{reason}")
    error.status = status
    error.group = group
    return error


def is_transient(error: BaseException) -> bool:
    """Tell whether a request that may be repeated is sent again: the registry is away, or answered 500.

    Registry 0.6.0 answers 500 for some seconds while Pravega's containers move to another server ("updateEntries in
    table: _schemaregistry/groups/0" in its log). On secured servers it answers so to the first change after its own
    token for Pravega has expired: it gets a new token and then sends a buffer that is freed already
    (IllegalReferenceCountException).
    """
    return isinstance(error, ServerUnavailableError) or (isinstance(error, RegistryError) and error.status == 500)


def _reason(response: Response) -> str:
    text = response.text.strip()
    # Internal errors come as HTML pages that say nothing.
    if not text or text.startswith("<"):
        return ""
    return f" ({text[:_LONGEST_REASON]})"


def _needed_permission(namespace: str | None, group: str | None, right: str) -> str:
    """Return the permission to ask for, in the notation of the registry's password file."""
    scope = "prn::/" if namespace is None else f"prn::/namespace:{namespace}"
    if group is None or right == "create":
        return f"{scope},READ_UPDATE"
    resource = f"prn::/namespace:{namespace or '/'}/group:{group}"
    if right in ("add a schema to", "delete a schema of"):
        return f"{resource}/schemas:*,READ_UPDATE"
    if right == "add a codec to":
        return f"{resource}/codecs:*,READ"
    return f"{resource},READ" if right == "read" else f"{resource},READ_UPDATE"
