"""Idle connections to segment stores, kept for the next request."""

from __future__ import annotations

import ssl
import threading

from ..config import ClientConfig, Endpoint
from ..tls import ssl_context
from .connection import Connection

_KEPT = 8
"""Idle connections kept per segment store."""


class ConnectionPool:
    """Thread-safe. A borrowed connection belongs to the borrower alone until it is given back or closed."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._idle: dict[Endpoint, list[Connection]] = {}
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def borrow(self, endpoint: Endpoint, seconds: float) -> Connection:
        """Take an idle connection that still seems to be alive, or a new one. `seconds` bounds each wait.

        Raises what `Connection.open` raises, and RuntimeError after `close`.
        """
        while True:
            with self._lock:
                self._check_open()
                idle = self._idle.get(endpoint)
                connection = idle.pop() if idle else None
            if connection is None:
                return self.open(endpoint, seconds)
            if not connection.has_input():
                connection.set_timeout(seconds)
                return connection
            # The other side has closed it, or sent something nobody waits for.
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

    def give_back(self, connection: Connection) -> None:
        """Keep a connection on which no reply is outstanding."""
        with self._lock:
            idle = self._idle.setdefault(connection.endpoint, [])
            if not self._closed and len(idle) < _KEPT:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all idle connections; those borrowed are closed when given back."""
        with self._lock:
            self._closed = True
            connections = [connection for idle in self._idle.values() for connection in idle]
            self._idle.clear()
        for connection in connections:
            connection.close()
