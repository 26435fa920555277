"""Says how fast a stream grows: by its commits, and by its bytes from one look at it to the next."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark_pravega.catalog.api.table import TableVersion
from pyspark_pravega.client.recent import Recent

_PERIODS = (("minute", timedelta(minutes=1)), ("hour", timedelta(hours=1)), ("day", timedelta(days=1)))
_MOST_STREAMS = 1000


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


class Growths:
    """Remembers the ends of segments at the last look, for some streams. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Recent[str, tuple[float, dict[int, int]]] = Recent(_MOST_STREAMS)

    def measure(self, stream: str, segments: Sequence[Mapping[str, Any]]) -> Growth | None:
        """Return what was appended since the last look, given rows of the metadata table `segments`.

        None at the first look. Segments that were made since then count as a whole.
        """
        ends = {row["segment_id"]: row["end_offset"] for row in segments}
        now = time.monotonic()
        with self._lock:
            before = self._seen.find(stream)
            self._seen.put(stream, (now, ends))
        if before is None:
            return None
        seen, old = before
        if not ends.keys() & old.keys():
            return None  # the stream was made again
        return Growth(sum(max(0, end - old.get(segment, 0)) for segment, end in ends.items()), now - seen)
