"""Reads the current rows of a table of changes: one partition per group of segments that share keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.stream import segment_name
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import key_columns
from pyspark_pravega.formats.core.arrow_types import arrow_schema

from ..scan.bad_events import FAILFAST
from ..scan.counts import Counts, no_counts
from ..scan.reader import BATCH_EVENTS, PlannedReader
from .group_reader import GroupPartition, GroupPlan, group_changes, keyless_rows, report_left_out
from .rows.current import CurrentRows
from .rows.entries import value_name
from .rows.names import numbers_of


class CurrentRowsReader(PlannedReader[GroupPlan, GroupPartition]):
    """One partition per group, which folds the changes of its segments."""

    def batches(self, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
        """Read the current rows of the group's keys."""
        counts = Counts()
        yield from _read_group(self._plan, partition, counts)
        yield from self._plan.told(counts)


def _read_group(plan: GroupPlan, partition: GroupPartition, counts: Counts) -> Iterator[pa.RecordBatch]:
    key = key_columns(plan.table.settings)
    if not key:
        yield from _output(plan, keyless_rows(plan, partition, plan.columns.names, counts))
        return
    # The same events are bad whatever is asked for, where that does not end the query.
    read = plan.columns if plan.bad_events.mode == FAILFAST else plan.table.schema
    rest = [name for name in read.names if name not in key]
    with CurrentRows(key, rest, plan.memory, plan.clearings.ages) as rows:
        rows.clearings.update(plan.clearings)
        for changes, locations in group_changes(plan, partition, [*key, *rest], read, counts):
            rows.feed(changes, locations)
        yield from _output(plan, rows.rows())
        report_left_out(plan, rows.left_out, counts)


def _output(plan: GroupPlan, rows: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    schema: pa.Schema = arrow_schema(plan.output)
    left = plan.limit
    for entries in rows:
        _check_keys(plan, entries)
        for begin in range(0, len(entries), BATCH_EVENTS):
            part = entries.slice(begin, BATCH_EVENTS)
            if left is not None:
                part = part.slice(0, left)
                left -= len(part)
            arrays = [_column(plan, part, schema.field(place)) for place in range(len(plan.schema))]
            if plan.counted:
                arrays.append(no_counts(len(part)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if left == 0:
                return


def _check_keys(plan: GroupPlan, entries: pa.Table) -> None:
    for name in key_columns(plan.table.settings):
        column = entries.column(value_name(name))
        if column.null_count:
            place = pc.index(column.is_null(), True).as_py()
            segment = segment_name(plan.table.stream, int(numbers_of(entries, "segment")[place]))
            raise MalformedEventError(
                f"The event at offset {numbers_of(entries, 'offset')[place]} of segment {segment} has no value in "
                f"column '{name}', which is part of the primary key. Read the table's changelog."
            )


def _column(plan: GroupPlan, entries: pa.Table, field: pa.Field) -> pa.Array:
    if field.name in plan.columns.names:
        array = entries.column(value_name(field.name)).combine_chunks()
        return array if array.type == field.type else array.cast(field.type)
    if field.name == "_offset":
        return pa.array(numbers_of(entries, "offset"), pa.int64())
    if field.name in ("_segment", "_event_pointer"):
        ids = pa.array(numbers_of(entries, "segment")).dictionary_encode()
        names = pa.array([segment_name(plan.table.stream, each) for each in ids.dictionary.to_pylist()], pa.string())
        segments = names.take(ids.indices)
        if field.name == "_segment":
            return segments
        offset, length = (pa.array(numbers_of(entries, name)).cast(pa.string()) for name in ("offset", "length"))
        return pc.binary_join_element_wise(segments, ":", offset, "-", length, "")
    return pa.nulls(len(entries), field.type)
