"""A scan of the changes of a change table's rows: one partition per group of segments that share keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_pravega.datasource.change_range import Bounds
from pyspark_pravega.datasource.current_rows_scan import CurrentRowsPlan, GroupPartition, group_changes
from pyspark_pravega.datasource.row_changes import UNKNOWN, numbers_of, value_name
from pyspark_pravega.datasource.row_history import RowHistory, Truncation
from pyspark_pravega.datasource.scan import BATCH_EVENTS, PlannedReader
from pyspark_pravega.errors import MalformedEventError
from pyspark_pravega.formats.change_feed import key_columns

_KINDS = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
"""Spark's names of INSERT, DELETE, BEFORE, AFTER."""


@dataclass(frozen=True)
class ChangesPlan:
    """All that tasks share. `truncations` are those of all segments, None if a task reads them all anyway."""

    rows: CurrentRowsPlan
    bounds: Bounds
    truncations: tuple[Truncation, ...] | None


class ChangesReader(PlannedReader[ChangesPlan, GroupPartition]):
    """One partition per group, whose rows' changes come in their order."""

    def batches(self, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
        """Read the changes of the group's rows."""
        plan, rows = self._plan, self._plan.rows
        key = key_columns(rows.table.settings)
        # All columns are compared, so that what is a change does not depend on what is asked for.
        columns = [name for name in rows.table.schema.names if name not in key]
        with RowHistory(key, columns, rows.memory, plan.truncations, plan.bounds) as history:
            for changes, places in group_changes(rows, partition, [*key, *columns], rows.table.schema):
                for table in history.feed(changes, places):
                    yield from _output(rows, table, key)
            for table in history.rest():
                yield from _output(rows, table, key)


def _output(plan: CurrentRowsPlan, history: pa.Table, key: list[str]) -> Iterator[pa.RecordBatch]:
    schema: pa.Schema = to_arrow_schema(plan.schema, timezone="UTC")
    for name in key:
        if history.column(value_name(name)).null_count:
            raise MalformedEventError(
                f"A change of stream {plan.table.stream} has no value in column '{name}', which is part of the "
                "primary key. Read the table's changelog."
            )
    for begin in range(0, len(history), BATCH_EVENTS):
        part = history.slice(begin, BATCH_EVENTS)
        arrays = [_column(part, field) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(history: pa.Table, field: pa.Field) -> pa.Array:
    if field.name == "_change_type":
        return pc.take(_KINDS, history.column("change").combine_chunks())
    if field.name == "_commit_version":
        return history.column("version").combine_chunks()
    if field.name == "_commit_timestamp":
        times = numbers_of(history, "timestamp")
        return pa.array(times, mask=times == UNKNOWN).cast(pa.timestamp("us", "UTC"))
    array = history.column(value_name(field.name)).combine_chunks()
    return array if array.type == field.type else array.cast(field.type)
