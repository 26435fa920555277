"""Reads the partitions of a scan, and begins the aggregates that Spark asks for instead of returning its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.formats.core.arrow_types import arrow_schema

from .aggregation import Aggregation
from .counts import COUNTS_COLUMN, counts_batch, counts_of, no_counts
from .partial_groups import PartialGroups
from .planned_scan import PlannedScan
from .reader import PlannedReader


@dataclass(frozen=True)
class AggregatingPlan:
    """The reader of the rows, and what becomes of them. `columns` are those that the table has for Spark."""

    reader: PlannedReader[object, InputPartition]
    aggregation: Aggregation
    columns: StructType
    output: StructType
    counted: bool
    """Batches of the reader may tell counts."""


class AggregatingReader(PlannedReader[AggregatingPlan, InputPartition]):
    """The partitions of another reader: some rows for each, from which Spark makes the result."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what the aggregates begin with; of an empty stream too, where they have a value."""
        if type(partition) is InputPartition:
            yield from self._rest(self._groups())
        else:
            yield from super().read(partition)

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition of the other reader."""
        groups = self._groups()
        for batch in self._plan.reader.batches(partition):
            counts = counts_of(batch) if self._plan.counted else None
            if counts is not None:
                yield counts_batch(counts, self._schema())
            else:
                yield from map(self._row, groups.feed(batch))
        yield from self._rest(groups)

    def _groups(self) -> PartialGroups:
        plan = self._plan
        return PartialGroups(plan.aggregation, plan.columns, plan.aggregation.operands(plan.columns))

    def _rest(self, groups: PartialGroups) -> Iterator[pa.RecordBatch]:
        yield from map(self._row, groups.rest())

    def _row(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = rows.columns
        if self._plan.counted:
            arrays = [*arrays, no_counts(rows.num_rows)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema())

    def _schema(self) -> pa.Schema:
        schema: pa.Schema = arrow_schema(self._plan.output)
        return schema


def aggregated(planned: PlannedScan, aggregation: Aggregation, columns: StructType) -> PlannedScan:
    """Make a scan of the aggregation's operands one that begins the aggregates."""
    rows = aggregation.partial_rows(columns)
    if not planned.whole:
        return replace(planned, schema=rows, output=rows)
    assert isinstance(planned.reader, PlannedReader)
    counted = len(planned.output) > len(planned.schema)
    output = StructType([*rows, COUNTS_COLUMN]) if counted else rows
    reader: PlannedReader[object, InputPartition] = planned.reader
    plan = AggregatingPlan(reader, aggregation, columns, output, counted)
    return replace(planned, reader=AggregatingReader(plan, reader.planned), schema=rows, output=output)
