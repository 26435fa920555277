"""Passes counts of a task to Spark along with its rows: of bad events, of what it has read and how long it has waited.

Python tasks have no other way to set a metric. Their rows have one more column for it, which is null. A batch in which
it has values holds no rows of the table: `PythonReaders.java` removes it, and adds the values up. The column has bits,
because it comes with every row, and nulls of numbers would take 8 bytes each. Each number that is not 0 takes 48 bits,
the lowest first: three for its place among the counts, 45 for its value. Spark gets a row for each bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, StructField, StructType

from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader, Window
from pyspark_pravega.formats.core.spark_types import make_nullable

COUNTS_COLUMN = StructField("_counts", BooleanType(), True)
_NOTE = 7
"""The place of numbers that are no counts."""


@dataclass
class Counts:
    """The counts of one task, or of a part of it. `TaskMetric.java` has a metric for each, in the same order."""

    bad_events: int = 0
    left_out: int = 0
    """Changes that a fold leaves out, because newer ones of their rows came before them."""
    sieved: int = 0
    """Rows that do not fulfil the conditions which the task evaluates."""
    slices: int = 0
    """Ranges of segments of which at least one event was read, or partitions of a key-value table."""
    bytes: int = 0
    """Bytes of events that were read, with their headers; of a key-value table, those of keys and values."""
    waited: int = 0
    """Milliseconds in which the task waited for segment stores."""
    retries: int = 0
    """Repeated requests to segment stores."""

    def add(self, more: Counts) -> None:
        """Add the counts of another part of the task."""
        for name, number in asdict(more).items():
            setattr(self, name, getattr(self, name) + number)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the batch with the counts, in the columns of the task; none if all counts are 0."""
        if any(astuple(self)):
            yield self.batch(schema)

    def batch(self, schema: pa.Schema, position: int | None = None, notes: Sequence[int] = ()) -> pa.RecordBatch:
        """Return the batch with the counts, and with `notes` below 2^45, which the driver gets one by one.

        `position` is the value of a column after the counts.
        """
        entries = [number << 3 | place for place, number in enumerate(astuple(self)) if number]
        entries += [number << 3 | _NOTE for number in notes]
        octets = np.array(entries or [0], "<i8").view(np.uint8).reshape(-1, 8)[:, :6]
        bits = pa.array(np.unpackbits(octets, bitorder="little").astype(bool))
        behind = [] if position is None else [pa.repeat(pa.scalar(position, pa.int64()), len(bits))]
        return make_counts_batch(bits, schema, behind)


class ReadingCounts:
    """Counts what a reader of a slice has read, window by window."""

    def __init__(self, reader: SegmentRangeReader) -> None:
        self._reader = reader
        self._windows = self._waited = self._retries = 0

    def count(self, window: Window) -> Counts:
        """Return the counts since the last window."""
        waited, retries = int(self._reader.waited * 1000), self._reader.retries
        size = int(window.lengths.sum()) + len(window.lengths) * HEADER_BYTES
        counts = Counts(
            slices=0 if self._windows else 1, bytes=size, waited=waited - self._waited, retries=retries - self._retries
        )
        self._windows, self._waited, self._retries = self._windows + 1, waited, retries
        return counts


def make_counts_batch(counts: pa.Array, schema: pa.Schema, behind: Sequence[pa.Array] = ()) -> pa.RecordBatch:
    """Return a batch with counts, such as `find_counts` returns, in the columns of a task.

    `behind` are the values of columns after that of the counts.
    """
    arrays = [pa.nulls(len(counts), field.type) for field in list(schema)[: len(schema) - 1 - len(behind)]]
    return pa.RecordBatch.from_arrays([*arrays, counts, *behind], schema=schema)


def add_counts(rows: StructType) -> StructType:
    """Return the columns of a task that counts: those of its rows, null for counts, and COUNTS_COLUMN."""
    return StructType([*make_nullable(rows), COUNTS_COLUMN])


def make_null_counts(rows: int) -> pa.Array:
    """Return the column of counts for rows of the table, which is null."""
    return pa.nulls(rows, pa.bool_())


def find_counts(batch: pa.RecordBatch) -> pa.Array | None:
    """Return the last column of a task that counts, if it holds counts; None for rows of the table.

    It is found by its place, because a column of the table may have the same name.
    """
    column: pa.Array = batch.column(batch.num_columns - 1)
    return column if column.null_count < len(column) else None
