"""Passes counts of a task to Spark beside its rows: of bad events, and of changes that a fold leaves out.

Python tasks have no other way to set a metric. Their rows have one more column for it, which is null. A batch in which
it has values holds no rows of the table: `CountingReaderFactory.java` removes it, and adds the values up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from pyspark_pravega.formats.core.spark_types import make_nullable

COUNTS_COLUMN = StructField("_counts", LongType(), True)


@dataclass
class Counts:
    """The counts of one task."""

    bad_events: int = 0
    left_out: int = 0
    """Changes that a fold leaves out, because newer ones of their rows came before them."""

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the batch with the counts, in the columns of the task; none if all counts are 0."""
        if self.bad_events or self.left_out:
            yield self.batch(schema)

    def batch(self, schema: pa.Schema, behind: Sequence[pa.Array] = ()) -> pa.RecordBatch:
        """Return the batch with the counts, and with two values in each of the columns `behind` that of counts."""
        return counts_batch(pa.array([self.bad_events, self.left_out], pa.int64()), schema, behind)


def counts_batch(counts: pa.Array, schema: pa.Schema, behind: Sequence[pa.Array] = ()) -> pa.RecordBatch:
    """Return a batch with counts, such as `counts_of` returns, in the columns of a task; see `Counts.batch`."""
    arrays = [pa.nulls(len(counts), field.type) for field in list(schema)[: len(schema) - 1 - len(behind)]]
    return pa.RecordBatch.from_arrays([*arrays, counts, *behind], schema=schema)


def with_counts(rows: StructType) -> StructType:
    """Return the columns of a task that counts: those of its rows, which are null beside counts, and COUNTS_COLUMN."""
    return StructType([*make_nullable(rows), COUNTS_COLUMN])


def no_counts(rows: int) -> pa.Array:
    """Return the column of counts beside rows of the table."""
    return pa.nulls(rows, pa.int64())


def counts_of(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the last column of a task that counts, if it holds counts; None beside rows of the table.

    It is found by its place, because a column of the table may have the same name.
    """
    column: pa.Array = batch.column(batch.num_columns - 1)
    return column if column.null_count < len(column) else None
