"""Keeps answers of the servers for some seconds, and lets a page go on without those that take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyspark_pravega.client.recent import Recent

T = TypeVar("T")

_AT_ONCE = 8
_FRESH_SECONDS = 15.0
_MOST = 10_000
"""Answers that are kept."""


@dataclass(frozen=True)
class Answer(Generic[T]):
    """An answer. `age` is in seconds."""

    value: T
    age: float


class KeptAnswers(Generic[T]):
    """The answers to one question about many names, each at most some seconds old. Thread-safe.

    An answer that is older is asked for again, and an old one is good enough where that takes too long.
    """

    def __init__(self, ask: Callable[[str], T]) -> None:
        """Ask nothing yet. `ask` is called in threads of this object, for one name once at a time."""
        self._ask = ask
        self._lock = threading.Lock()
        self._kept: Recent[str, tuple[float, T]] = Recent(_MOST)
        self._running: dict[str, Future[T]] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="answers")

    def get(self, name: str, patience: float) -> Answer[T]:
        """Return the answer, or an older one, if there is one, after `patience` seconds. Raises the errors of `ask`."""
        answer = self.look(name, time.monotonic() + patience)
        return Answer(self.begin(name).result(), 0) if answer is None else answer

    def look(self, name: str, deadline: float) -> Answer[T] | None:
        """Return the answer, or None if there is none by a time of `time.monotonic`. Raises the errors of `ask`."""
        kept = self._kept.find(name)
        if kept is not None and time.monotonic() - kept[0] < _FRESH_SECONDS:
            return Answer(kept[1], time.monotonic() - kept[0])
        try:
            return Answer(self.begin(name).result(max(0.0, deadline - time.monotonic())), 0)
        except TimeoutError:
            return None if kept is None else Answer(kept[1], time.monotonic() - kept[0])

    def look_at_all(self, names: Sequence[str], deadline: float) -> list[T | None]:
        """Ask about several names at once, and return the answers; see `look`."""
        for name in names:
            self.begin(name)
        answers = [self.look(name, deadline) for name in names]
        return [None if answer is None else answer.value for answer in answers]

    def find(self, name: str) -> T | None:
        """Return the last answer, however old; None without one."""
        kept = self._kept.find(name)
        return None if kept is None else kept[1]

    def names(self) -> list[str]:
        """Return the names with an answer."""
        return [name for name, _ in self._kept.items()]

    def begin(self, name: str) -> Future[T]:
        """Ask, unless that is being done."""
        with self._lock:
            running = self._running.get(name)
            if running is None:
                running = self._running[name] = self._threads.submit(self._answer, name)
            return running

    def _answer(self, name: str) -> T:
        answer: T | None = None
        try:
            answer = self._ask(name)
            return answer
        finally:
            with self._lock:
                del self._running[name]
                if answer is None:
                    self._kept.pop(name)
                else:
                    self._kept.put(name, (time.monotonic(), answer))
