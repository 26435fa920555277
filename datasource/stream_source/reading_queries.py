"""Keeps the consumers and the watermarks of streaming queries while they run; a checkpoint names each query.

A consumer moves to the end of the micro-batches that Spark has committed. The watermarks are those that a query still
needs: the last one that it has passed, and later ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from itertools import chain

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.errors import PravegaError, ServerFailedError, ServerTimeoutError, ServerUnavailableError

from ..scan.event_times import EventTimes, has_passed

LOG = logging.getLogger(__name__)

PAUSE_SECONDS = 3.0
"""The pause between two moves: freeing events a little later costs nothing."""
MOVE_SECONDS = 5.0
"""How long a move is tried; a query that stops waits for it."""
_PASSING = (ServerFailedError, ServerTimeoutError, ServerUnavailableError)


class Consumption:
    """Moves one consumer, each time in its own thread. Thread-safe."""

    def __init__(self, consumer: Consumer, position: StreamCut, release: Callable[[], None]) -> None:
        """Use a consumer at a position, and call `release` to give its connection back."""
        self._consumer, self._position, self._release = consumer, position, release
        self._lock = threading.Lock()
        self._pending: StreamCut | None = None
        self._mover: threading.Thread | None = None
        self._due = 0.0
        self._error: PravegaError | None = None

    def note_committed(self, end: StreamCut) -> None:
        """Let the server soon free the events before the end of a committed micro-batch.

        Raises the lasting error of an earlier move: ConsumerInUseError, ConsumerNotFoundError, PermissionDeniedError,
        StreamNotFoundError.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if end == self._position and self._pending is None:
                return  # one of many streams, in which nothing has come
            self._pending = end
            if self._mover is None and time.monotonic() >= self._due:
                self._mover = threading.Thread(target=self._move_on, name=f"move {self._consumer.name}", daemon=True)
                self._mover.start()

    def close(self) -> None:
        """Move to the last end, if that is possible soon; otherwise the next start of the query does it."""
        with self._lock:
            mover = self._mover
        if mover is not None:
            mover.join()
        try:
            self._move()
        finally:
            self._release()

    def _move_on(self) -> None:
        self._move()
        with self._lock:
            self._mover, self._due = None, time.monotonic() + PAUSE_SECONDS

    def _move(self) -> None:
        with self._lock:
            end, self._pending = self._pending, None
            self._position = end or self._position
        if end is None:
            return
        try:
            with limit_retries(MOVE_SECONDS):
                self._consumer.move(end)
        except _PASSING as error:
            LOG.warning("Consumer %s will be moved later: %s", self._consumer.name, error)
            with self._lock:
                self._pending = self._pending or end
        except PravegaError as error:
            LOG.warning("Consumer %s cannot be moved: %s", self._consumer.name, error)
            with self._lock:
                self._error = error


class KnownMarks:
    """Remembers the watermarks of one query's stream. It only saves time. Thread-safe."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        self.pravega, self._stream = pravega, stream
        self._lock = threading.Lock()
        self._marks: list[tuple[int, Watermark]] = []  # each behind its end
        self._read = 0
        self._dropped = False  # whether earlier ones were dropped

    def end(self) -> int:
        """Return how far the watermarks go now."""
        return find_watermarks_end(self.pravega, self._stream)

    def times(self, since: Mapping[int, int], until: Mapping[int, int], end: int) -> EventTimes:
        """Return the times of the rows between two cuts, by the watermarks up to `end`.

        Micro-batches go forward; one that is planned again has the same times as before.
        """
        with self._lock:
            if self._dropped and not has_passed(self._marks[0][1], since):
                self._marks, self._read, self._dropped = [], 0, False  # an older batch
            marks: list[tuple[int, Watermark]] = []
            dropped = self._dropped
            for at, mark in chain(self._marks, read_watermarks(self.pravega, self._stream, self._read, end)):
                if marks and at <= end and has_passed(mark, since):
                    marks, dropped = [], True
                marks.append((at, mark))
            self._marks, self._read, self._dropped = marks, max(self._read, end), dropped
            return EventTimes.of_micro_batch((mark for at, mark in marks if at <= end), since, until)
