"""Keeps answers of the servers for some seconds, and lets a page go on without those that take too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

_AT_ONCE = 8
_FRESH_SECONDS = 15.0
_MOST = 10_000
"""Answers that are kept; then the oldest ones go."""


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
        self._kept: dict[str, tuple[float, T]] = {}
        self._running: dict[str, Future[T]] = {}
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="answers")

    def get(self, name: str, patience: float) -> Answer[T]:
        """Return the answer, or an older one, if there is one, after `patience` seconds. Raises the errors of `ask`."""
        found = self.look(name, time.monotonic() + patience)
        return Answer(self.begin(name).result(), 0) if found is None else found

    def look(self, name: str, deadline: float) -> Answer[T] | None:
        """Return the answer, or None if there is none by a time of `time.monotonic`. Raises the errors of `ask`."""
        with self._lock:
            kept = self._kept.get(name)
        if kept is not None and time.monotonic() - kept[0] < _FRESH_SECONDS:
            return Answer(kept[1], time.monotonic() - kept[0])
        try:
            return Answer(self.begin(name).result(max(0.0, deadline - time.monotonic())), 0)
        except TimeoutError:
            return None if kept is None else Answer(kept[1], time.monotonic() - kept[0])

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
                self._kept.pop(name, None)
                if answer is not None:
                    self._kept[name] = time.monotonic(), answer
                while len(self._kept) > _MOST:
                    del self._kept[next(iter(self._kept))]
