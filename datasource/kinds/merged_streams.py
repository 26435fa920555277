"""Tables of several streams that a query reads as one: every event is a row, with the name of its stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import arrow_schema, strings_for_char_types
from pyspark_pravega.sql import options as o

from ..positions.snapshot import SegmentSlice
from ..scan.counts import no_counts, with_counts
from ..scan.planned_scan import PlannedScan
from ..scan.reader import PlannedReader
from ..tables.hidden_columns import METADATA_COLUMNS
from ..tables.merged_table import STREAM_COLUMN, no_such_column
from ..tables.stream_table import Kind, StreamTable
from .events import EventTable
from .kind import ALL_ROWS, TableKind, WantedRows


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


_BOUNDS_OF_ALL = ("earliest", "latest", "unbounded")
_THREADS = 8
"""Streams that are planned at the same time."""


class SeveralStreams(EventTable):
    """Tables of the events of several streams, which the kinds of their members read. They are read only."""

    def __init__(self, kinds: Mapping[Kind, TableKind]) -> None:
        self._kinds = kinds

    def plan_scan(
        self,
        pravega: Pravega,
        table: StreamTable,
        required: StructType,
        options: o.Options,
        wanted: WantedRows = ALL_ROWS,
    ) -> PlannedScan:
        check_bounds_of_several(table, options)
        return self._merged(
            table,
            required,
            lambda number, columns: self._kind(table.members[number]).plan_scan(
                pravega, table.members[number], columns, options, replace(wanted, tail=None)
            ),
        )

    def plan_slices(
        self,
        pravega: Pravega,
        table: StreamTable,
        slices: Sequence[Sequence[SegmentSlice]],
        required: StructType,
        options: o.Options,
        checkpoint: str,
    ) -> PlannedScan:
        """Fix how a micro-batch reads these slices, some of each of the table's members."""
        return self._merged(
            table,
            required,
            lambda number, columns: self._kind(table.members[number]).plan_micro_batch(
                pravega, table.members[number], slices[number], columns, options, checkpoint
            ),
        )

    def prepare_insert(self, pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
        raise UnsupportedOperationError(
            f"Several streams, {table.stream}, cannot be written to as one. Write to one of them."
        )

    def _kind(self, member: StreamTable) -> TableKind:
        return self._kinds[member.kind]

    def _merged(
        self, table: StreamTable, required: StructType, plan: Callable[[int, StructType], PlannedScan]
    ) -> PlannedScan:
        known = {*table.schema.fieldNames(), *METADATA_COLUMNS}
        unknown = [name for name in required.fieldNames() if name not in known]
        if unknown:
            columns = ", ".join(table.schema.fieldNames())
            raise InvalidSchemaError(
                f"Streams {table.stream} have no column {', '.join(unknown)}. Their columns are {columns}."
            )
        strings = strings_for_char_types(required if required.fields else StructType([STREAM_COLUMN]))
        assert isinstance(strings, StructType)

        def plan_member(number: int) -> PlannedScan:
            member = table.members[number]
            names = {*member.schema.fieldNames(), *METADATA_COLUMNS}
            for field in required:
                if field.name not in names and field.name != STREAM_COLUMN.name and not field.nullable:
                    raise no_such_column(field, member)
            return plan(number, StructType([field for field in required if field.name in names]))

        with ThreadPoolExecutor(_THREADS) as threads:
            planned = list(threads.map(cancellation.carried(plan_member), range(len(table.members))))
        return merged_scan(table.members, planned, strings)


def check_bounds_of_several(table: StreamTable, options: o.Options) -> None:
    """Raise InvalidOptionError for a bound that is a position in one stream."""
    positions: tuple[o.Option[Any], ...] = (o.START_STREAM_CUT, o.END_STREAM_CUT, o.START_VERSION, o.END_VERSION)
    for option in positions:
        if options.is_set(option) and options.get(option) not in _BOUNDS_OF_ALL:
            raise InvalidOptionError(
                f"'{options.name(option)}' is a position in one stream, but {table.stream} are several. Leave it out, "
                f"or give a time: '{o.START_TIMESTAMP.key}', '{o.END_TIMESTAMP.key}'."
            )
