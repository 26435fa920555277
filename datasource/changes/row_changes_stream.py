"""Plans the micro-batches of a stream of the changes of rows.

The rows before a batch are known from the batch before it, see `states`. A truncation deletes the rows that are there
at its place. Where it comes late, after later changes of rows of other segments, it deletes those that are older.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import DataLossError, InvalidOptionError
from pyspark_pravega.formats.changes.feed import key_columns
from pyspark_pravega.sql import options as o

from ..scan.bad_events import BadEventRule
from ..scan.event_planning import measure_slices
from ..scan.planned_scan import PlannedScan
from ..scan.snapshot import SegmentSlice
from ..tables.change_range import ChangeRange
from ..tables.stream_table import StreamTable
from .group_planning import group_partitions
from .group_reader import GroupPlan
from .lineage import by_lineage
from .position import Position, check_endless
from .recent import Recent
from .row_changes_planning import row_changes_plan
from .row_changes_reader import NewChangesPartition, NewChangesPlan, NewChangesReader
from .rows.history import Truncation
from .truncation_search import Search, Unsearched, truncations_in

Truncations = tuple[Truncation, ...] | None
"""None where each task sees all of them itself."""


class ChangesMemory:
    """Keeps what batches of streams of changes find out for those after them. It only saves time."""

    def __init__(self) -> None:
        self.groups: Recent[list[frozenset[int]]] = Recent()
        """Sets of segments in groups that share keys. They stay so: of a segment's successors, one is in the set."""


def check_stream_of_rows(table: StreamTable, changes: ChangeRange, options: o.Options) -> None:
    """Raise InvalidOptionError for a range or options that a stream of the changes of rows cannot have."""
    check_endless(changes, options)
    if not key_columns(table.settings):
        raise InvalidOptionError(
            f"A stream of changes of rows needs their primary key. Set the table property '{o.PRIMARY_KEY.key}', for "
            "example 'id' or 'order_id,line_no', or read with spark.read.changes."
        )
    if changes.net:
        raise InvalidOptionError(
            "deduplicationMode=netChanges is not possible for a stream of changes of rows: Spark would drop those that "
            "are late by their _commit_timestamp. Leave it out and net the changes of each batch (foreachBatch), or "
            "read with spark.read.changes."
        )


def plan_new_row_changes(
    pravega: Pravega,
    table: StreamTable,
    changes: ChangeRange,
    required: StructType,
    options: o.Options,
    rule: BadEventRule,
    since: Position,
    until: Position,
    checkpoint: str,
    memory: ChangesMemory,
    search: Search,
) -> PlannedScan:
    """Fix what a batch reads between two positions. `checkpoint` tells this query from others."""
    plan = row_changes_plan(pravega, table, required, options, rule)
    past, lost = _past(pravega, plan.table, options, since)
    new = measure_slices(pravega, plan.table, options, since.cut, until.cut)
    query = _digest(checkpoint, str(table.stream), table.schema.json(), table.format, dict(plan.table.settings))
    # What scaling made of those where the query began tells groups even if retention has removed what is in between.
    cuts = ((since.begin or since).cut, since.cut, until.cut)
    segments = {piece.segment_id for piece in (*past, *new)}.union(*(cut.positions for cut in cuts))
    truncations = _truncations(pravega, plan, past, new, segments, search)
    if isinstance(truncations, Unsearched):
        return PlannedScan.unfinished(required, new, truncations.reader)
    old, found = truncations
    groups = memory.groups.get((table.stream, frozenset(segments)), lambda: _groups(pravega, table.stream, segments))
    every = (*(old or ()), *(found or ()))
    befores, afters = (
        group_partitions(pravega, table, [[each for each in slices if each.segment_id in group] for group in groups])
        for slices in (past, new)
    )
    partitions = [
        NewChangesPartition(
            before, after, _state(query, since, group, old or ()), _state(query, until, group, every), lost
        )
        for group, before, after in zip(groups, befores, afters, strict=True)
    ]
    partitions = [each for each in partitions if each.before != each.after]
    reader = NewChangesReader(NewChangesPlan(plan, changes.bounds(), old, found), partitions)
    return PlannedScan.of(reader, required, required, new, [each.affinity for each in partitions])


def _past(pravega: Pravega, table: StreamTable, options: o.Options, since: Position) -> tuple[list[SegmentSlice], bool]:
    """Return the events of the query before a batch, and whether some of them are there no more."""
    begin = since.begin or since
    try:
        return measure_slices(pravega, table, options, begin.cut, since.cut), False
    except DataLossError:
        return measure_slices(pravega, table, options, None, since.cut), True


def _truncations(
    pravega: Pravega,
    plan: GroupPlan,
    past: Sequence[SegmentSlice],
    new: Sequence[SegmentSlice],
    segments: set[int],
    search: Search,
) -> tuple[Truncations, Truncations] | Unsearched:
    """Return the truncations before a batch and those in it."""
    if len(segments) < 2:
        return None, None
    old = truncations_in(pravega, plan, past, search)
    if isinstance(old, Unsearched):
        return old
    found = truncations_in(pravega, plan, new, search)
    return found if isinstance(found, Unsearched) else (old, found)


def _groups(pravega: Pravega, stream: Stream, segments: set[int]) -> list[frozenset[int]]:
    found = by_lineage(pravega, stream, [SegmentSlice(each, 0, 0) for each in segments])
    return [frozenset(piece.segment_id for piece in group) for group in found]


def _state(query: str, position: Position, group: frozenset[int], truncations: Sequence[Truncation]) -> str:
    """Name the state of a group's rows at a position by all that it depends on."""
    offsets = sorted((each, offset) for each, offset in position.cut.positions.items() if each in group)
    return f"{query}-{offsets[0][0]}-{_digest(offsets, [astuple(each) for each in truncations])}"


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]
