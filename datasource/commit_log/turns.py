"""Lets the commits of one process to a stream take turns, first come, first served.

Without it each of them would enter the commit log's queue at once, and look at its head row again and again: with 64
threads 56 times for each INSERT, which slows down the one whose turn it is. So only the first of them enters. Other
processes meet it in the queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Turns:
    """The waiting threads of this process, by what they wait for. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[threading.Event]] = {}

    @contextmanager
    def take(self, key: Hashable, timeout: float) -> Iterator[bool]:
        """Run the body as the only one with this key; yield False if its turn did not come within `timeout` seconds."""
        own = threading.Event()
        with self._lock:
            line = self._waiting.setdefault(key, deque())
            line.append(own)
            if line[0] is own:
                own.set()
        try:
            yield own.wait(timeout)
        finally:
            with self._lock:
                line.remove(own)
                if line:
                    line[0].set()
                else:
                    del self._waiting[key]
