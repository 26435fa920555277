"""Follows a table: yields the rows that come to it, a batch at a time, each with the position after it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import cancellation
from pyspark_pravega.datasource.kinds.kind import MicroBatchScan
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.scan.event_planning import has_times
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.stream_source.admission import Limits, read_limits
from pyspark_pravega.datasource.stream_source.event_time_drift import check_times
from pyspark_pravega.datasource.stream_source.frontier import StreamSegments
from pyspark_pravega.datasource.stream_source.memory import QueryMemory, SourceMemory
from pyspark_pravega.datasource.stream_source.planning import StreamedTable, TableStream
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_consumer

from ..protocol.replies import TableDescription
from ..queries.merged_reading import FollowedStreams, MergedReading, check_followed
from ..storage.catalogs import Catalog
from ..storage.reporting import explain_dropped_streams, prefix_errors
from ..storage.spelling import name_table_and_stream
from .scan import read_planned, select_columns

_MAX_BYTES = 64 << 20
"""The most bytes of events in a batch, unless an option says otherwise."""
_PAUSE = 0.05
"""Seconds between two looks for new rows."""
_GONE = "If it is created again, follow it without a position."


@dataclass(frozen=True)
class NewRows:
    """Rows that have come to a table, as `Table.follow` yields them.

    A program that stores `position` together with its results continues after these rows when it starts again.

    Attributes
    ----------
    rows : pyarrow.Table
        The rows.
    position : str
        The position after them, for `Table.follow(position=...)`.

    Examples
    --------
    >>> from pyspark_pravega.catalog import connect
    >>> pravega = connect(controller_uri="tcp://localhost:9090")
    >>> for new in pravega.load_table("iot.sensor").follow(available_now=True):
    ...     print(new.rows.num_rows, new.position)
    """

    rows: pa.Table
    position: str = field(repr=False)


@dataclass(frozen=True)
class FollowRequest:
    """What a program asks for when it follows a table; see `Table.follow`."""

    columns: tuple[str, ...]
    condition: pc.Expression | None
    position: str | None
    available_now: bool
    timeout: float | None
    options: Mapping[str, str]


class Followed(Protocol):
    """What is followed: its positions are texts, for programs to store."""

    def start(self, position: str | None) -> str:
        """Return where reading begins: at a position, if one is given. Raises CheckpointError for one that is wrong."""
        ...

    def last(self) -> str:
        """Return where it ends now."""
        ...

    def end(self, since: str, last: str | None, limits: Limits) -> str:
        """Return where the next batch ends; `since` itself if nothing is new."""
        ...

    def plan(self, since: str, until: str) -> PlannedScan:
        """Plan what lies between two positions."""
        ...


def follow(catalog: Catalog, described: TableDescription, request: FollowRequest) -> Iterator[NewRows]:
    """Yield the rows that come to a table; see `Table.follow`."""
    table, kind = described.table, find_table_kind(described.table)
    if not (kind.of_stream or kind.is_merged):
        raise UnsupportedOperationError(kind.refusal("follow", described.name))
    if not kind.events_are_rows:
        raise UnsupportedOperationError(
            f"The rows of {described.name} change, so they cannot be followed. Follow its events: load the table "
            f"`{kind.name_of(table)}$changelog`."
        )
    with prefix_errors("Table", name_table_and_stream(catalog, described.table)):
        resolved = resolve_read(catalog.options, table, request.options)
        refuse_consumer(resolved, "a program that follows a table")
        check_times(catalog.pravega, table.members if kind.is_merged else [table], resolved)
        limits = read_limits(resolved)
        if resolved.source(o.MAX_BYTES_PER_TRIGGER) is o.Source.DEFAULT:
            limits = replace(limits, max_bytes=_MAX_BYTES)
        required = select_columns(described, request.columns, request.condition)
        if has_times(table, required):
            raise UnsupportedOperationError(
                "Only scans have the columns _event_time and _event_time_upper. Leave them out."
            )
        followed: Followed
        if kind.is_merged:
            followed = _MergedStreams(catalog, FollowedStreams(table, required, resolved))
        else:
            followed = _OneStream(catalog, StreamedTable(table, described.id, required, resolved))
        start = followed.start(request.position)
        last = followed.last() if request.available_now else None
    return _read_batches(catalog, described, followed, request, limits, (start, last))


def _read_batches(
    catalog: Catalog,
    described: TableDescription,
    followed: Followed,
    request: FollowRequest,
    limits: Limits,
    bounds: tuple[str, str | None],
) -> Iterator[NewRows]:
    """Yield the rows between two positions; without the second they end when none has come for the timeout."""
    timeout, quiet_since = request.timeout, time.monotonic()
    since, last = bounds
    while True:
        with (
            prefix_errors("Table", name_table_and_stream(catalog, described.table)),
            explain_dropped_streams(_GONE),
        ):
            until = followed.end(since, last, limits)
            new = None
            if until != since:
                rows = read_planned(followed.plan(since, until), described, request.columns, request.condition)
                new = NewRows(rows, until)
        if new is not None:
            yield new
            since, quiet_since = until, time.monotonic()
        elif last is not None or (timeout is not None and time.monotonic() - quiet_since >= timeout):
            return
        else:
            cancellation.sleep(_PAUSE)


class _OneStream:
    """A table of one stream, and what the reading remembers."""

    def __init__(self, catalog: Catalog, read: StreamedTable) -> None:
        self._pravega = catalog.pravega
        self._read = read
        self._stream = TableStream(catalog.pravega, StreamSegments(catalog.pravega, read.stream), read)
        self._memory = QueryMemory()
        self._query = f"follow {uuid.uuid4()}"

    def start(self, position: str | None) -> str:
        return (self._stream.start() if position is None else self._read.read_offset(position)).to_json()

    def last(self) -> str:
        return self._stream.last().to_json()

    def end(self, since: str, last: str | None, limits: Limits) -> str:
        begin = self._read.read_offset(since)
        end = self._stream.end(begin, None if last is None else self._read.read_offset(last), limits, self._memory)
        return since if end.offset is begin else end.offset.to_json()

    def plan(self, since: str, until: str) -> PlannedScan:
        slices = self._stream.slices(self._read.read_offset(since), self._read.read_offset(until))
        batch = MicroBatchScan(slices, self._read.required, self._query)
        return open_table(self._pravega, self._read.table, self._read.options).plan_micro_batch(batch)


class _MergedStreams:
    """A table of several streams, and what the reading remembers. Each look may find new streams."""

    def __init__(self, catalog: Catalog, followed: FollowedStreams) -> None:
        check_followed(followed.table, followed.required, followed.options)
        self._catalog = catalog
        self._followed = followed
        self._memory = SourceMemory()
        self._query = f"follow {uuid.uuid4()}"

    def start(self, position: str | None) -> str:
        look = self._look()
        if position is None:
            return look.start()
        look.check(position)
        return position

    def last(self) -> str:
        return self._look().last()

    def end(self, since: str, last: str | None, limits: Limits) -> str:
        return self._look().end(since, last, limits, self._query).offset

    def plan(self, since: str, until: str) -> PlannedScan:
        return self._look().plan(since, until, self._query)

    def _look(self) -> MergedReading:
        return MergedReading(self._catalog, self._memory, self._followed)
