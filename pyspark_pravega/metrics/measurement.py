"""Measures all streams, their lakes and consumers, and all streaming queries at once.

`Changes` remembers what a single measurement does not show: how much was appended, and since when a commit lasts.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark_pravega import errors
from pyspark_pravega.catalog.api.inspection import list_queries
from pyspark_pravega.catalog.metadata.registered_schemas import lake
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.consumers.consumer import ConsumerStatus, list_consumers_of_scope
from pyspark_pravega.client.segments.store import SegmentInfo
from pyspark_pravega.client.stream import RetentionPolicy, Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import HeadRow
from pyspark_pravega.datasource.scan.segment_versions import find_first_unread
from pyspark_pravega.datasource.tables.stored_properties import read_own_properties
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import is_internal


@dataclass(frozen=True)
class StreamReading:
    """A stream at one moment. `log` is the head of its commit log; None without the right to read that."""

    stream: Stream
    segments: Mapping[int, SegmentInfo]
    log: HeadRow | None
    retention: RetentionPolicy | None
    has_lake: bool

    @property
    def bytes(self) -> int:
        """Return the bytes of all events that still exist."""
        return sum(info.write_offset - info.start_offset for info in self.segments.values())

    @property
    def open_segments(self) -> int:
        """Return the number of segments that take events."""
        return sum(not info.sealed for info in self.segments.values())

    @property
    def committing(self) -> uuid.UUID | None:
        """Return the transaction whose turn it is to be committed."""
        return self.log.committing[0] if self.log is not None and self.log.queue else None


@dataclass(frozen=True)
class LakeReading:
    """The lake of a table, with what the stream has that it lacks, as a `ConsumerReading` says it."""

    stream: Stream
    bytes_behind: int | None
    seconds_behind: float | None
    rows: int
    files: int
    bytes: int


@dataclass(frozen=True)
class ConsumerReading:
    """A consumer of a stream. Without a known position, as of other clients' reader groups, most is None.

    `seconds_behind` is the age of the oldest version that it has not read completely; None where there is none.
    `bytes_read` are those between the stream's head and its position. `overtaken`: events after that were removed.
    """

    stream: Stream
    name: str
    bytes_behind: int | None
    seconds_behind: float | None
    bytes_read: int | None
    overtaken: bool | None


def read_stream(pravega: Pravega, stream: Stream) -> StreamReading:
    """Read a stream. Raises StreamNotFoundError, PermissionDeniedError and the errors of servers that are away."""
    configuration = pravega.controller.stream_configuration(stream)
    ids, token = pravega.controller.list_segments_between(pravega.controller.head(stream), None)
    pravega.segments.seed_token(stream, token)
    infos, log = pravega.segments.segment_infos(stream, ids), CommitLog(pravega, stream).head()
    has_lake = o.LAKE.key in read_own_properties(configuration.tags)
    return StreamReading(stream, infos, log, configuration.retention, has_lake)


def read_lake(catalog: Catalog, stream: Stream) -> LakeReading | None:
    """Read the lake of a table; None if it has none any more. Raises LakeError, and the errors of loading a table."""
    values = next(iter(lake.rows(catalog, stream)), None)
    if values is None:
        return None
    row = dict(zip(lake.columns.names, values, strict=True))
    cut, behind = row["stream_cut"], row["bytes_behind"]
    position = catalog.pravega.controller.head(stream) if cut is None else StreamCut.from_text(cut)
    seconds = 0.0 if behind == 0 else _measure_delay(catalog.pravega, position)
    return LakeReading(stream, behind, seconds, row["rows"], row["files"], row["bytes"])


def read_consumers(pravega: Pravega, scope: str, streams: Iterable[StreamReading]) -> list[ConsumerReading]:
    """Read a scope's consumers of these streams. Raises ScopeNotFoundError; without rights, PermissionDeniedError."""
    by_stream = {reading.stream: reading for reading in streams}
    return [
        _read_consumer(pravega, status, reading)
        for status in list_consumers_of_scope(pravega, scope)
        if (reading := by_stream.get(status.stream)) is not None
    ]


def _read_consumer(pravega: Pravega, status: ConsumerStatus, reading: StreamReading) -> ConsumerReading:
    name, behind = f"{status.scope}/{status.name}", status.bytes_behind
    if status.position is None or behind is None:
        return ConsumerReading(status.stream, name, None, None, None, None)
    overtaken = any(
        (info := reading.segments.get(segment)) is None or offset < info.start_offset
        for segment, offset in status.position.positions.items()
    )
    seconds = _measure_delay(pravega, status.position) if behind else 0.0
    return ConsumerReading(status.stream, name, behind, seconds, max(0, reading.bytes - behind), overtaken)


def _measure_delay(pravega: Pravega, position: StreamCut) -> float | None:
    """Return the age of the oldest version that is not completely before a position; None without such a version."""
    try:
        later = set(pravega.controller.list_segments_between(position, None)[0]) - position.positions.keys()
        unread = find_first_unread(CommitLog(pravega, position.stream), position.positions, later)
    except (errors.InvalidOptionError, errors.PermissionDeniedError, errors.StreamNotFoundError):
        return None  # the position is one of an older stream, or the user may not read the log
    return None if unread is None else max(0.0, time.time() - unread.timestamp / 1_000_000)


T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """What was measured, from when and how long; `unread` counts by error conditions what could not be read."""

    began: float
    seconds: float
    streams: Sequence[StreamReading]
    lakes: Sequence[LakeReading]
    consumers: Sequence[ConsumerReading]
    queries: Sequence[Mapping[str, Any]]
    unread: Mapping[str, int]


def measure(catalog: Catalog, scopes: Sequence[str]) -> Measurement:
    """Measure some scopes of a catalog; without a list, all that the user may see.

    Raises ServerUnavailableError, ServerTimeoutError and AuthenticationError. What cannot be read for other reasons,
    such as rights that are missing, is counted and left out.
    """
    began, pravega, unread = time.time(), catalog.pravega, Counter[str]()

    def attempt(read: Callable[..., T], *arguments: object) -> T | None:
        """Return the result of a read; None if its object has been dropped, or is counted as unread."""
        try:
            return read(*arguments)
        except (errors.ServerUnavailableError, errors.ServerTimeoutError, errors.AuthenticationError):
            raise
        except (errors.ScopeNotFoundError, errors.StreamNotFoundError):
            return None
        except errors.PravegaError as error:
            unread[error.condition] += 1
            return None

    streams: list[StreamReading] = []
    lakes: list[LakeReading] = []
    knows_lakes = catalog.options().is_set(o.LAKE_CATALOG)
    consumers: list[ConsumerReading] = []
    for scope in scopes or [scope for scope in pravega.controller.list_scopes() if not is_internal(scope)]:
        names = attempt(pravega.controller.list_streams, scope) or []
        of_scope = [Stream(scope, name) for name in names if not is_internal(name)]
        attempted = map_side_by_side(lambda stream: attempt(read_stream, pravega, stream), of_scope)
        readings = [reading for reading in attempted if reading is not None]
        streams += readings
        with_lake = [reading.stream for reading in readings if reading.has_lake and knows_lakes]
        lakes += filter(None, map_side_by_side(lambda stream: attempt(read_lake, catalog, stream), with_lake))
        consumers += attempt(read_consumers, pravega, scope, readings) or []
    queries = attempt(lambda: list_queries(catalog).to_pylist()) or []
    return Measurement(began, time.time() - began, streams, lakes, consumers, queries, dict(unread))


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
