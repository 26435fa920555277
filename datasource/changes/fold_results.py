"""Makes batches of what folds of changes result in: current rows, or what changes did to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.stream import make_segment_name
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.formats.core.arrow_types import arrow_schema

from ..scan.counts import make_null_counts
from ..scan.reader import BATCH_EVENTS
from .group_reader import GroupPlan
from .rows.entries import name_value
from .rows.names import UNKNOWN, read_numbers

_KINDS = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
"""Spark's names of INSERT, DELETE, BEFORE, AFTER."""


def make_batches(plan: GroupPlan, results: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield batches of rows, or of a history, as many as the plan allows."""
    schema: pa.Schema = arrow_schema(plan.output)
    left = plan.limit
    for table in results:
        _check_keys(plan, table)
        for begin in range(0, len(table), BATCH_EVENTS):
            part = table.slice(begin, BATCH_EVENTS)
            if left is not None:
                part = part.slice(0, left)
                left -= len(part)
            arrays = [_make_column(plan, part, schema.field(number)) for number in range(len(plan.schema))]
            if plan.counted:
                arrays.append(make_null_counts(len(part)))
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if left == 0:
                return


def _check_keys(plan: GroupPlan, table: pa.Table) -> None:
    for name in list_key_columns(plan.table.settings):
        column = table.column(name_value(name))
        if column.null_count:
            event = f"A change of stream {plan.table.stream}"
            if "offset" in table.column_names:  # a history lacks it
                row = pc.index(column.is_null(), True).as_py()
                segment = make_segment_name(plan.table.stream, int(read_numbers(table, "segment")[row]))
                event = f"The event at offset {read_numbers(table, 'offset')[row]} of segment {segment}"
            raise MalformedEventError(
                f"{event} has no value in column '{name}', which is part of the primary key. Read the table's "
                "changelog."
            )


def _make_column(plan: GroupPlan, table: pa.Table, field: pa.Field) -> pa.Array:
    match field.name:
        case name if name in plan.columns.names or name_value(name) in table.column_names:
            array = table.column(name_value(name)).combine_chunks()
            return array if array.type == field.type else array.cast(field.type)
        case "_change_type":
            return pc.take(_KINDS, table.column("change").combine_chunks())
        case "_commit_version":
            return table.column("version").combine_chunks()
        case "_commit_timestamp":
            times = read_numbers(table, "timestamp")
            return pa.array(times, mask=times == UNKNOWN).cast(pa.timestamp("us", "UTC"))
        case "_offset":
            return pa.array(read_numbers(table, "offset"), pa.int64())
        case "_segment":
            return _name_segments(plan, table)
        case "_event_pointer":
            offset, length = (pa.array(read_numbers(table, name)).cast(pa.string()) for name in ("offset", "length"))
            return pc.binary_join_element_wise(_name_segments(plan, table), ":", offset, "-", length, "")
    return pa.nulls(len(table), field.type)


def _name_segments(plan: GroupPlan, table: pa.Table) -> pa.Array:
    ids = pa.array(read_numbers(table, "segment")).dictionary_encode()
    names = [make_segment_name(plan.table.stream, segment_id) for segment_id in ids.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(ids.indices)
