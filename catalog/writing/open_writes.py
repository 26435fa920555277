"""Keeps the open writes of this service, so that writes that nobody waits for can be aborted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.errors import PravegaError

LOG = logging.getLogger(__name__)
_ABANDONED_SECONDS = 30.0
"""How long it may take to abort a write that nobody waits for: the service should end soon after its driver."""


class Write(Protocol):
    """An INSERT, or a write into several streams."""

    def abort(self) -> None:
        """Abort it. Raises PravegaError."""


Key = TypeVar("Key", bound=Hashable)
AnyWrite = TypeVar("AnyWrite", bound=Write)


@dataclass(frozen=True)
class OpenWrite(Generic[AnyWrite]):
    """An open write, the number of the call that began it, and a function that gives its connection back."""

    write: AnyWrite
    begun_by: int
    release: Callable[[], None]


class OpenWrites(Generic[Key, AnyWrite]):
    """The open writes of one kind, by a key; thread-safe. `kind` is what the log calls such a write."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._open: dict[Key, OpenWrite[AnyWrite]] = {}

    def add(self, key: Key, opened: OpenWrite[AnyWrite]) -> None:
        """Note a write that has begun."""
        with self._lock:
            self._open[key] = opened

    def take(self, key: Key) -> OpenWrite[AnyWrite] | None:
        """Remove a write and return it; None if another service process began it."""
        with self._lock:
            return self._open.pop(key, None)

    def abort_in_threads(self, which: Callable[[OpenWrite[AnyWrite]], bool]) -> list[threading.Thread]:
        """Abort some writes, each in its own thread, because its cluster may not answer; return the threads."""
        with self._lock:
            keys = [key for key, opened in self._open.items() if which(opened)]
            left = [self._open.pop(key) for key in keys]
        threads = [threading.Thread(target=self._abort, args=(opened,), name="abort", daemon=True) for opened in left]
        for thread in threads:
            thread.start()
        return threads

    def _abort(self, opened: OpenWrite[AnyWrite]) -> None:
        """Abort a write if the servers can be reached; otherwise its lease ends it."""
        try:
            with limit_retries(_ABANDONED_SECONDS):
                opened.write.abort()
        except PravegaError as error:
            LOG.warning("%s that nobody waits for could not be aborted: %s", self._kind, error)
        finally:
            opened.release()
