"""Tables of several streams that a query reads as one: each event is a row, with the name of its stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import arrow_schema, replace_char_types
from pyspark_pravega.sql import options as o

from ..positions.snapshot import SegmentSlice
from ..scan.counts import no_counts, with_counts
from ..scan.planned_scan import PlannedScan, RowSource
from ..scan.reader import PlannedReader
from ..scan.scan_request import WantedRows
from ..tables.hidden_columns import HIDDEN_COLUMNS
from ..tables.merged_table import STREAM_COLUMN, no_such_column
from ..tables.stream_table import StreamTable
from .events import EVENT_KINDS, EventTable
from .kind import MicroBatch

_BOUNDS_OF_ALL = ("earliest", "latest", "unbounded")
_THREADS = 8
"""Streams that are planned at the same time."""


@dataclass
class MemberPartition(InputPartition):
    """A partition of the scan of one stream, which has a number."""

    member: int
    partition: InputPartition


@dataclass(frozen=True)
class MergedPlan:
    """The readers of the streams, the streams' names, and the columns of the tasks' batches."""

    readers: Sequence[PlannedReader[object, InputPartition]]
    names: Sequence[str]
    output: StructType
    counted: Sequence[bool]
    """Whether the batches of each reader may hold counts."""
    named: bool
    """Whether STREAM_COLUMN is the stream's name, and not a column of the events."""


class MergedReader(PlannedReader[MergedPlan, MemberPartition]):
    """The partitions of all streams, whose batches get the same columns in the same order."""

    def batches(self, partition: MemberPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition of one stream."""
        schema = arrow_schema(self._plan.output)
        for batch in self._plan.readers[partition.member].batches(partition.partition):
            yield self._conform(batch, schema, partition.member)

    def _conform(self, batch: pa.RecordBatch, schema: pa.Schema, member: int) -> pa.RecordBatch:
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


def merge_scans(members: Sequence[StreamTable], planned: Sequence[PlannedScan], required: StructType) -> PlannedScan:
    """Merge the scans of several streams. `required` are the columns that Spark needs, at least one."""
    counted = [scan.source.counted for scan in planned]
    output = with_counts(required) if any(counted) else required
    readers: list[PlannedReader[object, InputPartition]] = []
    partitions = []
    for number, scan in enumerate(planned):
        assert isinstance(scan.reader, PlannedReader)
        readers.append(scan.reader)
        partitions += [MemberPartition(number, partition) for partition in scan.reader.planned]
    named = not any(STREAM_COLUMN.name in member.schema.fieldNames() for member in members)
    plan = MergedPlan(readers, [member.stream.name for member in members], output, counted, named)
    keyed = None
    if any(scan.keyed for scan in planned):
        counts = [scan.keyed or (scan.segments, scan.segments) for scan in planned]
        keyed = sum(few for few, _ in counts), sum(every for _, every in counts)
    return PlannedScan(
        RowSource(MergedReader(plan, partitions), required, output),
        sum(scan.bytes for scan in planned),
        sum(scan.segments for scan in planned),
        {},
        keyed=keyed,
    )


@dataclass(frozen=True)
class MergedStreams(EventTable):
    """A table of the events of several streams, each of which its own kind reads. It is read only."""

    of_several = True
    rows_are_all_events = False

    def prepare_insert(self, rows: StructType) -> Self:
        raise UnsupportedOperationError(
            f"Several streams, {self.stream}, cannot be written to as one. Write to one of them."
        )

    def plan_slices(self, slices: Sequence[Sequence[SegmentSlice]], columns: StructType, query: str) -> PlannedScan:
        """Fix how a micro-batch reads these slices, which are given for each of the table's members."""
        return self._merge(
            columns,
            lambda number, columns: self._member(number).plan_micro_batch(MicroBatch(slices[number], columns, query)),
        )

    def _plan_rows(self, wanted: WantedRows) -> PlannedScan:
        check_bounds_of_several(self.table, self.options)
        return self._merge(
            wanted.columns,
            lambda number, columns: self._member(number)._plan_rows(replace(wanted, columns=columns, earlier=None)),
        )

    def _member(self, number: int) -> EventTable:
        member = self.table.members[number]
        return EVENT_KINDS[member.kind](self.pravega, member, self.options)

    def _merge(self, required: StructType, plan: Callable[[int, StructType], PlannedScan]) -> PlannedScan:
        table = self.table
        known = {*table.schema.fieldNames(), *HIDDEN_COLUMNS}
        unknown = [name for name in required.fieldNames() if name not in known]
        if unknown:
            columns = ", ".join(table.schema.fieldNames())
            raise InvalidSchemaError(
                f"Streams {table.stream} have no column {', '.join(unknown)}. Their columns are {columns}."
            )
        strings = replace_char_types(required if required.fields else StructType([STREAM_COLUMN]))
        assert isinstance(strings, StructType)

        def plan_member(number: int) -> PlannedScan:
            member = table.members[number]
            names = {*member.schema.fieldNames(), *HIDDEN_COLUMNS}
            for field in required:
                if field.name not in names and field.name != STREAM_COLUMN.name and not field.nullable:
                    raise no_such_column(field, member)
            return plan(number, StructType([field for field in required if field.name in names]))

        with ThreadPoolExecutor(_THREADS) as threads:
            planned = list(threads.map(cancellation.carry_over(plan_member), range(len(table.members))))
        return merge_scans(table.members, planned, strings)


def check_bounds_of_several(table: StreamTable, options: o.Options) -> None:
    """Raise InvalidOptionError for a bound that is a position in a single stream."""
    positions: tuple[o.Option[Any], ...] = (o.START_STREAM_CUT, o.END_STREAM_CUT, o.START_VERSION, o.END_VERSION)
    for option in positions:
        if options.is_set(option) and options.get(option) not in _BOUNDS_OF_ALL:
            raise InvalidOptionError(
                f"'{options.name(option)}' is a position in one stream, but {table.stream} are several. Leave it out, "
                f"or give a time: '{o.START_TIMESTAMP.key}', '{o.END_TIMESTAMP.key}'."
            )
