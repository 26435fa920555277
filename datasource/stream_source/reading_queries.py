"""What the service keeps of streaming queries while they run, each known by its checkpoint.

That is its consumer, which moves behind the batches that Spark has committed, and the watermarks that it still needs:
the last one that it has passed, and those after.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

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
"""Between two moves: what is freed a little later costs nothing."""
MOVE_SECONDS = 5.0
"""How long a move is tried again; a query that is stopped waits for it."""
_PASSING = (ServerFailedError, ServerTimeoutError, ServerUnavailableError)


class Consumption:
    """Moves one consumer, in a thread of its own while that takes. Thread-safe."""

    def __init__(self, consumer: Consumer, release: Callable[[], None]) -> None:
        """`release` gives the consumer's connection back."""
        self._consumer, self._release = consumer, release
        self._lock = threading.Lock()
        self._pending: StreamCut | None = None
        self._mover: threading.Thread | None = None
        self._due = 0.0
        self._error: PravegaError | None = None

    def note_committed(self, end: StreamCut) -> None:
        """Let the server free what lies before the end of a committed batch, some time soon.

        Raises what an earlier move has failed with for good: ConsumerInUseError, ConsumerNotFoundError,
        PermissionDeniedError, StreamNotFoundError.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            self._pending = end
            if self._mover is None and time.monotonic() >= self._due:
                self._mover = threading.Thread(target=self._move_on, name=f"move {self._consumer.name}", daemon=True)
                self._mover.start()

    def close(self) -> None:
        """Move to the last end, if that can be done soon: the next start of the query does it otherwise."""
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
        if end is None:
            return
        try:
            with limit_retries(MOVE_SECONDS):
                self._consumer.move(end)
        except _PASSING as error:
            LOG.warning("Consumer %s is moved later: %s", self._consumer.name, error)
            with self._lock:
                self._pending = self._pending or end
        except PravegaError as error:
            LOG.warning("Consumer %s cannot be moved: %s", self._consumer.name, error)
            with self._lock:
                self._error = error


class KnownMarks:
    """What one query knows of its stream's watermarks. It only saves time; thread-safe."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        self.pravega, self._stream = pravega, stream
        self._lock = threading.Lock()
        self._marks: list[tuple[int, Watermark]] = []  # each with where it ends
        self._read = 0
        self._dropped = False  # whether there were earlier ones

    def end(self) -> int:
        """Return how far the watermarks go now."""
        return find_watermarks_end(self.pravega, self._stream)

    def times(self, since: Mapping[int, int], until: Mapping[int, int], end: int) -> EventTimes:
        """Return what the rows between two cuts have for times, by the watermarks up to `end`.

        Micro-batches go forward; one that is planned again has the same times as at first.
        """
        with self._lock:
            if self._dropped and not has_passed(self._marks[0][1], since):
                self._marks, self._read, self._dropped = [], 0, False  # an older batch
            for at, mark in read_watermarks(self.pravega, self._stream, self._read, end):
                if self._marks and has_passed(mark, since):
                    self._marks, self._dropped = [], True
                self._marks.append((at, mark))
            self._read = max(self._read, end)
            gone = [index for index, (at, mark) in enumerate(self._marks) if at <= end and has_passed(mark, since)]
            if gone and gone[-1]:
                self._marks, self._dropped = self._marks[gone[-1] :], True
            return EventTimes.of_micro_batch((mark for at, mark in self._marks if at <= end), since, until)


class ReadingQueries:
    """The watermarks that queries know, and the consumers that they move. Thread-safe.

    A service that ended has forgotten both: watermarks are read again, and a consumer is taken over by the next batch.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[str, KnownMarks] = {}
        self._consumptions: dict[str, Consumption] = {}

    def marks(self, pravega: Pravega, stream: Stream, checkpoint: str) -> KnownMarks:
        """Return what a query knows of its stream's watermarks."""
        with self._lock:
            found = self._marks.get(checkpoint)
            if found is None or found.pravega is not pravega:
                found = self._marks[checkpoint] = KnownMarks(pravega, stream)
            return found

    def consume(
        self, pravega: Pravega, name: str, position: StreamCut, checkpoint: str, hold: Callable[[], Callable[[], None]]
    ) -> None:
        """Let a query that has read up to a position take its consumer over, unless it has; see `Consumer.register`.

        `hold` keeps the connection for the time until the query stops.
        """
        with self._lock:
            if checkpoint in self._consumptions:
                return
        consumer = Consumer.register(pravega, position.stream, name, position)
        with self._lock:
            self._consumptions[checkpoint] = Consumption(consumer, hold())

    def note_committed(self, checkpoint: str, end: StreamCut) -> None:
        """Move the query's consumer, if it has one; see `Consumption.note_committed`."""
        with self._lock:
            consumption = self._consumptions.get(checkpoint)
        if consumption is not None:
            consumption.note_committed(end)

    def note_stopped(self, checkpoint: str) -> None:
        """Forget a query, after its consumer's last move."""
        with self._lock:
            self._marks.pop(checkpoint, None)
            consumption = self._consumptions.pop(checkpoint, None)
        if consumption is not None:
            consumption.close()
