"""Keeps connections open in a Python worker between its tasks."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.serializers import CPickleSerializer

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig

IDLE_SECONDS = 30.0
"""Time without a task after which connections are closed."""

LONGEST_SECONDS = 600.0
"""Age at which connections are replaced even while in use, so that changed certificates and rights take effect."""

KEPT = 4
"""Connections that are kept while no task uses them."""


class _KeptConnection:
    def __init__(self, pravega: Pravega) -> None:
        self.pravega = pravega
        self.users = 0
        self.made = self.used = time.monotonic()


class WorkerConnections:
    """Lends a `Pravega` for each configuration, and keeps it for the next task with the same one. Thread-safe.

    The configuration includes the credentials, so that nobody gets another user's connection. A forked child begins
    with none: it neither uses nor closes its parent's connections.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._longest_seconds = longest_seconds
        self._of_parents: list[dict[bytes, _KeptConnection]] = []
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._kept: dict[bytes, _KeptConnection] = {}
        self._closer: threading.Thread | None = None

    @contextmanager
    def borrow(self, config: ClientConfig) -> Iterator[Pravega]:
        """Use a connection in the body. After an error in it, the next task with this configuration connects again."""
        if self._process != os.getpid():
            self._of_parents.append(self._kept)  # kept from the garbage collector, which would close them
            self._begin()
        key = hash_config(config)
        kept = self._take(key, config)
        try:
            yield kept.pravega
        except Exception:
            with self._changed:
                if self._kept.get(key) is kept:
                    del self._kept[key]
            raise
        finally:
            self._give_back(key, kept)

    def _take(self, key: bytes, config: ClientConfig) -> _KeptConnection:
        with self._changed:
            kept = self._kept.get(key)
            if kept is None or time.monotonic() - kept.made > self._longest_seconds:
                replaced, kept = kept, _KeptConnection(connect(config))
                if replaced is not None and replaced.users == 0:
                    replaced.pravega.close()
                self._kept[key] = kept
            kept.users += 1
            return kept

    def _give_back(self, key: bytes, kept: _KeptConnection) -> None:
        with self._changed:
            kept.users -= 1
            kept.used = time.monotonic()
            if kept.users == 0 and self._kept.get(key) is not kept:
                kept.pravega.close()
            idle = sorted((idle_one.used, key) for key, idle_one in self._kept.items() if idle_one.users == 0)
            for _, oldest in idle[: max(len(idle) - KEPT, 0)]:
                self._kept.pop(oldest).pravega.close()
            if self._kept and self._closer is None:
                self._closer = threading.Thread(target=self._close_idle, name="close idle connections", daemon=True)
                self._closer.start()

    def _close_idle(self) -> None:
        """Close connections that no task has used for a while, and end when none is left."""
        with self._changed:
            while self._kept:
                now = time.monotonic()
                for key, kept in list(self._kept.items()):
                    if kept.users == 0 and now - kept.used >= self._idle_seconds:
                        self._kept.pop(key).pravega.close()
                self._changed.wait(self._idle_seconds / 4)
            self._closer = None

    def __len__(self) -> int:
        """Return the number of configurations with a connection."""
        with self._changed:
            return len(self._kept)

    def close(self) -> None:
        """Close the connections that no task uses; the others are closed when they are given back."""
        if self._process != os.getpid():
            return
        with self._changed:
            ended = [kept for kept in self._kept.values() if kept.users == 0]
            self._kept.clear()
            self._changed.notify_all()
        for kept in ended:
            kept.pravega.close()


def hash_config(config: ClientConfig) -> bytes:
    """Return a hash that identifies a configuration, with plug-ins' credentials, without keeping secrets."""
    return hashlib.blake2b(CPickleSerializer().dumps(config)).digest()


_CONNECTIONS = WorkerConnections()
borrow_connection = _CONNECTIONS.borrow
"""Use a connection of this process; see `WorkerConnections.borrow`."""
atexit.register(_CONNECTIONS.close)  # not called in a worker that Spark's daemon forked: its sockets end with it
