"""Requests over HTTP/1.1 to one server, on connections that stay open.

The requests are small, and many statements begin with some. urllib3 takes about half the processor time of the larger
libraries for them.
"""

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
            raise _reason(error) from error
        return Response(method, unquote(path), answer.status, answer.reason or "", answer.data)

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are given back. No request is sent any more."""
        self._pool.close()


def _reason(error: HTTPError) -> Exception:
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
