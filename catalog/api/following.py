"""Follows a table: yields the rows that come to it, a batch at a time, each with the position after it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyspark_pravega.client import cancellation
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.scan.event_planning import has_times
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.stream_source.source import BatchRange, StreamReader, StreamSource
from pyspark_pravega.datasource.table_of_options import load_members
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_division

from ..storage.reporting import explain_dropped_streams
from ..storage.spelling import prefix_table
from .scan import Scan, read_planned, select_columns

_MAX_BYTES = 64 << 20
"""The most bytes of events in a batch, unless an option says otherwise."""
_PAUSE = 0.05
"""Seconds between two looks for new rows."""
_GONE = "If it is created again, follow it without a position."


@dataclass(frozen=True)
class NewRows:
    """Rows that have come to a table, as `Table.follow` yields them.

    A program that stores `position` together with its results continues after these rows when it starts again.

    `rows`: the rows. `position`: the position after them, for `Table.follow(position=...)`.
    """

    rows: pa.Table
    position: str = field(repr=False)


def follow(scan: Scan, position: str | None, *, available_now: bool, timeout: float | None) -> Iterator[NewRows]:
    """Yield the rows of a scan that come to its table; see `Table.follow`."""
    catalog, described, table = scan.catalog, scan.described, scan.described.table
    find_table_kind(table).check_supports("follow", described.name, table)
    with prefix_table(catalog, table):
        resolved = resolve_read(catalog.options, table, scan.options)
        refuse_division(resolved)
        required = select_columns(described, scan.columns, scan.condition)
        if has_times(table, required):
            raise UnsupportedOperationError(
                "Only scans have the columns _event_time and _event_time_upper. Leave them out."
            )
        reader = StreamReader(
            described.name, described.id, required, f"follow {uuid.uuid4()}", SourceMemory(), catalog.hold, load_members
        )
        followed = open_table(catalog.pravega, table, resolved).open_stream(reader)
        if position is not None:
            followed.check(position)
        start = followed.start() if position is None else position
        limits = followed.limits()
        if resolved.source(o.MAX_BYTES_PER_TRIGGER) is o.Source.DEFAULT:
            limits = replace(limits, max_bytes=_MAX_BYTES)
        last = followed.last() if available_now else None
    return _release_at_end(reader, _read_batches(scan, followed, limits, start, last, timeout))


def _release_at_end(reader: StreamReader, batches: Iterator[NewRows]) -> Iterator[NewRows]:
    """Yield rows; the program's consumer, if it has one, then stays at the end of those before the last demand."""
    try:
        yield from batches
    finally:
        reader.memory.note_stopped(reader.checkpoint)


def _read_batches(
    scan: Scan, followed: StreamSource, limits: Limits, since: str, last: str | None, timeout: float | None
) -> Iterator[NewRows]:
    """Yield the rows between two positions; without the second they end when none has come for the timeout."""
    quiet_since = time.monotonic()
    while True:
        with prefix_table(scan.catalog, scan.described.table), explain_dropped_streams(_GONE):
            followed.commit(since)  # the program is done with the rows before that, since it asks for more
            until = followed.end(since, last, limits).offset
            new = None
            if until != since:
                new = NewRows(read_planned(scan, followed.plan(BatchRange(since, until))), until)
        if new is not None:
            yield new
            since, quiet_since = until, time.monotonic()
        elif last is not None or (timeout is not None and time.monotonic() - quiet_since >= timeout):
            return
        else:
            cancellation.sleep(_PAUSE)
