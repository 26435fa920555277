"""The consumer of a streaming query: moved behind the batches that Spark has committed, without holding one up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.retry import at_most
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import PravegaError, ServerFailedError, ServerTimeoutError, ServerUnavailableError

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

    def committed(self, end: StreamCut) -> None:
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
            with at_most(MOVE_SECONDS):
                self._consumer.move(end)
        except _PASSING as error:
            LOG.warning("Consumer %s is moved later: %s", self._consumer.name, error)
            with self._lock:
                self._pending = self._pending or end
        except PravegaError as error:
            LOG.warning("Consumer %s cannot be moved: %s", self._consumer.name, error)
            with self._lock:
                self._error = error
