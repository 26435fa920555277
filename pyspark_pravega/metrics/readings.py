"""Reads what metrics say of a stream, and of the consumers that read it."""

from __future__ import annotations

import time
import uuid
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import ConsumerStatus, list_consumers_of_scope
from pyspark_pravega.client.segments.store import SegmentInfo
from pyspark_pravega.client.stream import RetentionPolicy, Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.table import HeadRow, Version
from pyspark_pravega.errors import InvalidOptionError, PermissionDeniedError, StreamNotFoundError


@dataclass(frozen=True)
class StreamReading:
    """A stream at one moment. `log` is the head of its commit log; None without the right to read that."""

    stream: Stream
    segments: Mapping[int, SegmentInfo]
    log: HeadRow | None
    retention: RetentionPolicy | None

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
class ConsumerReading:
    """A consumer of a stream. Without a known position, as of other clients' reader groups, most is None.

    `seconds_behind` is the age of the oldest version that it has not read completely; None where there is none.
    `bytes_read` are those between the stream's head and its position. `is_overtaken`: events after its position were
    removed.
    """

    stream: Stream
    name: str
    bytes_behind: int | None
    seconds_behind: float | None
    bytes_read: int | None
    is_overtaken: bool


def read_stream(pravega: Pravega, stream: Stream) -> StreamReading:
    """Read a stream. Raises StreamNotFoundError, PermissionDeniedError and the errors of servers that are away."""
    retention = pravega.controller.stream_configuration(stream).retention
    ids, token = pravega.controller.segments_between(pravega.controller.head(stream), None)
    pravega.segments.seed_token(stream, token)
    return StreamReading(
        stream, pravega.segments.segment_infos(stream, ids), CommitLog(pravega, stream).head(), retention
    )


def read_consumers(pravega: Pravega, scope: str, streams: Iterable[StreamReading]) -> Iterator[ConsumerReading]:
    """Read the consumers of a scope that read these streams.

    Raises ScopeNotFoundError, and PermissionDeniedError for a user who may not see consumers.
    """
    known = {reading.stream: reading for reading in streams}
    for status in list_consumers_of_scope(pravega, scope):
        if (reading := known.get(status.stream)) is not None:
            yield _read_consumer(pravega, status, reading)


def _read_consumer(pravega: Pravega, status: ConsumerStatus, reading: StreamReading) -> ConsumerReading:
    name, behind = f"{status.scope}/{status.name}", status.bytes_behind
    if status.position is None or behind is None:
        return ConsumerReading(status.stream, name, None, None, None, False)
    overtaken = any(
        (info := reading.segments.get(segment)) is None or offset < info.start_offset
        for segment, offset in status.position.positions.items()
    )
    seconds = _measure_delay(pravega, status.position) if behind else 0.0
    return ConsumerReading(status.stream, name, behind, seconds, max(0, reading.bytes - behind), overtaken)


def _measure_delay(pravega: Pravega, position: StreamCut) -> float | None:
    """Return the age of the oldest version that is not completely before a position; None without such a version."""
    log = CommitLog(pravega, position.stream)
    try:
        later = set(pravega.controller.segments_between(position, None)[0]) - position.positions.keys()
        newest = log.newest()
        number = 1 + bisect_left(range(1, newest + 1), True, key=lambda one: not _has_read(log, one, position, later))
        unread = log.versions(number, number) if number <= newest else []
    except (InvalidOptionError, PermissionDeniedError, StreamNotFoundError):
        return None  # the position is one of an older stream, or the user may not read the log
    return max(0.0, time.time() - unread[0].timestamp / 1_000_000) if unread else None


def _has_read(log: CommitLog, number: int, position: StreamCut, later: Collection[int]) -> bool:
    versions: list[Version] = log.versions(number, number)
    # A segment that is neither in the position nor later has been read completely.
    return all(
        segment not in later and offset <= position.positions.get(segment, offset)
        for version in versions
        for segment, offset in version.cut.positions.items()
    )
