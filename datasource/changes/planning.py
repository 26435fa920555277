"""From a table and a range of its changes to the scan behind `CHANGES`.

A change table's changes are those of its rows, with the database's positions as versions; see `row_history`. Of any
other table every event is a row inserted, and a version is one of its commit log. What has come since the newest of
them, or was written by others, belongs to the version that the next commit will make.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, segment_epoch, segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError
from pyspark_pravega.formats.changes.feed import key_columns
from pyspark_pravega.sql import options as o

from ..commit_log import CommitLog, Version
from ..scan.planning import PlannedScan, measured, nullable, plan_events, planned, prepared
from ..scan.snapshot import SegmentSlice, up_to
from ..scan.task_plan import CHANGE_COLUMNS, SegmentVersions
from ..tables.change_range import LAST, TIMESTAMP, Bounds, ChangeRange
from ..tables.stream_table import StreamTable
from .current_rows_planning import check_whole, clears, group_partitions, groups_of_keys, rows_plan
from .current_rows_scan import CurrentRowsPlan, find_truncates
from .rows.history import AllTruncates, Truncation
from .scan import ChangesPlan, ChangesReader


@dataclass(frozen=True)
class Former:
    """Where an earlier scan ended, and the newest version that it knew."""

    tail: Mapping[int, int]
    newest: int


def changes_schema(table: StreamTable) -> StructType:
    """The columns of the changes of a table. Raises InvalidSchemaError when it has some of the same name."""
    taken = [name for name in table.schema.names if name.lower() in CHANGE_COLUMNS.names]
    if taken:
        raise InvalidSchemaError(
            f"It has the column {', '.join(taken)}, whose name CHANGES gives to another. Read the table itself."
        )
    key = row_key(table)
    columns = [StructField(f.name, f.dataType, f.nullable and f.name not in key, f.metadata) for f in table.schema]
    return StructType([*columns, *CHANGE_COLUMNS.fields])


def row_key(table: StreamTable) -> list[str]:
    """The columns that tell which row a change is of; none where every change is a row of its own."""
    return key_columns(table.settings) if table.of_changes else []


def plan_changes(
    pravega: Pravega,
    table: StreamTable,
    changes: ChangeRange,
    required: StructType,
    options: o.Options,
    *,
    limit: int | None = None,
    former: Former | None = None,
) -> PlannedScan:
    """Fix what a scan of changes reads, now or as an earlier scan of the same changes did.

    `required` are those of `changes_schema` that Spark needs. Raises what `plan_scan` does, and InvalidOptionError for
    a range without sense.
    """
    check_options(options)
    bounds = changes.bounds()
    if table.of_changes:
        return _plan_row_changes(pravega, table, bounds, required, options, former)
    return _plan_appended(pravega, table, bounds, required, options, limit, former)


def check_options(options: o.Options) -> None:
    """Raise InvalidOptionError for bounds of a scan."""
    if options.get(o.START_STREAM_CUT) not in ("earliest", "unbounded") or options.is_set(o.END_STREAM_CUT):
        raise InvalidOptionError(
            f"CHANGES has bounds of its own. Leave '{o.START_STREAM_CUT.key}' and '{o.END_STREAM_CUT.key}' out."
        )


def _plan_row_changes(
    pravega: Pravega,
    table: StreamTable,
    bounds: Bounds,
    required: StructType,
    options: o.Options,
    former: Former | None,
) -> PlannedScan:
    rows = rows_read(pravega, table, required, options)
    slices = measured(pravega, table, options, None, None)
    if former is not None:
        slices = up_to(slices, former.tail)
    groups = groups_of_keys(pravega, table, slices)
    truncations = truncations_in(pravega, rows, slices) if len(slices) > 1 and row_key(table) else None
    reader = ChangesReader(ChangesPlan(rows, bounds, truncations), group_partitions(pravega, table, groups))
    return planned(reader, rows.schema, rows.schema, slices)


def rows_read(pravega: Pravega, table: StreamTable, required: StructType, options: o.Options) -> CurrentRowsPlan:
    """How the changes of rows are read. Raises InvalidOptionError for options that do not fit them."""
    if options.source(o.PRIMARY_KEY) is o.Source.QUERY:
        raise InvalidOptionError(f"'{o.PRIMARY_KEY.key}' cannot be given for CHANGES alone. Set the table property.")
    table, rule = prepared(pravega, table, options)
    check_whole(options, "changes of its rows")
    columns = StructType([field for field in required if field.name in table.schema.names])
    schema = required if required.fields else nullable(StructType([table.schema.fields[0]]))
    return rows_plan(pravega, table, schema, columns, options, rule)


def truncations_in(pravega: Pravega, rows: CurrentRowsPlan, slices: Sequence[SegmentSlice]) -> tuple[Truncation, ...]:
    """The truncations among these events, as far as they count."""
    found = AllTruncates()
    if clears(rows.table):
        find_truncates(pravega, rows, slices, found)
    return tuple(found.all)


def _plan_appended(
    pravega: Pravega,
    table: StreamTable,
    bounds: Bounds,
    required: StructType,
    options: o.Options,
    limit: int | None,
    former: Former | None,
) -> PlannedScan:
    table, rule = prepared(pravega, table, options)
    log = CommitLog(pravega, table.stream)
    first, last, versions = version_range(log, bounds)
    cuts = {each.number: each.cut for each in versions}
    slices = [] if last < first else measured(pravega, table, options, cuts.get(first - 1), cuts.get(last))
    if former is not None:
        slices = up_to(slices, former.tail)
    if last not in cuts:
        # Read after the end was measured, so that every version before it is known.
        versions = log.versions(first)
        for late in [each for each in versions if each.number == last]:
            slices = up_to(slices, {piece.segment_id: _end_in(piece, late.cut) for piece in slices})
    if former is not None:
        versions = [each for each in versions if each.number <= former.newest]
    newest = max((each.number for each in versions), default=0)
    by_segment = segment_versions(table.stream, slices, versions, first)
    return replace(
        plan_events(pravega, table, slices, required, options, rule, limit=limit, counted=True, versions=by_segment),
        newest=newest,
    )


def version_range(log: CommitLog, bounds: Bounds) -> tuple[int, int, list[Version]]:
    """The first and the last version within bounds, and what is known of versions from that before the first one on.

    Raises InvalidOptionError where that is not the end of a version.
    """
    if bounds.unit == TIMESTAMP:
        versions = log.versions()
        first, last = _versions_between(versions, bounds)
    else:
        first, last = max(bounds.low, 1), bounds.high
        versions = log.versions(first - 1)
    if first > 1 and first - 1 not in {each.number for each in versions}:
        newest = max((each.number for each in log.versions()), default=0)
        raise InvalidOptionError(
            f"CHANGES FROM VERSION {first} is not possible: the newest version is {newest}, and the next one will be "
            f"{newest + 1}."
        )
    return first, last, versions


def _versions_between(versions: Sequence[Version], bounds: Bounds) -> tuple[int, int]:
    """The first and the last version published between two times; what is not published yet counts as of now."""
    newest = versions[-1].number if versions else 0
    first = next((each.number for each in versions if each.timestamp >= bounds.low), newest + 1)
    if bounds.high == LAST:
        return first, LAST
    end = newest if bounds.high < time.time_ns() // 1000 else newest + 1
    return first, next((each.number - 1 for each in versions if each.timestamp > bounds.high), end)


def segment_versions(
    stream: Stream, slices: Iterable[SegmentSlice], versions: Sequence[Version], first: int
) -> dict[str, SegmentVersions]:
    """Which versions the events of slices belong to, by segment; `versions` are those from the first one on."""
    return {segment_name(stream, piece.segment_id): _segment_versions(piece, versions, first) for piece in slices}


def _segment_versions(piece: SegmentSlice, versions: Iterable[Version], first: int) -> SegmentVersions:
    """Which versions the events of a slice belong to; those behind the newest, to the next one."""
    ends, numbers, times = [], [], []
    reached, newest = piece.start, first - 1
    for version in versions:
        newest = max(newest, version.number)
        end = min(_end_in(piece, version.cut), piece.end)
        if end > reached and version.number >= first:
            ends.append(end)
            numbers.append(version.number)
            times.append(version.timestamp)
            reached = end
    if reached < piece.end:
        ends.append(piece.end)
        numbers.append(newest + 1)
        times.append(-1)
    return SegmentVersions(tuple(ends), tuple(numbers), tuple(times))


def _end_in(piece: SegmentSlice, cut: StreamCut) -> int:
    """How far a segment had grown at the tail that a cut is of."""
    if piece.segment_id in cut.positions:
        return cut.positions[piece.segment_id]
    # A tail has a segment of the newest epoch. What it does not name was sealed before or made after it.
    made_later = segment_epoch(piece.segment_id) > max(map(segment_epoch, cut.positions), default=-1)
    return 0 if made_later else piece.end
