"""Reads the partitions of several streams' scans as those of one, with the name of the stream in each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.formats.core.arrow_types import arrow_schema

from ..tables.merged import STREAM_COLUMN
from ..tables.stream_table import StreamTable
from .counts import no_counts, with_counts
from .planned_scan import PlannedScan
from .reader import PlannedReader


@dataclass
class MemberPartition(InputPartition):
    """A partition of the scan of one of the streams, by its number."""

    member: int
    partition: InputPartition


@dataclass(frozen=True)
class MergedPlan:
    """The readers of the streams, the streams' names, and what the tasks make of their batches."""

    readers: Sequence[PlannedReader[object, InputPartition]]
    names: Sequence[str]
    output: StructType
    counted: Sequence[bool]
    """Whose batches may tell counts."""
    named: bool
    """STREAM_COLUMN is the stream's name, and not a column of the events."""


class MergedReader(PlannedReader[MergedPlan, MemberPartition]):
    """The partitions of all streams; their batches with the same columns in the same order."""

    def batches(self, partition: MemberPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition of one stream."""
        schema = arrow_schema(self._plan.output)
        for batch in self._plan.readers[partition.member].batches(partition.partition):
            yield self._conformed(batch, schema, partition.member)

    def _conformed(self, batch: pa.RecordBatch, schema: pa.Schema, member: int) -> pa.RecordBatch:
        counted = any(self._plan.counted)
        places = {name: place for place, name in enumerate(batch.schema.names)}
        arrays = []
        for field in list(schema)[: len(schema) - counted]:
            if self._plan.named and field.name == STREAM_COLUMN.name:
                arrays.append(pa.repeat(self._plan.names[member], batch.num_rows))
            elif field.name in places:
                arrays.append(batch.column(places[field.name]))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        if counted:
            own = self._plan.counted[member]
            arrays.append(batch.column(batch.num_columns - 1) if own else no_counts(batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def merged_scan(members: Sequence[StreamTable], planned: Sequence[PlannedScan], required: StructType) -> PlannedScan:
    """Put the scans of several streams together. `required` are the columns that Spark needs, one at least."""
    counted = [len(each.output) > len(each.schema) for each in planned]
    output = with_counts(required) if any(counted) else required
    readers: list[PlannedReader[object, InputPartition]] = []
    partitions = []
    for number, each in enumerate(planned):
        assert isinstance(each.reader, PlannedReader)
        readers.append(each.reader)
        partitions += [MemberPartition(number, one) for one in each.reader.planned]
    named = not any(STREAM_COLUMN.name in member.schema.fieldNames() for member in members)
    plan = MergedPlan(readers, [member.stream.name for member in members], output, counted, named)
    keyed = None
    if any(each.keyed for each in planned):
        counts = [each.keyed or (each.segments, each.segments) for each in planned]
        keyed = sum(few for few, _ in counts), sum(every for _, every in counts)
    return PlannedScan(
        MergedReader(plan, partitions),
        required,
        output,
        sum(each.bytes for each in planned),
        sum(each.segments for each in planned),
        {},
        keyed=keyed,
    )
