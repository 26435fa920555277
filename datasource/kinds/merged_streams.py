"""Tables of several streams that a query reads as one: each event is a row, with the name of its stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import arrow_schema, make_record_batch, replace_char_types
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import describe_merged_refusal

from ..scan.conditions import Condition, Sieve
from ..scan.counts import add_counts, make_null_counts
from ..scan.planned_scan import EarlierScan, PlannedReader, PlannedScan, RowSource
from ..scan.reader import SegmentScanReader
from ..scan.scan_request import WantedRows
from ..stream_source.source import StreamReader, StreamSource
from ..tables.hidden_columns import HIDDEN_COLUMNS, ORIGIN_COLUMNS
from ..tables.merged_table import describe_origin, make_missing_column_error
from ..tables.stream_table import StreamTable
from .event_table import EVENT_KINDS, EventRows
from .merged_rows_source import MergedSource, TimedSlices

_BOUNDS_OF_ALL = ("earliest", "latest", "unbounded")
_ORIGIN = StructType([field for field, _ in ORIGIN_COLUMNS.values()])
_SEGMENTS = 1 << 64
"""More than any segment's id: the ends of all members' segments make one mapping."""
_SHOWN = 8


@dataclass
class MemberPartition(InputPartition):
    """A partition of the scan of one stream, which has a number."""

    member: int
    partition: InputPartition


@dataclass(frozen=True)
class MergedPlan:
    """The readers of the streams, what is the same in all events of each stream, and the columns of the batches."""

    readers: Sequence[PlannedReader[Any, Any]]
    origins: Sequence[Mapping[str, str]]
    """The values of ORIGIN_COLUMNS, without columns that the events have themselves."""
    output: StructType
    counted: Sequence[bool]
    """Whether the batches of each reader may hold counts."""


class MergedReader(PlannedReader[MergedPlan, MemberPartition]):
    """The partitions of all streams, whose batches get the same columns in the same order."""

    def batches(self, partition: MemberPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.plan.output)
        for batch in self.plan.readers[partition.member].batches(partition.partition):
            yield self._conform(batch, schema, partition.member)

    def _conform(self, batch: pa.RecordBatch, schema: pa.Schema, member: int) -> pa.RecordBatch:
        counted = any(self.plan.counted)
        places = {name: number for number, name in enumerate(batch.schema.names)}
        origin = self.plan.origins[member]
        arrays = []
        for field in list(schema)[: len(schema) - counted]:
            if field.name in origin:
                arrays.append(pa.repeat(origin[field.name], batch.num_rows))
            elif field.name in places:
                arrays.append(batch.column(places[field.name]))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        if counted:
            own = self.plan.counted[member]
            arrays.append(batch.column(batch.num_columns - 1) if own else make_null_counts(batch.num_rows))
        return make_record_batch(arrays, schema, batch.num_rows)


def merge_scans(
    origins: Sequence[Mapping[str, str]], planned: Sequence[PlannedScan], required: StructType
) -> PlannedScan:
    """Merge the scans of several streams, whose `origins` are the values of the columns that name them.

    `required` are the columns that Spark needs, at least one.
    """
    counted = [scan.source.counted for scan in planned]
    output = add_counts(required) if any(counted) else required
    partitions = [MemberPartition(number, one) for number, scan in enumerate(planned) for one in scan.reader.planned]
    plan = MergedPlan([scan.reader for scan in planned], origins, output, counted)
    keyed = None
    if any(scan.keyed for scan in planned):
        counts = [scan.keyed or (scan.segments, scan.segments) for scan in planned]
        keyed = sum(few for few, _ in counts), sum(every for _, every in counts)
    return PlannedScan(
        RowSource(MergedReader(plan, partitions), required, output),
        sum(scan.bytes for scan in planned),
        sum(scan.segments for scan in planned),
        {number * _SEGMENTS + segment: at for number, scan in enumerate(planned) for segment, at in scan.tail.items()},
        keyed=keyed,
    )


def _take_end_of_member(earlier: EarlierScan | None, number: int) -> EarlierScan | None:
    """Return the end of an earlier scan in the segments of one member."""
    if earlier is None:
        return None
    tail = {key % _SEGMENTS: at for key, at in earlier.tail.items() if key // _SEGMENTS == number}
    return EarlierScan(tail, earlier.newest)


def _drop_partitions(planned: PlannedScan) -> PlannedScan:
    """Return the plan of a scan of the same events that reads none of them."""
    assert isinstance(planned.reader, SegmentScanReader)
    source = replace(planned.source, reader=SegmentScanReader(planned.reader.plan, []))
    return replace(planned, source=source, bytes=0, segments=0, keyed=None)


@dataclass(frozen=True)
class MergedStreams(EventRows):
    """A table of the events of several streams, each of which its own kind reads. It is read only."""

    hidden_columns = (*HIDDEN_COLUMNS, *ORIGIN_COLUMNS)
    unsupported = ("VERSION AS OF", "history", "size", "schema_versions")
    refusal = staticmethod(describe_merged_refusal)

    @classmethod
    def refusal_to_truncate(cls, name: str, whole: str) -> str:
        return f"{name}, which is several streams. Truncate these; DROP TABLE removes the name alone."

    @classmethod
    def changes_schema_of(cls, table: StreamTable, *, permissive: bool) -> StructType:
        cls._refuse("CHANGES", table)

    def prepare_insert(self, rows: StructType) -> Self:
        raise UnsupportedOperationError(
            f"Several streams, {self.stream}, cannot be written to as one. Write to one of them: "
            f"{list_members(self.table)}."
        )

    def open_stream(self, reader: StreamReader) -> StreamSource:
        if self.table.asked.changes:
            self._refuse("CHANGES", self.table)
        check_merged_bounds(self.table, self.options)

        def plan(table: StreamTable, slices: Mapping[int, TimedSlices]) -> PlannedScan:
            """Fix how a micro-batch reads these slices, by the places of their streams among the table's members."""
            merged = replace(self, table=table)

            def plan_member(number: int, columns: StructType) -> PlannedScan:
                pieces, times = slices[number]
                return merged._member(number).plan_micro_batch(pieces, columns, reader.checkpoint, times)

            return merged._merge(reader.columns, plan_member, list(slices))

        return MergedSource(self, reader, plan)

    def _plan_rows(self, rows: WantedRows) -> PlannedScan:
        check_merged_bounds(self.table, self.options)
        origins = [describe_origin(self.table.members, member) for member in self.table.members]
        about_origin = [condition for condition in rows.choosing if _is_about_origin(condition, origins[0])]
        others = [condition for condition in rows.choosing if condition not in about_origin]

        def plan_member(number: int, columns: StructType) -> PlannedScan:
            earlier = _take_end_of_member(rows.earlier, number)
            member = self._member(number)
            planned = member._plan_rows(replace(rows, columns=columns, earlier=earlier, choosing=others, cores=None))
            # One that is not read is measured all the same: other scans of the query end where this one does.
            return planned if _can_fulfil(origins[number], about_origin) else _drop_partitions(planned)

        return self._merge(rows.columns, plan_member, range(len(self.table.members)))

    def _can_choose(self, condition: Condition) -> bool:
        origin = describe_origin(self.table.members, self.table.members[0])
        return _is_about_origin(condition, origin) or super()._can_choose(condition)

    def _member(self, number: int) -> EventRows:
        member = self.table.members[number]
        return EVENT_KINDS[member.kind](self.pravega, member, self.options)

    def _merge(
        self, required: StructType, plan: Callable[[int, StructType], PlannedScan], numbers: Sequence[int]
    ) -> PlannedScan:
        """Merge the scans that `plan` makes for the members of these numbers."""
        table = self.table
        selectable = {*table.schema.fieldNames(), *HIDDEN_COLUMNS, *ORIGIN_COLUMNS}
        unknown = [name for name in required.fieldNames() if name not in selectable]
        if unknown:
            columns = ", ".join(table.schema.fieldNames())
            raise InvalidSchemaError(
                f"Streams {table.stream} have no column {', '.join(unknown)}. Their columns are {columns}."
            )
        # Spark counts rows by one of the table's columns: it knows no others.
        selected = required if required.fields else make_nullable(StructType(table.schema.fields[:1]))
        strings = replace_char_types(selected)

        def plan_member(number: int) -> PlannedScan:
            member = table.members[number]
            names = {*member.schema.fieldNames(), *HIDDEN_COLUMNS}
            origin = describe_origin(table.members, member)
            for field in required:
                if field.name not in names and field.name not in origin and not field.nullable:
                    raise make_missing_column_error(field, member)
            return plan(number, StructType([field for field in required if field.name in names]))

        planned = map_side_by_side(plan_member, numbers)
        origins = [describe_origin(table.members, table.members[number]) for number in numbers]
        return merge_scans(origins, planned, strings)


def _is_about_origin(condition: Condition, origin: Mapping[str, str]) -> bool:
    """Return whether a condition is only about the stream that an event is in."""
    return bool(condition.columns) and origin.keys() >= set(condition.columns)


def _can_fulfil(origin: Mapping[str, str], conditions: Sequence[Condition]) -> bool:
    """Return whether all events of a stream fulfil conditions about their stream; none does otherwise."""
    if not conditions:
        return True
    columns = {name: pa.array([text]) for name, text in origin.items()}
    return bool(Sieve(conditions, _ORIGIN).mask(columns)[0].as_py())


def list_members(table: StreamTable) -> str:
    """Return the streams that are merged, for messages: the first ones."""
    names = [str(member.stream) for member in table.members]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def check_merged_bounds(table: StreamTable, options: o.Options) -> None:
    """Raise InvalidOptionError for a bound that is a position in a single stream."""
    positions: tuple[o.Option[Any], ...] = (o.START_STREAM_CUT, o.END_STREAM_CUT, o.START_VERSION, o.END_VERSION)
    for option in positions:
        text = str(options.get(option))
        if options.is_set(option) and text not in _BOUNDS_OF_ALL and ";" not in text:
            raise InvalidOptionError(
                f"'{options.name(option)}' is a position in one stream, but {table.stream} are several. Give one cut "
                f"of each, with ';' between them, or a time: '{o.START_TIMESTAMP.key}', '{o.END_TIMESTAMP.key}'."
            )
