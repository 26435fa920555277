"""Scans the changes of rows of a table of changes. Versions are the database's positions, else those of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o

from ..lake.open_lake import open_lake
from ..positions.snapshot import cut_slices
from ..scan.counts import Counts
from ..scan.event_planning import measure_slices
from ..scan.planned_scan import PlannedReader, PlannedScan, RowSource
from ..scan.scan_request import WantedRows
from ..tables.change_range import VERSION, Bounds
from ..tables.open_table import OpenRead
from .group_planning import check_whole, find_in_lake, group_by_keys, make_group_plan, make_partitions
from .group_reader import GroupPartition, GroupPlan, fold_keyless_rows, group_changes, make_batches, report_left_out
from .log_ranges import number_changes
from .rows.clearing import Clearing
from .rows.names import Names
from .rows.row_history import RowHistory, Within
from .states import WHOLE, RowStates, read_group
from .truncations import SearchNeeded, find_truncations

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChangesPlan:
    """The plan of all tasks.

    `truncations` are those among the events, of all segments; `past` are those among earlier events, for the changes
    after these. Either is None if each task reads them all anyway.
    """

    rows: GroupPlan
    bounds: Bounds
    truncations: tuple[Clearing, ...] | None
    past: tuple[Clearing, ...] | None = None


@dataclass
class ChangesPartition(InputPartition):
    """The events of a group of segments, and for a stream of changes the rows before them.

    `before` are the files of the states of these rows, the newest first; they are of several groups if segments were
    merged. `past` are the events that led to these rows, if their states are unknown. `after` names the new state.
    """

    events: GroupPartition
    before: tuple[tuple[str, ...], ...] = ()
    past: GroupPartition | None = None
    after: str | None = None


class ChangesReader(PlannedReader[ChangesPlan, ChangesPartition]):
    """One partition for each group, with the changes of its rows in order.

    In a stream, these are the groups that have new events, or rows that a new truncation deletes.
    """

    def batches(self, partition: ChangesPartition) -> Iterator[pa.RecordBatch]:
        plan, counts = self.plan.rows, Counts()
        if list_key_columns(plan.table.settings):
            changes = self._list_changes(partition, counts)
        else:
            names = [name for name in plan.schema.names if name in plan.table.schema.names]
            changes = fold_keyless_rows(plan, partition.events, names, counts, self.plan.bounds)
        yield from make_batches(plan, changes)
        yield from plan.list_count_batches(counts)

    def _list_changes(self, partition: ChangesPartition, counts: Counts) -> Iterator[pa.Table]:
        plan = self.plan
        with _make_history(plan.rows, plan.truncations, plan.bounds) as history:
            if partition.after is None:
                yield from _feed_history(plan.rows, history, partition.events, counts)
                yield from history.finish()
            else:
                yield from self._go_on(history, partition, partition.after, counts)
            report_left_out(plan.rows, history.left_out, counts)

    def _go_on(
        self, history: RowHistory, partition: ChangesPartition, after: str, counts: Counts
    ) -> Iterator[pa.Table]:
        """Continue from the states before the events, and write the one after them."""
        states, before = RowStates(), partition.before
        if partition.past is not None:
            before = (self._read_past(partition.past, after, states),)
        with ExitStack() as opened:
            history.resume([opened.enter_context(states.read(files)) for files in before])
            yield from _feed_history(self.plan.rows, history, partition.events, counts)
            # A state that was read from past events is in no checkpoint, and cannot be extended.
            changed = partition.past is None and len(before) == 1 and states.has_to_be_extended(before[0])
            state = opened.enter_context(states.write(after, [name for files in before for name in files]))
            yield from history.finish(state.add, changed=changed)
            state.whole = history.kept_all

    def _read_past(self, past: GroupPartition, after: str, states: RowStates) -> tuple[str, ...]:
        """Rebuild the state before the new events; return its file."""
        plan = self.plan
        _LOG.warning(
            "Stream %s is read from its start: the state of its rows is not known here.", plan.rows.table.stream
        )
        name = f"{read_group(after)}-{0:09}-{after.rpartition('-')[2]}"
        with _make_history(plan.rows, plan.past, Bounds(VERSION, 1, 0)) as history, states.write(name) as state:
            for _ in (*_feed_history(plan.rows, history, past, Counts()), *history.finish(state.add)):
                raise AssertionError("an unwanted change was returned")
        return (name + WHOLE,)


def _make_history(rows: GroupPlan, truncations: Sequence[Clearing] | None, within: Within) -> RowHistory:
    key = list_key_columns(rows.table.settings)
    # All columns are compared, so that a change does not depend on the requested columns.
    columns = [name for name in rows.table.schema.names if name not in key]
    return RowHistory(key, columns, rows.memory, truncations, within, Names(rows.ages, rows.log))


def _feed_history(rows: GroupPlan, history: RowHistory, group: GroupPartition, counts: Counts) -> Iterator[pa.Table]:
    for changes, locations in group_changes(rows, group, rows.table.schema, counts):
        yield from history.feed(changes, locations)


def plan_row_changes(read: OpenRead, bounds: Bounds, rows: WantedRows) -> PlannedScan:
    """Fix what a scan of changes reads, now or as an earlier scan of the same changes did.

    Raises InvalidOptionError for options that do not fit the changes of rows.
    """
    lake = open_lake(read)
    slices = measure_slices(read, None, None, lake)
    if rows.earlier is not None:
        slices = cut_slices(slices, rows.earlier.tail)
    plan = replace(make_row_changes_plan(read, rows.columns), in_lake=find_in_lake(read.table, lake, slices))
    groups = group_by_keys(read, slices)
    keyed = bool(list_key_columns(read.table.settings))
    several = len(slices) > 1 and keyed
    truncations = find_truncations(read.pravega, plan, slices, rows.search) if several else None
    if isinstance(truncations, SearchNeeded):
        return PlannedScan.unfinished(plan.schema, slices, truncations.reader)
    partitions = make_partitions(read.pravega, read.table, groups)
    log = number_changes(read, slices)
    reader = ChangesReader(
        ChangesPlan(replace(plan, log=log), bounds, truncations), [*map(ChangesPartition, partitions)]
    )
    return PlannedScan.of(RowSource(reader, plan.schema, plan.output), slices)


def check_key_of_table(options: o.Options) -> None:
    """Raise InvalidOptionError if a query with CHANGES gives a primary key of its own."""
    if options.source(o.PRIMARY_KEY) is o.Source.QUERY:
        raise InvalidOptionError(
            f"'{o.PRIMARY_KEY.key}' cannot be given for CHANGES alone. Set it as a table property."
        )


def make_row_changes_plan(read: OpenRead, required: StructType) -> GroupPlan:
    """Return how the changes of rows are read. Raises InvalidOptionError for options that do not fit them."""
    table = read.table
    check_whole(read.options, "changes of its rows")
    columns = StructType([field for field in required if field.name in table.schema.names])
    schema = required if required.fields else make_nullable(StructType([table.schema.fields[0]]))
    return make_group_plan(read, schema, columns)
