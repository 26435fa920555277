"""Lets the commits of one process to a stream wait for each other instead of for the commit log.

Each of them enters the log's queue, where writers of all processes meet. Without lines, each would look at the head row
again and again until its turn comes: with 64 threads 56 times for each INSERT, which slows down the one whose turn it
is. In a line, a thread sleeps until the one before it has left.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
_ENTERING_SECONDS = 1.0


class _Line:
    """The threads of this process that commit to one stream, in the order in which they have entered its log."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entering = threading.Lock()
        self.turns: deque[Turn] = deque()
        self.users = 0


class Turn:
    """The place of one thread in its line. It has none before it has entered."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._first = threading.Event()
        self._first.set()

    def enter(self, enter: Callable[[], T]) -> T:
        """Take the last place, and enter the log by `enter`, one thread at a time: so both have the same order.

        If another thread is at it for long, as when servers do not answer, this one does not wait for it.
        """
        is_alone = self._line.entering.acquire(timeout=_ENTERING_SECONDS)
        try:
            with self._line.lock:
                if self._line.turns:
                    self._first.clear()
                self._line.turns.append(self)
            return enter()
        finally:
            if is_alone:
                self._line.entering.release()

    @property
    def is_behind(self) -> bool:
        """Return whether another thread of this process stands before this one."""
        return not self._first.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until this thread is the first in its line, but no longer than that."""
        self._first.wait(seconds)

    def leave(self) -> None:
        """Give the place up, and wake the thread that is the first now."""
        with self._line.lock:
            if self in self._line.turns:
                self._line.turns.remove(self)
            if self._line.turns:
                self._line.turns[0]._first.set()


class Lines:
    """The lines of this process, by what they commit to. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[Hashable, _Line] = {}

    @contextmanager
    def line_up(self, key: Hashable) -> Iterator[Turn]:
        """Yield a turn in the line of this key, and leave it at the end."""
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            line.users += 1
        turn = Turn(line)
        try:
            yield turn
        finally:
            turn.leave()
            with self._lock:
                line.users -= 1
                if not line.users:
                    del self._lines[key]
