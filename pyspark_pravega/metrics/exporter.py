"""Measures again and again, and shows Prometheus the newest measurement."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from pyspark_pravega.errors import PravegaError, SetupError, describe_os_error

from .families import Family, make_families
from .measurement import Changes, Measurement

_log = logging.getLogger(__name__)


class Exporter(Collector):
    """The newest measurement as metrics. Thread-safe: one thread measures, others show."""

    def __init__(self, measure: Callable[[], Measurement]) -> None:
        """Measure nothing yet."""
        self._measure = measure
        self._lock = threading.Lock()
        self._newest: Measurement | None = None
        self._changes = Changes()

    def refresh(self) -> None:
        """Measure once. If a server cannot be reached, log it, and show `pravega_up` as 0."""
        newest = None
        try:
            newest = self._measure()
        except PravegaError as error:
            _log.warning("Nothing was measured: %s", error.for_user())
        with self._lock:
            self._newest = newest
            if newest is not None:
                self._changes.note(newest.streams, newest.began)

    def refresh_every(self, seconds: float, stop: threading.Event) -> None:
        """Measure until `stop` is set, with `seconds` from one beginning to the next, or without a pause."""
        while not stop.is_set():
            began = time.monotonic()
            self.refresh()
            stop.wait(max(0.0, seconds - (time.monotonic() - began)))

    def collect(self) -> Iterable[Family]:
        """Return the metrics."""
        with self._lock:
            return list(make_families(self._newest, self._changes))


def serve(exporter: Exporter, host: str, port: int) -> WSGIServer:
    """Show the metrics by HTTP from a thread of its own; port 0 is any free one. Raises SetupError."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    try:
        server, _ = start_http_server(port, host, registry)
        return server
    except (OSError, UnicodeError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else "it is not the name of a host"
        raise SetupError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another address or port with --host and --port."
        ) from error
