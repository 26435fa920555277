"""Remembers what was used recently, so that it need not be found again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Recent(Generic[K, T]):
    """What was used recently, by name. Thread-safe."""

    def __init__(self, most: int = 256) -> None:
        """Keep this many findings: those that were found or put last."""
        self._most = most
        self._lock = threading.Lock()
        self._found: OrderedDict[K, T] = OrderedDict()

    def find(self, name: K) -> T | None:
        """Return what is known under a name, None if nothing is."""
        with self._lock:
            if name in self._found:
                self._found.move_to_end(name)
            return self._found.get(name)

    def get(self, name: K, find: Callable[[], T]) -> T:
        """Return the value of a name, or else find it by `find`; concurrent callers get the same."""
        existing = self.find(name)
        if existing is not None:
            return existing
        value = find()
        with self._lock:
            return self._keep(name, self._found.get(name, value))

    def put(self, name: K, value: T) -> None:
        with self._lock:
            self._keep(name, value)

    def pop(self, name: K) -> T | None:
        """Forget what is known under a name, and return it."""
        with self._lock:
            return self._found.pop(name, None)

    def items(self) -> list[tuple[K, T]]:
        """Return all that is known, with the names."""
        with self._lock:
            return list(self._found.items())

    def _keep(self, name: K, value: T) -> T:
        self._found[name] = value
        self._found.move_to_end(name)
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return value
