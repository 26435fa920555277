"""Follows a table: yields the rows that come to it, a batch at a time, each with the position behind it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client import cancellation
from pyspark_pravega.datasource.kinds.kind import MicroBatch
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.scan.event_planning import wants_times
from pyspark_pravega.datasource.stream_source.admission import Limits, limits_of
from pyspark_pravega.datasource.stream_source.frontier import StreamSegments
from pyspark_pravega.datasource.stream_source.memory import QueryMemory
from pyspark_pravega.datasource.stream_source.offset import SourceOffset
from pyspark_pravega.datasource.stream_source.planning import StreamedTable, TableStream
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_consumer

from ..protocol.replies import TableDescription
from ..storage.connections import Catalog
from ..storage.naming import explain_dropped_streams, prefix_errors
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


def follow(catalog: Catalog, described: TableDescription, request: FollowRequest) -> Iterator[NewRows]:
    """Yield the rows that come to a table; see `Table.follow`."""
    table, kind = described.table, find_table_kind(described.table)
    if not kind.of_stream:
        raise UnsupportedOperationError(kind.refusal("follow", described.name))
    if not kind.events_are_rows:
        raise UnsupportedOperationError(
            f"The rows of {described.name} change, so they cannot be followed. Follow its events: load the table "
            f"`{kind.name_of(table)}$changelog`."
        )
    with prefix_errors("Table", name_table_and_stream(catalog, described.table)):
        resolved = catalog.options(read=request.options, properties=table.scan_properties)
        refuse_consumer(resolved, "a program that follows a table")
        limits = limits_of(resolved)
        if resolved.source(o.MAX_BYTES_PER_TRIGGER) is o.Source.DEFAULT:
            limits = replace(limits, max_bytes=_MAX_BYTES)
        required = select_columns(described, request.columns, request.condition)
        if wants_times(table, required):
            raise UnsupportedOperationError(
                "Only scans have the columns _event_time and _event_time_upper. Leave them out."
            )
        read = StreamedTable(table, described.id, required, resolved)
        stream = TableStream(catalog.pravega, StreamSegments(catalog.pravega, table.stream), read)
        start = stream.start() if request.position is None else read.read_offset(request.position)
        last = stream.last() if request.available_now else None
    following = _Following(catalog, described, request, read, stream, limits)
    return following.read_batches(start, last)


@dataclass(frozen=True)
class _Following:
    """A table that is followed, and what the reading remembers."""

    catalog: Catalog
    described: TableDescription
    request: FollowRequest
    read: StreamedTable
    stream: TableStream
    limits: Limits
    memory: QueryMemory = field(default_factory=QueryMemory)
    query: str = field(default_factory=lambda: f"follow {uuid.uuid4()}")

    def read_batches(self, since: SourceOffset, last: SourceOffset | None) -> Iterator[NewRows]:
        """Yield the rows behind an offset; they end at `last`, or when none has come for the request's timeout."""
        timeout, quiet_since = self.request.timeout, time.monotonic()
        while True:
            with (
                prefix_errors("Table", name_table_and_stream(self.catalog, self.described.table)),
                explain_dropped_streams(_GONE),
            ):
                until = self.stream.end(since, last, self.limits, self.memory).offset
                new = None if until is since else NewRows(self._read_rows(since, until), until.to_json())
            if new is not None:
                yield new
                since, quiet_since = until, time.monotonic()
            elif last is not None or (timeout is not None and time.monotonic() - quiet_since >= timeout):
                return
            else:
                cancellation.sleep(_PAUSE)

    def _read_rows(self, since: SourceOffset, until: SourceOffset) -> pa.Table:
        batch = MicroBatch(self.stream.slices(since, until), self.read.required, self.query)
        planned = open_table(self.catalog.pravega, self.read.table, self.read.options).plan_micro_batch(batch)
        return read_planned(planned, self.described, self.request.columns, self.request.condition)
