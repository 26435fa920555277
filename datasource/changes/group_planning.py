"""Plans how the events of a table of changes are read: each task reads a group of segments that share keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.stream import Access, Stream, get_segment_epoch
from pyspark_pravega.errors import DataLossError, InvalidOptionError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.sql import options as o

from ..lake.iceberg import LakeTable
from ..positions.snapshot import SegmentSlice
from ..scan.lake_reader import LakePartition, plan_lake, split_slices
from ..tables.open_table import OpenRead, OpenTable
from ..tables.stream_table import StreamTable
from ..tables.writer_schemas import WriterSchemas
from .group_reader import GroupPartition, GroupPlan, has_whole_snapshots


def group_by_lineage(pravega: Pravega, stream: Stream, slices: Iterable[SegmentSlice]) -> list[list[SegmentSlice]]:
    """Return the slices in groups that share no key; predecessors come first in each group."""
    pieces = {piece.segment_id: piece for piece in slices}
    parents: dict[int, int] = {}

    def find_root(segment: int) -> int:
        """Return the segment that stands for the group of another one."""
        while segment in parents:
            segment = parents[segment]
        return segment

    seen: set[int] = set()
    left = set(pieces)
    while left:
        seen |= left
        segments = sorted(left)
        successors_of_each = map_side_by_side(partial(pravega.controller.successors, stream), segments)
        left = set()
        for segment, successors in zip(segments, successors_of_each, strict=True):
            for successor, predecessors in successors.items():
                for relative in (successor.segment_id, *predecessors):
                    if (root := find_root(segment)) != (other := find_root(relative)):
                        parents[root] = other
                # Even a segment without events in the scan may lead to one with events.
                left.add(successor.segment_id)
        left -= seen
    groups: dict[int, list[SegmentSlice]] = {}
    # A segment's id begins with its epoch, so that predecessors have lower ids.
    for segment in sorted(pieces):
        groups.setdefault(find_root(segment), []).append(pieces[segment])
    return list(groups.values())


def group_by_keys(opened: OpenTable, slices: Sequence[SegmentSlice]) -> Sequence[Sequence[SegmentSlice]]:
    """Return the slices in groups that share no key; one group if the table has no key."""
    in_order = sorted(slices, key=lambda piece: piece.segment_id)
    if not list_key_columns(opened.table.settings):
        return [in_order] if slices else []
    # Segments of one epoch share no key, and a common successor has no events: the controller need not be asked.
    if len({get_segment_epoch(piece.segment_id) for piece in slices}) == 1:
        return [[piece] for piece in in_order]
    return group_by_lineage(opened.pravega, opened.stream, slices)


def check_whole(options: o.Options, what: str) -> None:
    """Raise InvalidOptionError if a read begins after the stream's first event; `what` names what it reads."""
    if options.get(o.START_STREAM_CUT) not in ("earliest", "unbounded"):
        raise InvalidOptionError(
            f"'{o.START_STREAM_CUT.key}' has no meaning for the {what}, which result from all changes from the "
            "first on. Leave it out, or read the table's changelog."
        )


def make_group_plan(read: OpenRead, schema: StructType, columns: StructType) -> GroupPlan:
    """Return the plan of tasks that fold changes. `schema` is what Spark gets, `columns` the data columns in it."""
    options = read.options
    return GroupPlan(
        table=read.table,
        config=read.pravega.config,
        schema=schema,
        columns=columns,
        limit=None,
        fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS),
        window_bytes=options.get(o.READ_WINDOW),
        max_expansion=options.get(o.MAX_EXPANSION),
        writer_schemas=WriterSchemas(read.pravega.config, read.stream, read.table.framing),
        memory=options.get(o.CURRENT_ROWS_MEMORY),
        bad_events=read.rule,
        counted=True,
    )


def find_in_lake(
    table: StreamTable, lake: LakeTable | None, slices: Sequence[SegmentSlice]
) -> dict[int, LakePartition]:
    """Return what a lake has of slices, in their order, by segment. Raises LakeError.

    Raises DataLossError if changes between two slices of a segment were removed before the lake had them.
    """
    if lake is None:
        return {}
    whole: dict[int, SegmentSlice] = {}
    for piece in slices:
        former = whole.get(piece.segment_id, piece)
        if piece.start not in (former.start, former.end):
            raise DataLossError(
                f"Changes of stream {table.stream} were removed before its lake {lake.name} had them: bytes "
                f"{former.end} to {piece.start} of segment {piece.segment_id}. Rows do not result from what is left. "
                "Read the table's changelog, or what the stream has alone with 'lake'='ignore'."
            )
        whole[piece.segment_id] = replace(piece, start=former.start)
    tiered, _ = split_slices(lake, [*whole.values()])
    partitions = plan_lake(lake, table, tiered, [], in_order=True)
    return {partition.read.segment_id: partition for partition in partitions}


def can_clear_rows(table: StreamTable) -> bool:
    """Return whether events may clear rows of other segments."""
    return table.settings.get(o.DEBEZIUM_TRUNCATES.key, "true").lower() == "true" or has_whole_snapshots(table)


def make_partitions(
    pravega: Pravega, table: StreamTable, groups: Sequence[Sequence[SegmentSlice]]
) -> list[GroupPartition]:
    """Return one partition for each group, with the endpoints of its segments."""
    token = pravega.tokens.token(table.stream, Access.READ)
    endpoints = pravega.segments.locations(table.stream, [piece.segment_id for group in groups for piece in group])
    return [
        GroupPartition(tuple(group), {piece.segment_id: endpoints[piece.segment_id] for piece in group}, token)
        for group in groups
    ]
