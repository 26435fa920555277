"""Sieves the rows of a planned scan by conditions of the query, before they become rows of the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from ..tables.hidden_columns import fields_by_name
from .conditions import Condition, Sieve
from .counts import Counts, find_counts
from .planned_scan import RowSource
from .reader import PlannedReader


@dataclass(frozen=True)
class SievingPlan:
    """The reader of the rows, the conditions that they must fulfil, and the part of them that is returned."""

    reader: PlannedReader[object, InputPartition]
    conditions: tuple[Condition, ...]
    read: StructType
    """The columns of the reader's rows, to which the conditions refer."""
    columns: int
    """How many of them, from the first one on, are returned."""
    counted: bool
    """Whether batches of the reader may hold counts."""
    limit: int | None
    """The rows that are enough for one partition; None: all."""


class SievingReader(PlannedReader[SievingPlan, InputPartition]):
    """The partitions of another reader, without the rows that do not fulfil all conditions.

    Spark does not evaluate the conditions again. The other reader decodes the events of all rows, so that the same
    events are bad, and are counted, as without conditions.
    """

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition of the other reader."""
        plan, left = self._plan, self._plan.limit
        sieve = Sieve(plan.conditions, plan.read)
        names = plan.read.fieldNames()
        schema, counts = None, Counts()
        for batch in plan.reader.batches(partition):
            if plan.counted and find_counts(batch) is not None:
                yield self._select_returned(batch)
                continue
            mask = sieve.mask(dict(zip(names, batch.columns, strict=False)))
            counts.sieved += len(mask) - mask.true_count
            schema = batch.schema
            if not mask.true_count:
                continue
            rows = self._select_returned(batch)
            if mask.true_count < len(mask):
                rows = rows.filter(mask)
            if left is not None:
                rows = rows.slice(0, left)
                left -= rows.num_rows
            yield rows
            if left == 0:
                break
        if plan.counted and schema is not None:
            yield from map(self._select_returned, counts.batches(schema))

    def _select_returned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places = list(range(self._plan.columns))
        return batch.select([*places, batch.num_columns - 1] if self._plan.counted else places)


def choose_columns_to_read(required: StructType, conditions: Sequence[Condition], every: StructType) -> StructType:
    """Return the columns that a scan reads to evaluate conditions: the required ones come first.

    `every` are the columns that the table has for Spark.
    """
    known, names = fields_by_name(every), set(required.names)
    asked = dict.fromkeys(name for condition in conditions for name in condition.columns if name not in names)
    return StructType([*required.fields, *(known[name] for name in asked)])


def sieve(source: RowSource, conditions: Sequence[Condition], required: StructType, limit: int | None) -> RowSource:
    """Return the required columns of the rows that fulfil the conditions; the source has `choose_columns_to_read`'s.

    If no column is required, there is one with arbitrary values. The `limit` applies to each task.
    """
    if not conditions:
        return source
    count = max(len(required), 1)
    schema = StructType(source.schema.fields[:count])
    if not isinstance(source.reader, PlannedReader):
        return RowSource.unplanned(schema)
    # Where tasks count, columns are nullable in what they make.
    output = StructType([*source.output.fields[:count], *source.output.fields[len(source.schema) :]])
    reader: PlannedReader[object, InputPartition] = source.reader
    plan = SievingPlan(reader, tuple(conditions), source.schema, count, source.counted, limit)
    return RowSource(SievingReader(plan, reader.planned), schema, output)
