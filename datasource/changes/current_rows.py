"""Scans the current rows of a table of changes: one partition for each group of segments that share keys, or a few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o

from ..scan.conditions import Sieve, can_evaluate
from ..scan.counts import Counts
from ..scan.event_planning import choose_columns, measure_scan
from ..scan.lake_reader import describe_files
from ..scan.planned_scan import PlannedReader, PlannedRows, PlannedScan, RowSource, measure_extent
from ..scan.scan_request import WantedRows
from ..tables.bad_events import FAILFAST, PERMISSIVE, BadEventRule, read_bad_event_rule
from ..tables.hidden_columns import FORMER_ROW
from ..tables.open_table import OpenRead
from ..tables.stream_table import StreamTable
from .group_planning import check_whole, find_in_lake, group_by_keys, make_group_plan, make_partitions
from .group_reader import GroupPartition, GroupPlan, fold_keyless_rows, group_changes, make_batches, report_left_out
from .last_compaction import begin_at_last_compaction
from .remembered_rows import RememberedGroup, RememberedPartition, find_folder, remember
from .rows.current import CurrentRows
from .rows.entries import name_value
from .rows.names import NUMBERS
from .rows.row_history import RowState
from .truncations import SearchNeeded, find_truncations


class CurrentRowsReader(PlannedReader[GroupPlan, GroupPartition | RememberedPartition]):
    """Folds the changes of the segments of each group."""

    def batches(self, partition: GroupPartition | RememberedPartition) -> Iterator[pa.RecordBatch]:
        plan, counts = self.plan, Counts()
        if isinstance(partition, RememberedPartition):
            for group in partition.groups:
                yield from _read_remembered(plan, group, counts)
        elif list_key_columns(plan.table.settings):
            yield from _read_group(plan, partition, counts)
        else:
            yield from make_batches(plan, fold_keyless_rows(plan, partition, plan.columns.names, counts))
        yield from plan.list_count_batches(counts)


def _read_remembered(plan: GroupPlan, group: RememberedGroup, counts: Counts) -> Iterator[pa.RecordBatch]:
    """Read the events after a state, and write the state after these. It has all columns, for any query.

    A scan by key writes none. Its rows of other keys may not be those of all events; the query's conditions drop them.
    """
    key = list_key_columns(plan.table.settings)
    with ExitStack() as opened:
        is_changing = FORMER_ROW in plan.schema.names  # a statement judges the origins of all rows
        state = group.recall(opened, changing=is_changing)
        if state is None and group.after is None:
            yield from _read_group(plan, group.events, counts)
            return
        if state is not None and group.lookup is not None and plan.key_conditions and not is_changing:
            state = replace(state, entries=[_sieve_keys(plan, key, file) for file in state.entries])
        rows = opened.enter_context(_begin_rows(plan, plan.table.schema, state))
        events = group.events if state is None else group.without(state)
        if state is not None and not events.pieces:
            yield from make_batches(plan, rows.rows_among(_select_columns(plan, state)))
            return
        _feed_rows(plan, rows, events, plan.table.schema, counts)
        keep = None
        if group.after is not None and (state is None or group.lookup is None):
            left = rows.state(piece.segment_id for piece in group.events.pieces)
            keep = opened.enter_context(group.write(left, key))
        yield from make_batches(plan, rows.rows(keep))
        report_left_out(plan, rows.left_out, counts)


def _read_group(plan: GroupPlan, events: GroupPartition, counts: Counts) -> Iterator[pa.RecordBatch]:
    # If bad events do not end the query, the same events are bad whatever columns are requested.
    columns = plan.columns if plan.bad_events.mode == FAILFAST else plan.table.schema
    with _begin_rows(plan, columns) as rows:
        _feed_rows(plan, rows, events, columns, counts)
        yield from make_batches(plan, rows.rows())
        report_left_out(plan, rows.left_out, counts)


def _begin_rows(plan: GroupPlan, columns: StructType, state: RowState | None = None) -> CurrentRows:
    key = list_key_columns(plan.table.settings)
    rest = [name for name in columns.names if name not in key]
    rows = CurrentRows(key, rest, plan.memory, plan.ages)
    if state is not None:
        rows.resume(state)
    rows.clearings.update(plan.clearings)
    return rows


def _feed_rows(plan: GroupPlan, rows: CurrentRows, events: GroupPartition, columns: StructType, counts: Counts) -> None:
    for changes, locations in group_changes(plan, events, columns, counts):
        rows.feed(changes, locations)


def _sieve_keys(plan: GroupPlan, key: Sequence[str], parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the entries of a file whose keys fulfil the query's conditions, so that others take no time."""
    sieve = Sieve(plan.key_conditions, StructType([plan.table.schema[name] for name in key]))
    for part in parts:
        yield part.filter(sieve.mask({name: part.column(name_value(name)).combine_chunks() for name in key}))


def _select_columns(plan: GroupPlan, state: RowState) -> Iterator[pa.Table]:
    """Yield the parts of a state with the columns that the query needs."""
    names = {*list_key_columns(plan.table.settings), *plan.columns.names}
    needed = [*(name_value(name) for name in plan.table.schema.names if name in names), *NUMBERS]
    return (part.select(needed) for file in state.entries for part in file)


def plan_current_rows(read: OpenRead, rows: WantedRows) -> PlannedScan:
    """Fix how the current rows are read, now, or up to the end of an earlier scan.

    Raises InvalidOptionError if a start is given, and MalformedEventError if a truncation cannot be read.
    """
    measured = measure_scan(read, rows.earlier)
    ends = measure_extent(measured.slices)["tail"] if measured.ends is None else measured.ends
    slices = begin_at_last_compaction(read, measured.slices, ends)
    schema, columns = choose_columns(read.table, rows.columns, read.rule, (FORMER_ROW,))
    if FORMER_ROW in schema.names:
        columns = read.table.schema
    output = schema if rows.columns.fields else make_nullable(schema)
    check_whole(read.options, "current rows")
    plan = replace(make_group_plan(read, output, columns), limit=rows.limit, counted=rows.counted)
    folder = find_folder(read)
    if folder is not None and rows.files is None and rows.search.is_preview:
        names_of_files = PlannedRows(0, None, (), (), folder)  # asks for them
        return replace(PlannedScan.unfinished(output, slices, rows=names_of_files), tail=ends)
    plan = replace(plan, in_lake=find_in_lake(read.table, measured.lake, slices))
    groups = group_by_keys(read, slices)
    if len(groups) > 1:
        truncations = find_truncations(read.pravega, plan, slices, rows.search)
        if isinstance(truncations, SearchNeeded):
            return replace(PlannedScan.unfinished(output, slices, truncations.reader), tail=ends)
        plan.clearings.update(truncations)
    planned = make_partitions(read.pravega, read.table, groups)
    partitions: Sequence[GroupPartition | RememberedPartition] = planned
    files = None
    if folder is not None and rows.files is not None:
        # A limit may end a task early, and the ends of older positions need not be in the order of time.
        complete = measured.to_tail and rows.limit is None
        key = StructType([read.table.schema[name] for name in list_key_columns(read.table.settings)])
        on_key = tuple(one for one in rows.conditions if one.columns and can_evaluate([one], key) == [True])
        plan = replace(plan, key_conditions=on_key)
        partitions, files = remember(read, planned, folder, rows, write=complete)
    reader = CurrentRowsReader(plan, partitions)
    planned_scan = PlannedScan.of(RowSource(reader, output, plan.output), slices)
    about = {**measured.about, **describe_files(measured.lake, plan.in_lake.values())}
    return replace(planned_scan, tail=ends, about=about, rows=files)


def read_rule_for_rows(table: StreamTable, options: o.Options) -> BadEventRule:
    """Read the rule for bad events among the changes of rows.

    Leaving a change out may make its row wrong, so that defaults of a catalog do not count. Raises InvalidOptionError
    for `permissive`.
    """
    sources = [options.source(option) for option in (o.MODE, o.DEAD_LETTER)]
    if not {o.Source.DEFAULT, o.Source.CATALOG}.issuperset(sources):
        rule = read_bad_event_rule(options, table.stream)
        if rule.mode != PERMISSIVE:
            return rule
        raise InvalidOptionError(
            f"'{o.MODE.key}'='{PERMISSIVE}' cannot be used for the rows of stream {table.stream}: an event that "
            f"cannot be decoded is not a row. Leave it out, set '{o.MODE.key}' to 'dropmalformed', or read the "
            "changelog."
        )
    return BadEventRule()
