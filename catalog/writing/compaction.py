"""Compacts tables of changes: writes the current rows once more, so that the changes before them may be removed.

A row is repeated as the event of a snapshot, in transactions of some 16 MiB. A row that others change meanwhile
needs no repetition: its newer change lies behind the cut. So each transaction checks at its turn in the commit log
that none of its rows has changed since the rows were folded; if one has, the others are written again without it.
The table therefore has the same rows at any moment, and after the events before the cut are gone.

What other programs append without the log could come between the check and the repeated row, which would then undo it.
So a compaction ends as soon as the stream has grown by more than the log says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client.consumers.consumer import count_bytes_after, lies_before, list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.conflicts import read_new_entries, select_new_events
from pyspark_pravega.datasource.changes.rows.entries import name_value
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import HeadRow
from pyspark_pravega.datasource.insert.change_task import RepeatingWriter
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.prepare import write_settings
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice, list_whole_segments
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.reader import PlannedReader
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.tables.bad_events import BadEventRule
from pyspark_pravega.datasource.tables.hidden_columns import FORMER_ROW
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import OpenRead, resolve_read
from pyspark_pravega.datasource.tables.primary_key import write_primary_key
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import (
    ConcurrentChangeError,
    InvalidOptionError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from .open_writes import write_here

OPERATION = "COMPACT"
"""What the history calls its versions."""
PROCEDURE = "compact_changes"
"""The procedure."""
_MOST_BYTES = 16 << 20
"""Bytes of rows that are put together, and of the events that one transaction has."""
_FIRST_ROWS = 10_000
"""Rows of the first transaction, whose events show how many bytes a row has."""


@dataclass(frozen=True)
class Compaction:
    """What a compaction has done: the rows that it repeated, and the size of the stream before and after it, in bytes.

    The stream was `truncated` at the `cut`, unless a consumer, `held_by`, still needs events before it.
    """

    cut: StreamCut
    rows: int
    bytes_before: int
    bytes_after: int
    truncated: bool
    held_by: str | None


def compact(catalog: Catalog, table: StreamTable, *, truncate: bool) -> Compaction:
    """Repeat the rows of a table, and then, with `truncate`, remove the changes before them.

    Raises UnsupportedOperationError for a table of another kind, without a primary key, or with rows of a connector,
    MalformedEventError for an event that cannot be read, ConcurrentChangeError if others have changed all rows or too
    many of them, PermissionDeniedError for a user who may not write the commit log. What is repeated by then stays.
    """
    pravega, stream = catalog.pravega, table.stream
    opened = open_table(pravega, table, resolve_read(catalog.options, table, {}))
    prepared = open_table(pravega, table, catalog.options(write={})).prepare_changes(PROCEDURE)
    size, cut = measure(catalog, stream), find_end_now(pravega, stream).cut
    repetition = _Repetition(prepared)
    if load_table(pravega, stream).table.schema != table.schema:
        raise ConcurrentChangeError(f"The columns of stream {stream} have just been changed. Call {PROCEDURE} again.")
    rows = repetition.run(opened.plan_scan(ScanRequest(StructType([StructField(FORMER_ROW, table.schema)]))))
    repetition.check_end()
    held_by = truncate_unless_held(catalog, cut) if truncate else None
    return Compaction(cut, rows, size, measure(catalog, stream), truncate and held_by is None, held_by)


def truncate_unless_held(catalog: Catalog, cut: StreamCut) -> str | None:
    """Remove what lies before a cut; return the consumer that still needs it, or may need it, if there is one."""
    pravega = catalog.pravega
    for consumer in list_consumers(pravega, cut.stream):
        if consumer.position is None or lies_before(pravega, consumer.position, cut):
            return consumer.name
    head = pravega.controller.head(cut.stream)
    try:
        pravega.controller.list_segments_between(head, cut)
    except InvalidOptionError:
        return None  # more than that has been removed
    if cut != head:
        pravega.controller.truncate_stream(cut)
    return None


def measure(catalog: Catalog, stream: Stream) -> int:
    """Return how many bytes a stream has."""
    return count_bytes_after(catalog.pravega, catalog.pravega.controller.head(stream)) or 0


def _count_bytes(head: HeadRow | None, stream: Stream) -> int:
    """Return the bytes that transactions of the log hold."""
    if head is None:
        raise PermissionDeniedError(f"{PROCEDURE} on stream {stream} needs the right to read its commit log.")
    if head.content is None and head.version:
        raise UnsupportedOperationError(
            f"The commit log of stream {stream} does not say how many bytes each version has, because an older release "
            f"has written some of them. {PROCEDURE} needs that. INSERT the rows into a new table."
        )
    return 0 if head.content is None else head.content.bytes


class _Repetition:
    """Repeats the rows of a table that others do not change in the meantime."""

    def __init__(self, prepared: TableKind) -> None:
        self._prepared = prepared
        self._read = OpenRead(prepared.pravega, prepared.table, prepared.options, BadEventRule())
        self._write_keys = write_primary_key(prepared.table, prepared.table.schema)
        self._log = CommitLog(prepared.pravega, prepared.stream)
        slices, self._logged = self._measure()
        self._ends = {piece.segment_id: piece.end for piece in slices}
        self._changed = pa.array([], pa.large_string())
        """The keys of the rows that others have changed since then."""
        self._most = _FIRST_ROWS
        """Rows that may be written at once: fewer while others often change them."""

    def run(self, planned: PlannedScan) -> int:
        """Write the rows that a scan finds; return their number."""
        return sum(self._repeat(rows) for rows in self._read_rows(planned))

    def _read_rows(self, planned: PlannedScan) -> Iterator[pa.RecordBatch]:
        reader = planned.reader
        assert isinstance(reader, PlannedReader)
        batches: list[pa.RecordBatch] = []
        for partition in reader.planned:
            for batch in reader.batches(partition):
                batches.append(pa.RecordBatch.from_struct_array(batch.column(FORMER_ROW)))
                if sum(one.nbytes for one in batches) >= _MOST_BYTES:
                    yield _join(batches)
                    batches = []
        if batches:
            yield _join(batches)

    def _repeat(self, rows: pa.RecordBatch) -> int:
        written = 0
        while rows.num_rows:
            part = rows.slice(0, self._most)
            unchanged = part.filter(pc.invert(self._find_changed(part)))
            try:
                written += self._write(unchanged)
            except ConcurrentChangeError:
                if not self._find_changed(unchanged).true_count:
                    raise
                self._most = max(1, part.num_rows // 2)
            else:
                rows = rows.slice(part.num_rows)
        return written

    def _write(self, rows: pa.RecordBatch) -> int:
        """Write rows in one transaction. Raises ConcurrentChangeError if others have changed one of them."""
        if not rows.num_rows:
            return 0
        prepared = self._prepared

        def check(_reports: Sequence[InsertMessage]) -> None:
            here = list_whole_segments(prepared.pravega, prepared.stream, lambda measure: measure(None))
            self._look(here, _count_bytes(self._log.head(), prepared.stream))
            if self._find_changed(rows).true_count:
                raise ConcurrentChangeError(f"Others have changed rows of stream {prepared.stream} meanwhile.")

        insert = Insert.begin(prepared.pravega, prepared.table, write_settings(prepared.options))
        # The first look decodes the last transaction too, before others have to wait for this one.
        request = CommitRequest(OPERATION, check=check, look_ahead=lambda _: self._look(*self._measure()))

        def commit(reports: Sequence[InsertMessage]) -> int:
            count = insert.commit(reports, request)
            size = sum(report.bytes for report in reports) // count
            self._most = min(2 * self._most, max(1, _MOST_BYTES // size))
            return count

        return write_here(insert, prepared.table.schema, iter([rows]), commit, RepeatingWriter)

    def _look(self, pieces: Sequence[SegmentSlice], logged: int) -> None:
        """Find out what others have changed since the last look.

        The log has so many bytes. Raises ConcurrentChangeError if the stream has grown by more.
        """
        new, keys = self._select_new(pieces, logged), [self._changed]
        for entries in read_new_entries(self._read, new):
            names = self._read.table.schema.names
            values = pa.table([entries.column(name_value(name)) for name in names], names=names)
            keys += [self._write_keys(batch) for batch in values.combine_chunks().to_batches()]
        self._changed = pa.concat_arrays(keys)
        self._ends |= {piece.segment_id: piece.end for piece in new}

    def check_end(self) -> None:
        """Raise ConcurrentChangeError if another program has appended events since the last look."""
        self._select_new(*self._measure())

    def _measure(self) -> tuple[Sequence[SegmentSlice], int]:
        """Measure the stream, and the bytes in all transactions of the log: no commit is between both."""
        head: HeadRow | None = None

        def measure_settled(measure: Callable[[StreamCut | None], list[SegmentSlice]]) -> list[SegmentSlice]:
            nonlocal head
            until = time.monotonic() + self._prepared.options.get(o.TRANSACTION_TIMEOUT).total_seconds()
            slices, head = self._log.measure_settled_with_head(measure, published_by=until)
            return slices

        slices = list_whole_segments(self._read.pravega, self._read.stream, measure_settled)
        return slices, _count_bytes(head, self._read.stream)

    def _select_new(self, pieces: Sequence[SegmentSlice], logged: int) -> Sequence[SegmentSlice]:
        """Return the events since the last look, of which the log knows all."""
        new, stream = select_new_events(self._read, self._ends, pieces), self._read.stream
        if sum(piece.end - piece.start for piece in new) != logged - self._logged:
            raise ConcurrentChangeError(
                f"While {PROCEDURE} ran, another program appended events to stream {stream} by itself, without "
                "the commit log. If it changed a row just when that row was repeated, the row has its former value "
                f"again. Stop the program, let it write its last changes once more, and call {PROCEDURE} when only "
                "statements and streaming queries of this software write to the table."
            )
        self._logged = logged
        return new

    def _find_changed(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        return pc.is_in(self._write_keys(rows), self._changed)


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    [joined] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
