"""Remembers for an hour how rates and lags have changed, and draws them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_pravega.client.recent import Recent

WIDTH, HEIGHT = 240, 40
_SECONDS = 3600.0
_CLOSEST = 2.0
"""Seconds between two numbers that are kept."""
_MOST = 1000
RATES = {"rows_per_second": "rows/s in", "rows_written_per_second": "rows/s out", "bytes_behind": "bytes behind"}


@dataclass(frozen=True)
class Chart:
    """A line in a picture of fixed size: `points` of SVG, from 0 at its foot to the largest number at its top."""

    title: str
    points: str
    largest: float
    newest: float
    minutes: float


class Histories:
    """Numbers of the last hour by the names of their series, such as a query and what is measured. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: Recent[tuple[str, ...], deque[tuple[float, float]]] = Recent(_MOST)

    def note(self, series: tuple[str, ...], value: float | None) -> None:
        """Take note of a number as it is now; None is left out."""
        now = time.monotonic()
        with self._lock:
            kept = self._kept.get(series, deque)
            while kept and (now - kept[0][0] > _SECONDS):
                kept.popleft()
            if value is not None and (not kept or now - kept[-1][0] >= _CLOSEST):
                kept.append((now, value))

    def note_queries(self, queries: Iterable[Mapping[str, Any]]) -> None:
        """Take note of the rates and lags of kept queries."""
        for query in queries:
            for key in RATES:
                self.note((query["into"], query["name"], key), query[key])

    def draw(self, series: tuple[str, ...], title: str) -> Chart | None:
        """Draw a series; None if it has fewer than two numbers."""
        with self._lock:
            kept = list(self._kept.find(series) or ())
        if len(kept) < 2:
            return None
        (first, _), (last, newest) = kept[0], kept[-1]
        largest = max(value for _, value in kept)
        wide, high = WIDTH / (last - first), HEIGHT / (largest or 1)
        points = " ".join(f"{(at - first) * wide:.1f},{HEIGHT - value * high:.1f}" for at, value in kept)
        return Chart(title, points, largest, newest, (last - first) / 60)
