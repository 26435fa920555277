"""The servers that this process answers, and what becomes of their leases when they end."""

from __future__ import annotations

import threading

from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.sql import options as o

from ..storage.catalogs import CATALOG_NAME, Catalog, Connections
from .tending import QueryServer

_RELEASE_SECONDS = 5.0


class QueryServers:
    """The servers that this process answers, one for each catalog of a driver. Thread-safe."""

    def __init__(self) -> None:
        """Begin without servers."""
        self._lock = threading.Lock()
        self._servers: dict[tuple[str, str], tuple[QueryServer, dict[str, str]]] = {}

    def get(self, catalog: Catalog, server: str) -> QueryServer:
        """Return a server, which begins without queries."""
        conf = {**catalog.conf, CATALOG_NAME: catalog.name}
        with self._lock:
            known = self._servers.get((server, catalog.name))
            if known is None:
                lease = catalog.options().get(o.QUERIES_LEASE).total_seconds()
                known = self._servers[server, catalog.name] = QueryServer(server, lease), conf
            return known[0]

    def wake(self) -> None:
        """Let all servers look at their queries soon."""
        with self._lock:
            for server, _ in self._servers.values():
                server.wake()

    def release(self, catalog: Catalog, server: str) -> None:
        """Give all leases of a server back, and forget it."""
        with self._lock:
            found = self._servers.pop((server, catalog.name), None)
        if found is not None:
            with limit_retries(_RELEASE_SECONDS):
                found[0].release(catalog)

    def release_all(self, connections: Connections) -> None:
        """Give the leases of all servers back, because the driver has ended."""
        with self._lock:
            servers = list(self._servers.values())
            self._servers.clear()
        for server, conf in servers:
            with connections.catalog(conf) as catalog, limit_retries(_RELEASE_SECONDS):
                server.release(catalog)
