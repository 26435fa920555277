"""Requests over HTTP/1.1 to one server, on connections that stay open.

The requests are small and many statements begin with some, so this costs what Python's own `http.client` costs and no
more.
"""

from __future__ import annotations

import json
import select
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

from ..config import Endpoint

_KEPT = 8
_IDLE_SECONDS = 15.0
"""Idle connections that are kept, and for how long: the registry's own server closes them after 30 s."""


class ConnectTimeoutError(Exception):
    """The server did not take the connection in time."""


class AnswerTimeoutError(Exception):
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
        self._secure = parts.scheme == "https"
        self.endpoint = Endpoint(parts.hostname or "", parts.port or (443 if self._secure else 80))
        self._prefix = parts.path
        self._context = context
        self._lock = threading.Lock()
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._closed = False

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
        sent = dict(headers)
        content = None
        if body is not None:
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        connection = self._connection(seconds)
        try:
            connection.request(method, f"{path}?{urlencode(query, quote_via=quote)}" if query else path, content, sent)
            answer = connection.getresponse()
            response = Response(method, unquote(path), answer.status, answer.reason, answer.read())
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise AnswerTimeoutError from error
            if isinstance(error, OSError | HTTPException):
                raise NoAnswerError from error
            raise
        if answer.will_close:
            connection.close()
        else:
            self._give_back(connection)
        return response

    def _connection(self, seconds: float) -> HTTPConnection:
        """Take an idle connection that seems to be alive, or a new one."""
        while (idle := self._take()) is not None:
            connection, since = idle
            if time.monotonic() - since < _IDLE_SECONDS and not _has_input(connection):
                connection.sock.settimeout(seconds)
                return connection
            connection.close()
        host, port = self.endpoint.host, self.endpoint.port
        connection = (
            HTTPSConnection(host, port, timeout=seconds, context=self._context)
            if self._secure
            else HTTPConnection(host, port, timeout=seconds)
        )
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ConnectTimeoutError from error
            raise
        return connection

    def _take(self) -> tuple[HTTPConnection, float] | None:
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed; connect again")
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _KEPT:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when they are given back. No request is sent any more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


def _has_input(connection: HTTPConnection) -> bool:
    """Tell whether an idle connection was closed by the server, or got what nobody has asked for."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
