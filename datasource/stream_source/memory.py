"""Remembers facts about streaming queries and their streams in the catalog service; they may be lost with it.

While a micro-batch of a query that is behind runs, the service computes how far the next one may go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut

from .admission import Key, Limits, Walk, count_up_to
from .event_time_drift import EventTimePace
from .frontier import Frontier, StreamSegments
from .reading_queries import Consumption, KnownMarks

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Ahead(Generic[T]):
    """Does work before its result is needed, in its own thread, and keeps the newest result. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: tuple[Hashable, Callable[[], T]] | None = None

    def begin(self, key: Hashable, work: Callable[[], T]) -> None:
        """Begin work whose result will be taken by its key."""
        with cancellation.shield():  # it is not a part of the call that begins it
            wait_for_result = cancellation.run_in_background(work)
        with self._lock:
            self._begun = key, wait_for_result

    def take(self, key: Hashable) -> T | None:
        """Wait for the work with a key, and return its result; None if there is no such work, or it failed.

        The caller then does the work itself, and meets the error.
        """
        with self._lock:
            begun, self._begun = self._begun, None
        if begun is None or begun[0] != key:
            return None
        try:
            return begun[1]()
        except Exception as error:  # of whatever kind: the caller will try again
            LOG.info("Fetching ahead failed: %s", error)
            return None


@dataclass(frozen=True)
class Admission:
    """A frontier, and how far a micro-batch may go into it."""

    frontier: Frontier
    ends: dict[int, int]

    @property
    def bytes(self) -> int:
        return sum(end - self.frontier.begins[segment] for segment, end in self.ends.items())


@dataclass
class QueryMemory:
    """One query: when its last micro-batch began, what it has lost, and the first version that it has not read."""

    began: float | None = None
    lost_bytes: int = 0
    lost_ranges: int = 0
    unread_version: int = 1
    ahead: Ahead[Admission] = field(default_factory=Ahead)
    pace: EventTimePace = field(default_factory=EventTimePace)
    members: dict[str, QueryMemory] = field(default_factory=dict)
    """The memory of each stream, if the query reads several as one."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def member(self, name: str) -> QueryMemory:
        """Return the memory of one of several streams."""
        with self.lock:
            return self.members.setdefault(name, QueryMemory())

    def is_due(self, walk: Walk[Key], begins: Mapping[Key, int], ends: Mapping[Key, int], limits: Limits) -> bool:
        """Return whether there are enough rows for a micro-batch, or the delay is over; the first one is always due."""
        if limits.min_rows is None or self.began is None:
            return True
        if (time.monotonic() - self.began) * 1000 >= limits.max_delay_ms:
            return True
        return count_up_to(walk, begins, ends, limits.min_rows) >= limits.min_rows

    def begin(self, frontier: Frontier) -> None:
        """Note that a micro-batch begins, and what was lost before it."""
        with self.lock:
            self.began = time.monotonic()
            self.lost_bytes += sum(end - begin for _, begin, end in frontier.lost if end is not None)
            self.lost_ranges += len(frontier.lost)


class SourceMemory:
    """All queries that run now, with their watermarks and consumers, and what is remembered of streams. Thread-safe.

    A new service knows none of that: it reads watermarks again, and takes a consumer over with the next micro-batch.
    """

    def __init__(self) -> None:
        self._streams: Recent[Hashable, StreamSegments] = Recent()
        self._queries: Recent[str, QueryMemory] = Recent()
        self._lock = threading.Lock()
        self._marks: dict[str, dict[Hashable, KnownMarks]] = {}
        self._consumptions: dict[str, dict[Stream, Consumption]] = {}

    def query(self, checkpoint: str) -> QueryMemory:
        return self._queries.get(checkpoint, QueryMemory)

    def segments(self, pravega: Pravega, stream: Stream) -> StreamSegments:
        """Return the memory of a stream's segments, for one connection."""
        return self._streams.get((id(pravega), stream), lambda: StreamSegments(pravega, stream))

    def marks(self, pravega: Pravega, stream: Stream, checkpoint: str, member: Hashable = None) -> KnownMarks:
        """Return the known watermarks of a query's stream; `member` tells it from others that the query reads."""
        with self._lock:
            by_member = self._marks.setdefault(checkpoint, {})
            marks = by_member.get(member)
            if marks is None or marks.pravega is not pravega:
                marks = by_member[member] = KnownMarks(pravega, stream)
            return marks

    def consume(
        self, pravega: Pravega, name: str, position: StreamCut, checkpoint: str, hold: Callable[[], Callable[[], None]]
    ) -> None:
        """Let a query that has read up to a position take over its consumer of a stream, once.

        See `Consumer.register`. `hold` keeps the connection until the query stops.
        """
        with self._lock:
            if position.stream in self._consumptions.get(checkpoint, {}):
                return
        consumer = Consumer.register(pravega, position.stream, name, position)
        with self._lock:
            self._consumptions.setdefault(checkpoint, {})[position.stream] = Consumption(consumer, position, hold())

    def note_committed(self, checkpoint: str, end: StreamCut) -> None:
        """Move the query's consumer of a stream, if it has one; see `Consumption.note_committed`."""
        with self._lock:
            consumption = self._consumptions.get(checkpoint, {}).get(end.stream)
        if consumption is not None:
            consumption.note_committed(end)

    def note_stopped(self, checkpoint: str) -> None:
        """Forget a query, after the last moves of its consumers."""
        with self._lock:
            self._marks.pop(checkpoint, None)
            consumptions = self._consumptions.pop(checkpoint, {})
        map_side_by_side(Consumption.close, consumptions.values())
        self._queries.pop(checkpoint)
