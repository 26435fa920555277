"""How a measurement waits for a moment without a commit in flight."""

from __future__ import annotations

import time

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import ServerTimeoutError


class DisturbedError(Exception):
    """A commit came in between."""


class Patience:
    """Pauses between attempts, until the time is over."""

    def __init__(self, stream: Stream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._pause = 0.005

    def wait(self) -> None:
        """Pause; raises ServerTimeoutError when the time is over."""
        if time.monotonic() > self._deadline:
            raise ServerTimeoutError(
                f"Stream {self._stream} had commits in flight for {self._timeout:.0f} s, without a moment between two "
                "of them. Try again."
            )
        cancellation.sleep(self._pause)
        self._pause = min(self._pause * 1.5, 0.1)
