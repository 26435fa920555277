"""Note when a reader finds the events of a table: one that asks for its end, or one that waits at its segments."""

from __future__ import annotations

import bisect
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.follower import SegmentFollower
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import measure_tail

STEP = 0.005
"""Seconds from one question for the end to the next."""

_WAIT = 0.2
"""Seconds after which a reader that waits at a segment looks whether it is to stop."""


class Visible(ABC):
    """Notes when a reader of a table found which ends of its segments."""

    def __init__(self) -> None:
        self._ends: dict[int, tuple[list[int], list[float]]] = {}
        self._stop = threading.Event()
        self._watchers: list[threading.Thread] = []

    def _start(self, watch: Callable[[], None]) -> None:
        self._watchers.append(threading.Thread(target=watch))
        self._watchers[-1].start()

    def _note(self, segment: int, end: int, when: float) -> None:
        ends, times = self._ends.setdefault(segment, ([], []))
        if not ends or end > ends[-1]:
            ends.append(end)
            times.append(when)

    def since(self, segment: int, offset: int) -> float:
        """Return when the event at an offset was found first."""
        ends, times = self._ends[segment]
        return times[bisect.bisect_right(ends, offset)]

    def close(self) -> None:
        """End the watching."""
        self._stop.set()
        for watcher in self._watchers:
            watcher.join()

    @abstractmethod
    def __enter__(self) -> Visible:
        """Begin to watch."""

    def __exit__(self, *_: object) -> None:
        self.close()


class Asked(Visible):
    """Asks for the end of a table as queries do, every 5 ms. Several requests are part of the time."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        super().__init__()
        self._pravega, self._stream = pravega, stream

    def __enter__(self) -> Visible:
        self._start(self._watch)
        return self

    def _watch(self) -> None:
        log = CommitLog(self._pravega, self._stream)
        while not self._stop.wait(STEP):
            cut = log.measure_settled(lambda until: until or measure_tail(self._pravega, self._stream))
            now = time.time()
            for segment, end in cut.positions.items():
                self._note(segment, end, now)


class Followed(Visible):
    """Waits at each segment of a table, as the next query in real-time mode would."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        super().__init__()
        self._pravega, self._stream = pravega, stream

    def __enter__(self) -> Visible:
        for segment, end in measure_tail(self._pravega, self._stream).positions.items():
            self._start(partial(self._watch, segment, end))
        return self

    def _watch(self, segment: int, end: int) -> None:
        follower = SegmentFollower(self._pravega.segments, SegmentAddress(self._stream, segment), end)
        try:
            while not self._stop.is_set():
                follower.read(time.monotonic() + _WAIT)
                self._note(segment, follower.offset, time.time())
        finally:
            follower.close()
