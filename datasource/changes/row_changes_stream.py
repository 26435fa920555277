"""Plans the micro-batches of a stream of the changes of rows.

The rows before a batch are known from the batch before it, see `states`. A truncation deletes the rows that exist at
its place. If it comes late, after later changes of rows of other segments, it deletes only older rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import DataLossError, InvalidOptionError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.sql import options as o

from ..lake.iceberg import LakeTable
from ..lake.open_lake import open_lake
from ..positions.snapshot import SegmentSlice
from ..scan.event_planning import measure_slices
from ..scan.planned_scan import PlannedRows, PlannedScan, RowSource, TaskFiles, measure_extent
from ..scan.scan_request import Search
from ..stream_source.source import KeptRows, StreamReader
from ..tables.change_range import ChangeRange
from ..tables.open_table import OpenRead
from ..tables.stream_table import StreamTable
from .changes_offset import ChangesOffset, check_endless
from .group_planning import find_in_lake, group_by_lineage, make_partitions
from .group_reader import GroupPartition
from .log_ranges import number_changes
from .row_changes import ChangesPartition, ChangesPlan, ChangesReader, make_row_changes_plan
from .rows.clearing import Clearing, list_members
from .states import KnownRows, hash_values, is_state, list_state_names, make_state_name, read_number
from .truncations import SearchNeeded, find_truncations

Truncations = tuple[Clearing, ...] | None
"""None if each task sees all of them itself."""


SegmentGroups: TypeAlias = Recent[Hashable, list[frozenset[int]]]
"""Groups of segments that share keys, by all segments. A group stays: one of a segment's successors is in the set."""


def check_stream_of_rows(table: StreamTable, changes: ChangeRange, options: o.Options) -> None:
    """Raise InvalidOptionError for a range or options that a stream of the changes of rows cannot have."""
    check_endless(changes, options)
    if not list_key_columns(table.settings):
        raise InvalidOptionError(
            f"A stream of changes of rows needs their primary key. Set the table property '{o.PRIMARY_KEY.key}', for "
            "example 'id' or 'order_id,line_no', or read with spark.read.changes."
        )
    if changes.net:
        raise InvalidOptionError(
            "deduplicationMode=netChanges cannot be used for a stream of changes of rows: Spark would drop changes "
            "that are late by their _commit_timestamp. Leave it out and net the changes of each batch (foreachBatch), "
            "or read with spark.read.changes."
        )


@dataclass(frozen=True)
class ChangesBatch:
    """A request of a batch of a stream of changes, between two positions. `kept` are the rows where it begins."""

    reader: StreamReader
    since: ChangesOffset
    until: ChangesOffset
    kept: KeptRows
    groups: SegmentGroups
    search: Search

    def list_cuts(self) -> list[StreamCut]:
        """Return where the query began, and the begin and the end of the batch."""
        return [(self.since.begin or self.since).cut, self.since.cut, self.until.cut]


def plan_new_row_changes(read: OpenRead, changes: ChangeRange, batch: ChangesBatch) -> PlannedScan:
    """Fix what a batch reads."""
    pravega, table, stream = read.pravega, read.table, read.stream
    plan = make_row_changes_plan(read, batch.reader.columns)
    query = hash_values(str(stream), table.schema.json(), table.format, dict(table.settings))
    since, until = batch.since, batch.until
    rows_before = KnownRows.from_json(batch.kept.known, query)
    if rows_before is None and since.begin is None:
        rows_before = KnownRows(query)
    lake = open_lake(read)
    new = measure_slices(read, since.cut, until.cut, lake)
    plan = replace(plan, in_lake=find_in_lake(table, lake, new))
    # The segments where the query began show the groups even if retention has removed those in between.
    segments = {piece.segment_id for piece in new}.union(*(cut.positions for cut in batch.list_cuts()))
    groups = batch.groups.get(frozenset(segments), lambda: _find_groups(pravega, stream, segments))
    several = len(segments) > 1
    truncations = find_truncations(pravega, plan, new, batch.search) if several else None
    if isinstance(truncations, SearchNeeded):
        return PlannedScan.unfinished(batch.reader.columns, new, truncations.reader)
    states = _States(query, rows_before, batch, truncations or ())
    # If nothing is known, the states of all groups must be built.
    everyone = bool(truncations) or rows_before is None
    touched = [group for group in groups if everyone or any(piece.segment_id in group for piece in new)]
    before = {group: states.list_files_before(group) for group in touched}
    past: Sequence[SegmentSlice] = []
    old: Truncations = None
    if None in before.values():
        past = _measure_past(read, since, lake)
        plan = replace(plan, in_lake=find_in_lake(table, lake, [*past, *new]))
        searched = find_truncations(pravega, plan, past, batch.search) if several else None
        if isinstance(searched, SearchNeeded):
            return PlannedScan.unfinished(batch.reader.columns, new, searched.reader)
        old = searched

    def make_partitions_of(slices: Sequence[SegmentSlice]) -> list[GroupPartition]:
        parts = [[piece for piece in slices if piece.segment_id in group] for group in touched]
        return make_partitions(pravega, table, parts)

    # Positions of earlier releases have no version: such a batch is repeated as it was, unless it left versions out.
    last = until.known or until.version or (None if changes.start is not None else 0)
    log = number_changes(read, (*past, *new), since.version + 1, last, begins=since.begin is None)
    partitions = [
        ChangesPartition(new_events, before[group] or (), past_events if before[group] is None else None, name)
        for group, new_events, past_events in zip(
            touched, make_partitions_of(new), make_partitions_of(past), strict=True
        )
        for name in [states.name_after(group, before[group])]
    ]
    reader = ChangesReader(ChangesPlan(replace(plan, log=log), changes.bounds(), truncations, old), partitions)
    tasks = [(TaskFiles(tuple(name for files in part.before for name in files), part.after),) for part in partitions]
    return PlannedScan(
        RowSource(reader, plan.schema, plan.output),
        **measure_extent(new),
        affinities=[min(group) for group in touched],
        rows=states.plan_rows(tasks),
    )


def _measure_past(read: OpenRead, since: ChangesOffset, lake: LakeTable | None) -> Sequence[SegmentSlice]:
    """Return the events of the query before a batch. Raises DataLossError if some of them were removed."""
    begin = since.begin or since
    try:
        return measure_slices(read, begin.cut, since.cut, lake)
    except DataLossError:
        raise DataLossError(
            f"The query's checkpoint does not have the rows of stream {read.stream}, and some of the events that led "
            "to them were removed. Start the query with a new checkpoint, or set 'fail-on-data-loss' to false to "
            "continue with what is left."
        ) from None


class _States:
    """Chooses the files of the states before and after a batch."""

    def __init__(
        self, query: str, rows_before: KnownRows | None, batch: ChangesBatch, truncations: Sequence[Clearing]
    ) -> None:
        self._known, self._batch, self._files = rows_before, batch, frozenset(batch.kept.files)
        self._found = [list_members(one)[:3] for one in truncations]
        # Executors keep files of several queries, and of several clusters.
        self._query = hash_values(query, batch.reader.checkpoint)
        last = max((read_number(name) for name in self._files if is_state(name)), default=0)
        self._next = rows_before or KnownRows(query, last)
        self._next = replace(self._next, number=self._next.number + 1)

    def list_files_before(self, group: frozenset[int]) -> tuple[tuple[str, ...], ...] | None:
        """Return the files of a group's state, or of several if groups have become one; None if it is unknown."""
        if self._known is None:
            return None
        files = [self._known.files(segment, self._files) for segment in sorted(group & self._known.states.keys())]
        return None if None in files else tuple(one for one in files if one is not None)

    def name_after(self, group: frozenset[int], before: tuple[tuple[str, ...], ...] | None) -> str:
        """Name the state of a group after the batch."""
        offsets = [
            sorted((segment, at) for segment, at in cut.positions.items() if segment in group)
            for cut in self._batch.list_cuts()
        ]
        former = [list_state_names(files)[0] for files in before or ()]
        number = self._next.number
        name = make_state_name(self._query, min(group), number, before is None, former, offsets, self._found)
        states, merged = dict(self._next.states), dict(self._next.merged)
        for former_group in group & states.keys():
            del states[former_group]
            if former_group != min(group):
                merged[former_group] = number
        chain = list_state_names(before[0]) if before is not None and len(before) == 1 else ()
        self._next = replace(self._next, states={**states, min(group): (name, *chain)}, merged=merged)
        return name

    def plan_rows(self, tasks: Sequence[tuple[TaskFiles, ...]]) -> PlannedRows:
        """Return what the checkpoint must hold after the batch."""
        obsolete = self._next.obsolete(self._files, self._batch.kept.retain)
        return PlannedRows(self._next.number, self._next.to_json(), tuple(obsolete), tuple(tasks))


def _find_groups(pravega: Pravega, stream: Stream, segments: set[int]) -> list[frozenset[int]]:
    groups = group_by_lineage(pravega, stream, [SegmentSlice(segment, 0, 0) for segment in segments])
    return [frozenset(piece.segment_id for piece in group) for group in groups]
