"""Says how fast a stream grows, and remembers for an hour how rates and lags have changed, to draw them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark_pravega.catalog.api.table import TableVersion
from pyspark_pravega.client.recent import Recent

WIDTH, HEIGHT = 240, 40
_SECONDS = 3600.0
_CLOSEST = 2.0
"""Seconds between two numbers that are kept."""
_MOST = 1000
_PERIODS = (("minute", timedelta(minutes=1)), ("hour", timedelta(hours=1)), ("day", timedelta(days=1)))
RATES = {"rows_per_second": "rows/s in", "rows_written_per_second": "rows/s out", "bytes_behind": "bytes behind"}


@dataclass(frozen=True)
class Chart:
    """A line in a picture of fixed size: `points` of SVG, from 0 at its foot to the largest number at its top."""

    title: str
    points: str
    largest: float
    newest: float
    minutes: float


@dataclass(frozen=True)
class CommitRate:
    """Commits in the period before now. `at_least`: earlier ones of the period were not looked at."""

    period: str
    commits: int
    rows: int
    at_least: bool


@dataclass(frozen=True)
class Growth:
    """The bytes that were appended in so many seconds."""

    bytes: int
    seconds: float


def count_commits(versions: Sequence[TableVersion], complete: bool) -> list[CommitRate]:
    """Count the commits of the last minute, hour and day. `complete`: there are no other versions."""
    now = datetime.now(UTC)
    rates = []
    for name, length in _PERIODS:
        inside = [version for version in versions if now - version.time <= length]
        cut_off = not complete and len(inside) == len(versions)
        rates.append(CommitRate(name, len(inside), sum(version.rows for version in inside), cut_off))
    return rates


class Histories:
    """Numbers of the last hour by the names of their series, such as a query and what is measured. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: Recent[str, tuple[float, dict[int, int]]] = Recent(_MOST)
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

    def measure_growth(self, stream: str, segments: Sequence[Mapping[str, Any]]) -> Growth | None:
        """Return what was appended since the last look, given rows of the metadata table `segments`.

        None at the first look. Segments that were made since then count as a whole.
        """
        ends = {row["segment_id"]: row["end_offset"] for row in segments}
        now = time.monotonic()
        with self._lock:
            before = self._ends.find(stream)
            self._ends.put(stream, (now, ends))
        if before is None:
            return None
        seen, old = before
        if not ends.keys() & old.keys():
            return None  # the stream was made again
        return Growth(sum(max(0, end - old.get(segment, 0)) for segment, end in ends.items()), now - seen)

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
