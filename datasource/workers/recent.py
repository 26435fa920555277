"""Remembers what was used recently, so that it need not be found again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_RECENT = 256


class Recent(Generic[T]):
    """What was used recently, by name. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, T] = OrderedDict()

    def find(self, name: Hashable) -> T | None:
        """Return what is known under a name, None if nothing is."""
        with self._lock:
            if name in self._found:
                self._found.move_to_end(name)
            return self._found.get(name)

    def get(self, name: Hashable, find: Callable[[], T]) -> T:
        """Return the value of a name, or else find it by `find`; concurrent callers get the same."""
        with self._lock:
            if name in self._found:
                self._found.move_to_end(name)
                return self._found[name]
        found = find()
        with self._lock:
            return self._keep(name, self._found.get(name, found))

    def put(self, name: Hashable, found: T) -> None:
        """Remember one finding."""
        with self._lock:
            self._keep(name, found)

    def pop(self, name: Hashable) -> None:
        """Forget what is known under a name."""
        with self._lock:
            self._found.pop(name, None)

    def _keep(self, name: Hashable, found: T) -> T:
        """Remember one finding, and forget the least recently used one if there are many."""
        self._found[name] = found
        self._found.move_to_end(name)
        while len(self._found) > _RECENT:
            self._found.popitem(last=False)
        return found
