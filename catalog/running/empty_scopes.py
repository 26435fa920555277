"""Remembers for some seconds which scopes had no queries: a look at a catalog of many scopes asks each of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from pyspark_pravega.client import Pravega


class EmptyScopes:
    """The scopes in which the user of a connection found no queries, and when. Thread-safe.

    What this process writes is known at once. What another process writes into such a scope is seen after the time that
    `select` is given.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._empty: dict[str, float] = {}
        self._written: dict[str, float] = {}

    def select(self, scopes: Sequence[str], age: float) -> list[str]:
        """Return the scopes to ask: all except those that were empty within the last `age` seconds."""
        oldest = time.monotonic() - age
        with self._lock:
            # Scopes that are dropped are forgotten.
            self._empty = {scope: self._empty[scope] for scope in scopes if scope in self._empty}
            return [scope for scope in scopes if self._empty.get(scope, oldest) <= oldest]

    def note_empty(self, scope: str, asked: float) -> None:
        """Note a scope without queries. `asked` is when it was asked, by the monotonic clock."""
        with self._lock:
            if self._written.get(scope, asked) <= asked:
                self._empty[scope] = asked

    def note_written(self, scope: str) -> None:
        """Note that a query was written into a scope."""
        with self._lock:
            self._written[scope] = time.monotonic()
            self._empty.pop(scope, None)


_lock = threading.Lock()
_by_connection: WeakKeyDictionary[Pravega, EmptyScopes] = WeakKeyDictionary()
"""By connection, because users with other rights find other queries."""


def find_empty_scopes(pravega: Pravega) -> EmptyScopes:
    """Return what a connection remembers."""
    with _lock:
        return _by_connection.setdefault(pravega, EmptyScopes())


def note_written(scope: str) -> None:
    """Note that this process wrote a query into a scope, for all connections."""
    with _lock:
        known = list(_by_connection.values())
    for empty in known:
        empty.note_written(scope)
