"""Leaves rows out of a planned scan that Spark would drop: before they become rows of the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .conditions import Condition, Sieve
from .planned_scan import PlannedScan

_WORTH_COPYING = 0.75
"""Where a condition keeps more of a batch, Spark drops the others for less than copying takes."""


class SievingReader(DataSourceReader):
    """The rows of another reader, without most of those that do not fulfil all conditions.

    The events of all of them are decoded: so the bad ones are the same, and are counted as ever.
    """

    def __init__(
        self, reader: DataSourceReader, conditions: Sequence[Condition], schema: StructType, counted: bool
    ) -> None:
        """`schema` is that of the rows. With `counted`, BAD_EVENTS_COLUMN is behind them."""
        self._reader = reader
        self._conditions = tuple(conditions)
        self._schema = schema
        self._counted = counted

    def partitions(self) -> Sequence[InputPartition]:
        """Return the partitions of the other reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the other reader with fewer rows; raises what that does."""
        sieve = Sieve(self._conditions, self._schema)
        for batch in self._reader.read(partition):
            yield from self._sieved(sieve, batch)

    def _sieved(self, sieve: Sieve, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        # By its place, because a column of the table may have its name.
        if self._counted and batch.column(batch.num_columns - 1).null_count < batch.num_rows:
            yield batch
            return
        mask = sieve.kept(dict(zip(self._schema.fieldNames(), batch.columns, strict=False)))
        if mask.true_count > _WORTH_COPYING * batch.num_rows:
            yield batch
        elif mask.true_count:
            yield batch.filter(mask)


def sieved(planned: PlannedScan, conditions: Sequence[Condition]) -> PlannedScan:
    """Return the scan without rows that do not fulfil the conditions, all of which are `taken` for its schema."""
    if not conditions or not planned.whole:
        return planned
    counted = len(planned.output) > len(planned.schema)
    return replace(planned, reader=SievingReader(planned.reader, conditions, planned.schema, counted))
