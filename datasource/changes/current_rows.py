"""Scans the current rows of a table of changes: one partition for each group of segments that share keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.stream import make_segment_name
from pyspark_pravega.errors import InvalidOptionError, MalformedEventError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o

from ..scan.counts import Counts, make_null_counts
from ..scan.event_planning import choose_columns, measure_scan
from ..scan.planned_scan import PlannedScan, RowSource
from ..scan.reader import BATCH_EVENTS, PlannedReader
from ..scan.scan_request import WantedRows
from ..tables.bad_events import FAILFAST, PERMISSIVE, BadEventRule, read_bad_event_rule
from ..tables.hidden_columns import FORMER_ROW
from ..tables.open_table import OpenRead
from ..tables.stream_table import StreamTable
from .group_planning import check_whole, group_by_keys, make_group_plan, make_partitions
from .group_reader import GroupPartition, GroupPlan, fold_keyless_rows, group_changes, report_left_out
from .remembered_rows import RememberedPartition, ask_for_files, find_folder, remember
from .rows.current import CurrentRows
from .rows.entries import name_value
from .rows.names import NUMBERS, read_numbers
from .truncations import SearchNeeded, find_truncations


class CurrentRowsReader(PlannedReader[GroupPlan, GroupPartition | RememberedPartition]):
    """One partition for each group, which folds the changes of its segments."""

    def batches(self, partition: GroupPartition | RememberedPartition) -> Iterator[pa.RecordBatch]:
        """Read the current rows of the group's keys."""
        counts = Counts()
        if isinstance(partition, RememberedPartition):
            yield from _read_remembered(self._plan, partition, counts)
        else:
            yield from _read_group(self._plan, partition, counts)
        yield from self._plan.list_count_batches(counts)


def _read_remembered(plan: GroupPlan, partition: RememberedPartition, counts: Counts) -> Iterator[pa.RecordBatch]:
    """Read the events after a state, and write the state after these. It has all columns, for any query."""
    with ExitStack() as opened:
        state = opened.enter_context(partition.recall())
        if state is None and partition.after is None:
            yield from _read_group(plan, partition.events, counts)
            return
        key, columns = list_key_columns(plan.table.settings), plan.table.schema
        rest = [name for name in columns.names if name not in key]
        rows = opened.enter_context(CurrentRows(key, rest, plan.memory, plan.clearings.ages))
        events = partition.events
        if state is not None:
            rows.resume(state)
            events = partition.without(state)
        rows.clearings.update(plan.clearings)
        if state is not None and not events.pieces:
            names = {*key, *plan.columns.names}
            needed = [*(name_value(name) for name in columns.names if name in names), *NUMBERS]
            yield from _make_output(
                plan, rows.rows_among(part.select(needed) for file in state.entries for part in file)
            )
            return
        for changes, locations in group_changes(plan, events, [*key, *rest], columns, counts):
            rows.feed(changes, locations)
        if partition.after is None:
            yield from _make_output(plan, rows.rows())
        else:
            left = rows.state(piece.segment_id for piece in partition.events.pieces)
            keep = opened.enter_context(partition.write(left))
            yield from _make_output(plan, rows.rows(keep))
        report_left_out(plan, rows.left_out, counts)


def _read_group(plan: GroupPlan, partition: GroupPartition, counts: Counts) -> Iterator[pa.RecordBatch]:
    key = list_key_columns(plan.table.settings)
    if not key:
        yield from _make_output(plan, fold_keyless_rows(plan, partition, plan.columns.names, counts))
        return
    # If bad events do not end the query, the same events are bad whatever columns are requested.
    read = plan.columns if plan.bad_events.mode == FAILFAST else plan.table.schema
    rest = [name for name in read.names if name not in key]
    with CurrentRows(key, rest, plan.memory, plan.clearings.ages) as rows:
        rows.clearings.update(plan.clearings)
        for changes, locations in group_changes(plan, partition, [*key, *rest], read, counts):
            rows.feed(changes, locations)
        yield from _make_output(plan, rows.rows())
        report_left_out(plan, rows.left_out, counts)


def _make_output(plan: GroupPlan, rows: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    schema: pa.Schema = arrow_schema(plan.output)
    left = plan.limit
    for entries in rows:
        _check_keys(plan, entries)
        for begin in range(0, len(entries), BATCH_EVENTS):
            part = entries.slice(begin, BATCH_EVENTS)
            if left is not None:
                part = part.slice(0, left)
                left -= len(part)
            arrays = [_make_column(plan, part, schema.field(number)) for number in range(len(plan.schema))]
            if plan.counted:
                arrays.append(make_null_counts(len(part)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if left == 0:
                return


def _check_keys(plan: GroupPlan, entries: pa.Table) -> None:
    for name in list_key_columns(plan.table.settings):
        column = entries.column(name_value(name))
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            segment = make_segment_name(plan.table.stream, int(read_numbers(entries, "segment")[row]))
            raise MalformedEventError(
                f"The event at offset {read_numbers(entries, 'offset')[row]} of segment {segment} has no value in "
                f"column '{name}', which is part of the primary key. Read the table's changelog."
            )


def _make_column(plan: GroupPlan, entries: pa.Table, field: pa.Field) -> pa.Array:
    if field.name in plan.columns.names:
        array = entries.column(name_value(field.name)).combine_chunks()
        return array if array.type == field.type else array.cast(field.type)
    if field.name == FORMER_ROW:
        members = list(field.type)
        columns = [_make_column(plan, entries, member) for member in members]
        return pa.StructArray.from_arrays(columns, fields=members)
    if field.name == "_offset":
        return pa.array(read_numbers(entries, "offset"), pa.int64())
    if field.name in ("_segment", "_event_pointer"):
        ids = pa.array(read_numbers(entries, "segment")).dictionary_encode()
        names = pa.array(
            [make_segment_name(plan.table.stream, segment_id) for segment_id in ids.dictionary.to_pylist()], pa.string()
        )
        segments = names.take(ids.indices)
        if field.name == "_segment":
            return segments
        offset, length = (pa.array(read_numbers(entries, name)).cast(pa.string()) for name in ("offset", "length"))
        return pc.binary_join_element_wise(segments, ":", offset, "-", length, "")
    return pa.nulls(len(entries), field.type)


def plan_current_rows(read: OpenRead, rows: WantedRows) -> PlannedScan:
    """Fix how the current rows are read, now, or up to the end of an earlier scan.

    Raises InvalidOptionError if a start is given, and MalformedEventError if a truncation cannot be read.
    """
    measured = measure_scan(read, rows.earlier)
    slices = measured.slices
    schema, columns = choose_columns(read.table, rows.columns, read.rule, (FORMER_ROW,))
    if FORMER_ROW in schema.names:
        columns = read.table.schema
    output = schema if rows.columns.fields else make_nullable(schema)
    check_whole(read.options, "current rows")
    plan = replace(make_group_plan(read, output, columns), limit=rows.limit, counted=rows.counted)
    folder = find_folder(read)
    if folder is not None and rows.files is None and rows.search.is_preview:
        return PlannedScan.unfinished(output, slices, rows=ask_for_files(folder))
    groups = group_by_keys(read, slices)
    if len(groups) > 1:
        truncations = find_truncations(read.pravega, plan, slices, rows.search)
        if isinstance(truncations, SearchNeeded):
            return PlannedScan.unfinished(output, slices, truncations.reader)
        for truncation in truncations:
            plan.clearings.add(truncation)
    planned = make_partitions(read.pravega, read.table, groups)
    partitions: Sequence[GroupPartition | RememberedPartition] = planned
    files = None
    if folder is not None and rows.files is not None:
        # A limit may end a task early, and the ends of older positions need not be in the order of time.
        complete = measured.to_tail and rows.limit is None
        partitions, files = remember(read, planned, folder, rows.files, write=complete)
    reader = CurrentRowsReader(plan, partitions)
    return replace(PlannedScan.of(RowSource(reader, output, plan.output), slices), about=measured.about, rows=files)


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
