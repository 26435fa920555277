"""Compacts tables of changes: writes the current rows once more, so that the changes before them may be removed.

A row is repeated as the event of a snapshot, in transactions of some 16 MiB. A row that others change meanwhile
needs no repetition: its newer change lies behind the cut. So each transaction checks at its turn in the commit log
that none of its rows has changed since the rows were folded; if one has, the others are written again without it.
The table therefore has the same rows at any moment, and after the events before the cut are gone.

What other programs append without the log could come between the check and the repeated row, which would then undo it.
So a compaction ends as soon as the stream has grown by more than the log says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructField, StructType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import count_bytes_after, lies_before, list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.conflicts import list_keys, read_new_entries, select_new_events
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import COMPACT, HeadRow
from pyspark_pravega.datasource.insert.change_task import RepeatingWriter
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.insert import Insert, write_here
from pyspark_pravega.datasource.insert.prepare import write_settings
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice, measure_segments
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.tables.hidden_columns import FORMER_ROW
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import OpenRead, resolve_read
from pyspark_pravega.datasource.tables.row_keys import write_primary_key
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table
from .row_changes import open_rows

PROCEDURE = "compact_changes"
"""The procedure."""
_MOST_BYTES = 16 << 20
"""Bytes of rows that are put together, and of the events that one transaction has."""
_FIRST_ROWS = 10_000
"""Rows of the first transaction, whose events show how many bytes a row has."""
_Measurement: TypeAlias = tuple[Sequence[SegmentSlice], HeadRow | None]
"""All that a stream has, and the head row that its commit log had then."""


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


def compact(catalog: Catalog, stream: Stream, *, truncate: bool) -> Compaction:
    """Repeat the rows of a table, and then, with `truncate`, remove the changes before them.

    Raises UnsupportedOperationError for a table of another kind, without a primary key, or with rows of a connector,
    MalformedEventError for an event that cannot be read, ConcurrentChangeError if others have changed all rows or
    append without the log, PermissionDeniedError for a user who may not write the log. What is repeated by then stays.
    """
    pravega, options = catalog.pravega, catalog.options(write={})
    size, cut = measure(catalog, stream), find_end_now(pravega, stream).cut
    log = CommitLog(pravega, stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())
    measured = _measure_settled(pravega, stream, log)
    # Loaded after that: rows that have been changed in a column added since count as changed.
    table = load_table(pravega, stream).table
    with prefix_table(catalog, table):
        if o.LAKE.key in table.scan_properties:
            raise errors.UnsupportedOperationError(
                f"Stream {stream} has a lake, which keeps all changes, so {PROCEDURE} would save nothing. The table "
                f"property '{o.LAKE_KEEP.key}' removes old changes from the stream."
            )
        prepared = open_table(pravega, table, options).prepare_changes(PROCEDURE)
        repetition = _Repetition(prepared, open_rows(catalog, prepared.table), log, measured)
        opened = open_table(pravega, table, resolve_read(catalog.options, table, {}))
        rows = repetition.run(opened.plan_scan(ScanRequest(StructType([StructField(FORMER_ROW, table.schema)]))))
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
    except errors.InvalidOptionError:
        return None  # more than that has been removed
    if cut != head:
        pravega.controller.truncate_stream(cut)
    return None


def measure(catalog: Catalog, stream: Stream) -> int:
    """Return how many bytes a stream has."""
    return count_bytes_after(catalog.pravega, catalog.pravega.controller.head(stream)) or 0


def _measure_settled(pravega: Pravega, stream: Stream, log: CommitLog) -> _Measurement:
    """Measure while no transaction is being committed, and each one that was committed has its version."""
    return log.measure_settled_with_head(partial(measure_segments, pravega, stream), published_by=math.inf)


def _count_bytes(head: HeadRow | None, stream: Stream) -> int:
    """Return the bytes that transactions of the log hold."""
    if head is None:
        raise errors.PermissionDeniedError(f"{PROCEDURE} on stream {stream} needs the right to read its commit log.")
    if head.content is None and head.version:
        raise errors.UnsupportedOperationError(
            f"The commit log of stream {stream} does not say how many bytes each version has, because an older release "
            f"has written some of them. {PROCEDURE} needs that. INSERT the rows into a new table."
        )
    return 0 if head.content is None else head.content.bytes


class _Repetition:
    """Repeats the rows of a table that others have not changed since it was `measured`."""

    def __init__(self, prepared: TableKind, read: OpenRead, log: CommitLog, measured: _Measurement) -> None:
        pieces, head = measured
        self._prepared, self._read, self._log = prepared, read, log
        self._write_keys = write_primary_key(prepared.table, prepared.table.schema)
        self._ends = {piece.segment_id: piece.end for piece in pieces}
        self._logged = _count_bytes(head, prepared.stream)
        self._changed = pa.array([], pa.large_string())
        """The keys of the rows that others have changed since then."""
        self._most = _FIRST_ROWS
        """Rows that may be written at once: fewer while others often change them."""

    def run(self, planned: PlannedScan) -> int:
        """Write the rows that a scan finds; return their number."""
        count = sum(self._repeat(rows) for rows in self._read_rows(planned))
        self._select_new(self._measure())
        return count

    def _read_rows(self, planned: PlannedScan) -> Iterator[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        for batch in planned.reader.read_all():
            batches.append(pa.RecordBatch.from_struct_array(batch.column(FORMER_ROW)))
            if sum(one.nbytes for one in batches) >= _MOST_BYTES:
                yield _join(batches)
                batches = []
        if batches:
            yield _join(batches)

    def _repeat(self, rows: pa.RecordBatch) -> int:
        keys, done, written = self._write_keys(rows), 0, 0
        while done < len(keys):
            most = min(self._most, len(keys) - done)
            is_unchanged = pc.invert(self._are_changed(keys.slice(done, most)))
            keys_of_part = keys.slice(done, most).filter(is_unchanged)
            try:
                written += self._write(rows.slice(done, most).filter(is_unchanged), keys_of_part)
            except errors.ConcurrentChangeError:
                if not self._are_changed(keys_of_part).true_count:
                    raise
                self._most = max(1, most // 2)
            else:
                done += most
        return written

    def _write(self, rows: pa.RecordBatch, keys: pa.LargeStringArray) -> int:
        """Write rows in one transaction. Raises ConcurrentChangeError if others have changed one of them."""
        if not rows.num_rows:
            return 0
        prepared = self._prepared

        def check(_reports: Sequence[InsertMessage]) -> None:
            self._look((measure_segments(prepared.pravega, prepared.stream), self._log.head()))
            if self._are_changed(keys).true_count:
                raise errors.ConcurrentChangeError(f"Others have changed rows of stream {prepared.stream} meanwhile.")

        insert = Insert.begin(prepared.pravega, prepared.table, write_settings(prepared.options))
        # The first look decodes the last transaction too, before others have to wait for this one.
        request = CommitRequest(COMPACT, check=check, look_ahead=lambda _: self._look(self._measure()))

        def commit(reports: Sequence[InsertMessage]) -> int:
            count = insert.commit(reports, request)
            size = sum(report.bytes for report in reports) // count
            self._most = min(2 * self._most, max(1, _MOST_BYTES // size))
            return count

        return write_here(insert, prepared.table.schema, iter([rows]), commit, RepeatingWriter)

    def _measure(self) -> _Measurement:
        return _measure_settled(self._prepared.pravega, self._prepared.stream, self._log)

    def _look(self, measured: _Measurement) -> None:
        """Find out what others have changed since the last look."""
        new, keys = self._select_new(measured), [self._changed]
        keys += [self._write_keys(list_keys(self._read, entries)) for entries in read_new_entries(self._read, new)]
        self._changed = pa.concat_arrays(keys)
        self._ends |= {piece.segment_id: piece.end for piece in new}

    def _select_new(self, measured: _Measurement) -> Sequence[SegmentSlice]:
        """Return the events since the last look. Raises ConcurrentChangeError if the log does not know all of them."""
        pieces, head = measured
        new, stream = select_new_events(self._read, self._ends, pieces), self._read.stream
        logged = _count_bytes(head, stream)
        if sum(piece.end - piece.start for piece in new) != logged - self._logged:
            raise errors.ConcurrentChangeError(
                f"While {PROCEDURE} ran, another program appended events to stream {stream} by itself, without "
                "the commit log. If it changed a row just when that row was repeated, the row has its former value "
                f"again. Stop the program, let it write its last changes once more, and call {PROCEDURE} when only "
                "statements and streaming queries of this software write to the table."
            )
        self._logged = logged
        return new

    def _are_changed(self, keys: pa.LargeStringArray) -> pa.BooleanArray:
        return pc.is_in(keys, self._changed)


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    [joined] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
