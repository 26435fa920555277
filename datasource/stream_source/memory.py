"""What the catalog service remembers of streaming queries and their streams; it may be lost with the service."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream

from .admission import Walker, count_up_to
from .ahead import Ahead
from .frontier import Frontier, StreamSegments
from .limits import Limits

_REMEMBERED = 256
T = TypeVar("T")


@dataclass(frozen=True)
class Admitted:
    """A frontier, and how far a micro-batch may go into it."""

    frontier: Frontier
    ends: dict[int, int]

    @property
    def bytes(self) -> int:
        """Return the number of bytes admitted."""
        return sum(end - self.frontier.begins[segment] for segment, end in self.ends.items())


@dataclass
class QueryMemory:
    """One query: when its last micro-batch began, what it lost, and the first version that it has not read."""

    began: float | None = None
    lost_bytes: int = 0
    lost_ranges: int = 0
    unread_version: int = 1
    ahead: Ahead[Admitted] = field(default_factory=Ahead)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self, walker: Walker, frontier: Frontier, limits: Limits) -> bool:
        """Tell whether there is enough for a micro-batch, or the time is over; the first one is always due."""
        if limits.min_rows is None or self.began is None:
            return True
        if (time.monotonic() - self.began) * 1000 >= limits.max_delay_ms:
            return True
        return count_up_to(walker, frontier.begins, frontier.ends, limits.min_rows) >= limits.min_rows

    def begin(self, frontier: Frontier) -> None:
        """Note that a micro-batch begins, and what was lost before it."""
        with self.lock:
            self.began = time.monotonic()
            self.lost_bytes += sum(end - begin for _, begin, end in frontier.lost if end is not None)
            self.lost_ranges += len(frontier.lost)


class _Recent(Generic[T]):
    """Keeps the things that were used lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
            self._kept.move_to_end(key)
            while len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
            return self._kept[key]

    def pop(self, key: Hashable) -> None:
        with self._lock:
            self._kept.pop(key, None)


class SourceMemory:
    """Everything that is remembered; thread-safe."""

    def __init__(self) -> None:
        self._streams: _Recent[StreamSegments] = _Recent()
        self._queries: _Recent[QueryMemory] = _Recent()

    def query(self, checkpoint: str) -> QueryMemory:
        """Return what is known of the query with a checkpoint."""
        return self._queries.get(checkpoint, QueryMemory)

    def forget(self, checkpoint: str) -> None:
        """Forget a query that has stopped."""
        self._queries.pop(checkpoint)

    def segments(self, pravega: Pravega, stream: Stream) -> StreamSegments:
        """Return what is known of a stream's segments, over one connection."""
        return self._streams.get((id(pravega), stream), lambda: StreamSegments(pravega, stream))


__all__ = ["QueryMemory", "SourceMemory"]
