"""Idle connections to segment stores, kept for the next request or the next writer."""

from __future__ import annotations

import ssl
import threading
import time

from ..config import ClientConfig, Endpoint
from ..tls import ssl_context
from .connection import Connection

_KEPT = 8
"""Idle connections kept per segment store, for requests and for writers each."""

IDLE_SECONDS = 60.0
"""Idle time after which a connection is not used again: what lies between may have forgotten it without a word."""

_MOST_WRITERS = 256
"""Writers set up on one connection: the segment store remembers each of them until the connection ends."""


class ConnectionPool:
    """Thread-safe. A borrowed connection belongs to the borrower alone until it is given back or closed.

    Connections of writers are kept apart: a segment store ends them when the token of a writer expires.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._idle: dict[tuple[Endpoint, bool], list[tuple[Connection, float]]] = {}
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def borrow(self, endpoint: Endpoint, seconds: float, *, writing: bool = False) -> Connection:
        """Take an idle connection that still seems to be alive, or a new one. `seconds` bounds each wait.

        Raises what `Connection.open` raises, and RuntimeError after `close`.
        """
        while True:
            with self._lock:
                self._check_open()
                idle = self._idle.get((endpoint, writing))
                connection, since = idle.pop() if idle else (None, 0.0)
            if connection is None:
                return self.open(endpoint, seconds)
            fresh = time.monotonic() - since < IDLE_SECONDS and time.time() < connection.usable_until
            if fresh and not connection.has_input():
                connection.set_timeout(seconds)
                return connection
            # Too old, or the other side has closed it or sent something nobody waits for.
            connection.close()

    def open(self, endpoint: Endpoint, seconds: float) -> Connection:
        """Open a new connection."""
        with self._lock:
            self._check_open()
            if self._config.tls and self._context is None:
                self._context = ssl_context(self._config)
        return Connection.open(endpoint, self._context, seconds)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed; connect again")

    def give_back(self, connection: Connection, *, writing: bool = False) -> None:
        """Keep a connection on which no reply is outstanding."""
        connection.used_before = True
        with self._lock:
            idle = self._idle.setdefault((connection.endpoint, writing), [])
            if not self._closed and len(idle) < _KEPT and connection.writers < _MOST_WRITERS:
                idle.append((connection, time.monotonic()))
                return
        connection.close()

    def forget(self, endpoint: Endpoint) -> None:
        """Close the idle connections to a segment store, because one of them turned out to be dead."""
        with self._lock:
            idle = [entry for writing in (False, True) for entry in self._idle.pop((endpoint, writing), ())]
        for connection, _ in idle:
            connection.close()

    def close(self) -> None:
        """Close all idle connections; those borrowed are closed when given back."""
        with self._lock:
            self._closed = True
            connections = [connection for idle in self._idle.values() for connection, _ in idle]
            self._idle.clear()
        for connection in connections:
            connection.close()
