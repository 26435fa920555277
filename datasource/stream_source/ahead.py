"""Fetching ahead: while a micro-batch runs, a query that is behind finds out how far the next one may go."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Ahead(Generic[T]):
    """Work that is done before it is asked for, in a thread of its own: the newest only. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: tuple[Hashable, Future[T]] | None = None

    def begin(self, key: Hashable, work: Callable[[], T]) -> None:
        """Begin work whose result will be asked for by its key."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        with self._lock:
            self._begun = key, future
        threading.Thread(target=run, name="fetch ahead", daemon=True).start()

    def take(self, key: Hashable) -> T | None:
        """Return the result of the work with a key, when it is done; None if there is none, or it failed.

        Whoever asks does it himself then, and is told what is wrong.
        """
        with self._lock:
            begun, self._begun = self._begun, None
        if begun is None or begun[0] != key:
            return None
        try:
            return begun[1].result()
        except Exception as error:  # of whatever kind: it is not the answer, only a reason to ask again
            LOG.info("Fetching ahead failed: %s", error)
            return None


__all__ = ["Ahead"]
