"""What the service keeps of streaming queries while they run, each known by its checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut

from .consumption import Consumption
from .known_marks import KnownMarks


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

    def committed(self, checkpoint: str, end: StreamCut) -> None:
        """Move the query's consumer, if it has one; see `Consumption.committed`."""
        with self._lock:
            consumption = self._consumptions.get(checkpoint)
        if consumption is not None:
            consumption.committed(end)

    def stopped(self, checkpoint: str) -> None:
        """Forget a query, after its consumer's last move."""
        with self._lock:
            self._marks.pop(checkpoint, None)
            consumption = self._consumptions.pop(checkpoint, None)
        if consumption is not None:
            consumption.close()
