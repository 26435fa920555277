"""Remembers what was found out lately, so that it need not be found out again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_RECENT = 256


class Recent(Generic[T]):
    """The last findings, by name; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, T] = OrderedDict()

    def find(self, name: Hashable) -> T | None:
        """Return what is known by a name, None if nothing is."""
        with self._lock:
            return self._found.get(name)

    def get(self, name: Hashable, find: Callable[[], T]) -> T:
        """Return what is known by a name, else what `find` finds."""
        with self._lock:
            if name in self._found:
                return self._found[name]
        found = find()
        self.put(name, found)
        return found

    def put(self, name: Hashable, found: T) -> None:
        """Remember one finding, and forget the oldest one if there are many."""
        with self._lock:
            self._found[name] = found
            self._found.move_to_end(name)
            while len(self._found) > _RECENT:
                self._found.popitem(last=False)
