"""Measures all streams, consumers and streaming queries at once.

`Changes` remembers what a single measurement does not show: how much was appended, and since when a commit lasts.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark_pravega.catalog.api.details import list_queries
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import (
    AuthenticationError,
    PravegaError,
    ScopeNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamNotFoundError,
)
from pyspark_pravega.sql.identifiers import is_internal

from .readings import ConsumerReading, StreamReading, read_consumers, read_stream

T = TypeVar("T")

_AT_ONCE = 8
_END_ALL = (ServerUnavailableError, ServerTimeoutError, AuthenticationError)
_DROPPED = (ScopeNotFoundError, StreamNotFoundError)


@dataclass(frozen=True)
class Measurement:
    """What was measured, when that began, and how long it took.

    `unread` counts what could not be read, by the conditions of the errors.
    """

    began: float
    seconds: float
    streams: Sequence[StreamReading]
    consumers: Sequence[ConsumerReading]
    queries: Sequence[Mapping[str, Any]]
    unread: Mapping[str, int]


def measure(catalog: Catalog, scopes: Sequence[str]) -> Measurement:
    """Measure some scopes of a catalog; without a list, all that the user may see.

    Raises ServerUnavailableError, ServerTimeoutError and AuthenticationError. What cannot be read for other reasons,
    such as rights that are missing, is counted and left out.
    """
    began, run = time.time(), _Run(catalog)
    streams: list[StreamReading] = []
    consumers: list[ConsumerReading] = []
    for scope in scopes or [scope for scope in catalog.pravega.controller.list_scopes() if not is_internal(scope)]:
        found = run.read_streams(scope)
        streams += found
        consumers += run.read_consumers(scope, found)
    queries = run.read_queries()
    return Measurement(began, time.time() - began, streams, consumers, queries, dict(run.unread))


class _Run:
    """One measurement that is being made."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.unread: Counter[str] = Counter()

    def read_streams(self, scope: str) -> list[StreamReading]:
        pravega = self._catalog.pravega
        names = self._attempt(lambda: pravega.controller.list_streams(scope)) or []
        streams = [Stream(scope, name) for name in names if not is_internal(name)]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found = threads.map(lambda stream: self._attempt(lambda: read_stream(pravega, stream)), streams)
            return [reading for reading in found if reading is not None]

    def read_consumers(self, scope: str, streams: Sequence[StreamReading]) -> list[ConsumerReading]:
        return self._attempt(lambda: list(read_consumers(self._catalog.pravega, scope, streams))) or []

    def read_queries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] | None = self._attempt(lambda: list_queries(self._catalog).to_pylist())
        return found or []

    def _attempt(self, read: Callable[[], T]) -> T | None:
        """Return the result of a read; None if its object has been dropped, or is counted as unread."""
        try:
            return read()
        except _END_ALL:
            raise
        except _DROPPED:
            return None
        except PravegaError as error:
            self.unread[error.condition] += 1
            return None


@dataclass
class _Watched:
    """What is remembered of a stream."""

    ends: Mapping[int, int]
    appended: int = 0
    committing: uuid.UUID | None = None
    since: float = 0.0


@dataclass
class Changes:
    """What has changed from one measurement to the next. Streams that are gone are forgotten."""

    _watched: dict[Stream, _Watched] = field(default_factory=dict)

    def note(self, streams: Sequence[StreamReading], time: float) -> None:
        """Take note of a measurement at a time, in seconds since 1970."""
        self._watched = {reading.stream: self._continue(reading, time) for reading in streams}

    def _continue(self, reading: StreamReading, time: float) -> _Watched:
        ends = {segment: info.write_offset for segment, info in reading.segments.items()}
        before = self._watched.get(reading.stream)
        if before is None or not ends.keys() & before.ends.keys():
            return _Watched(ends, 0 if before is None else before.appended, reading.committing, time)
        more = sum(max(0, end - before.ends.get(segment, 0)) for segment, end in ends.items())
        same = reading.committing == before.committing
        return _Watched(ends, before.appended + more, reading.committing, before.since if same else time)

    def appended_bytes(self, stream: Stream) -> int:
        """Return the bytes that were appended since the first measurement of a stream."""
        return self._watched[stream].appended

    def commit_age(self, stream: Stream, time: float) -> float:
        """Return for how many seconds the same transaction is being committed, 0 if none is."""
        watched = self._watched[stream]
        return 0.0 if watched.committing is None else time - watched.since
