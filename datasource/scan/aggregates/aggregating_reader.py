"""Reads the partitions of a scan, and begins the aggregates that Spark asks for instead of returning the rows.

A task reduces its Arrow batches to one row for each group, and Spark finishes the aggregates.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.formats.core.arrow_types import arrow_schema

from ..counts import COUNTS_COLUMN, find_counts, make_counts_batch, make_null_counts
from ..planned_scan import PlannedReader, RowSource
from .aggregation import COUNT, COUNT_STAR, MAX, MIN, SUM, Aggregation

PENDING_ROWS = 65_536
PENDING_BYTES = 16 << 20
"""Rows that are grouped together: a call costs as much as 5,000 rows."""
MOST_GROUPS = 100_000
MOST_BYTES = 32 << 20
"""The most groups that a task keeps."""
_LARGEST = 2**63 - 1
_NAN, _NONE, _ALL_BITS = pa.scalar(float("nan")), pa.scalar(0, pa.int64()), pa.scalar(_LARGEST, pa.int64())
_ZEROS = (pa.scalar(-1, pa.int64()), pa.scalar(0, pa.int64()))
"""The ranks of -0.0 and 0.0. These scalars are made only once, because Arrow looks for a module each time."""
_ONES = pa.array(np.ones(PENDING_ROWS, np.int64))
_ADDS = {COUNT_STAR: "sum", COUNT: "sum", SUM: "sum", MIN: "min", MAX: "max"}
"""Arrow's functions that combine the rows of a group."""


class PartialGroups:
    """The groups of a task's rows, in the order of their first rows.

    From the rows that this returns, Spark computes the same result as from the original ones, bit by bit:

    - Arrow adds values one after the other, as Spark does, beginning with the sum of the rows before. So sums of
      floating-point numbers have the same roundings. If groups are returned before the last row, all later rows are
      returned one by one, so that Spark continues the sums.
    - Whole numbers are only added if no intermediate sum can overflow, together with what was returned before. Spark
      gets the other rows as they are, and decides whether they are an error.
    - Floating-point numbers are compared by whole numbers in Spark's order, in which NaN is the greatest. If the least
      or greatest is a zero and there is a -0.0, rows are returned as they are: Spark takes the first zero.

    Groups that need too much memory are returned and new ones begun, if grouping saves many rows at all.
    """

    def __init__(self, aggregation: Aggregation, columns: StructType, operands: StructType) -> None:
        """Begin without groups. `columns` are those of the table. The batches to feed begin with the `operands`."""
        self._schema: pa.Schema = arrow_schema(aggregation.begin_rows(columns))
        self._functions = aggregation.functions
        self._keys = self._schema.names[: len(aggregation.groups)]
        self._partials = self._schema.names[len(aggregation.groups) :]
        places = {name: number for number, name in enumerate(operands.names)}
        self._key_places = [places[name] for (name,) in aggregation.groups]
        self._places = [
            None if function.name == COUNT_STAR else places[function.column[0]] for function in self._functions
        ]
        self._only_counts = aggregation.only_counts_rows
        begun = list(zip(self._functions, list(self._schema)[len(self._keys) :], strict=True))
        floating = [(function.name, field.name) for function, field in begun if pa.types.is_floating(field.type)]
        self._adds_floating = any(function == SUM for function, _ in floating)
        self._ordered = [name for function, name in floating if function in (MIN, MAX)]
        self._added = [
            field.name for function, field in begun if function.name == SUM and pa.types.is_integer(field.type)
        ]
        self._groups: pa.Table = self._schema.empty_table()
        self._pending: list[pa.Table] = []
        self._fed = 0
        """The number of rows in the groups."""
        self._one_by_one = False
        self._returned = dict.fromkeys(self._added, 0)
        """How far from 0 any group's sum of the returned rows can be in Spark."""

    def feed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows, and yield those that cannot be kept."""
        if self._only_counts:
            self._fed += batch.num_rows
            return
        rows = self._rows(batch)
        if self._one_by_one:
            yield from rows.to_batches()
            return
        self._pending.append(rows)
        enough = sum(map(len, self._pending)) >= max(PENDING_ROWS, len(self._groups))
        if enough or sum(map(_measure_bytes, self._pending)) >= PENDING_BYTES:
            yield from self._merge_pending()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yield the groups that are left; without columns to group by, one row even if no rows came."""
        if self._only_counts:
            counts = [pa.array([self._fed], pa.int64())] * len(self._partials)
            yield pa.RecordBatch.from_arrays(counts, schema=self._schema)
            return
        yield from self._merge_pending()
        if not self._keys and not len(self._groups):
            counted = [function.name in (COUNT_STAR, COUNT) for function in self._functions]
            yield pa.RecordBatch.from_pylist(
                [{name: 0 if zero else None for name, zero in zip(self._partials, counted, strict=True)}], self._schema
            )
        yield from self._groups.to_batches()

    def _rows(self, batch: pa.RecordBatch) -> pa.Table:
        """Return rows as groups of one row each."""
        arrays = [batch.column(number) for number in self._key_places]
        types = self._schema.types[len(self._keys) :]
        for function, column_number, type in zip(self._functions, self._places, types, strict=True):
            column = None if column_number is None else batch.column(column_number)
            if column is None or (function.name == COUNT and column.null_count == 0):
                count = batch.num_rows
                arrays.append(_ONES.slice(0, count) if count <= len(_ONES) else pa.array(np.ones(count, np.int64)))
            else:
                arrays.append((column.is_valid() if function.name == COUNT else column).cast(type))
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _merge_pending(self) -> Iterator[pa.RecordBatch]:
        if not self._pending:
            return
        pending = pa.concat_tables(self._pending)
        self._pending = []
        groups = self._add_rows(pending)
        if groups is None:
            self._one_by_one = self._adds_floating
            for name in self._added:
                self._returned[name] += len(pending) * _find_magnitude(pending.column(name))
            yield from self._release_groups()
            yield from pending.to_batches()
            return
        self._groups = groups
        self._fed += len(pending)
        if len(groups) > MOST_GROUPS or _measure_bytes(groups) > MOST_BYTES:
            self._one_by_one = self._adds_floating or self._fed < 2 * len(groups)
            yield from self._release_groups()

    def _add_rows(self, pending: pa.Table) -> pa.Table | None:
        """Return the groups with more rows; None if the result might differ from Spark's."""
        for name in self._added:
            before = self._returned[name] + _find_magnitude(self._groups.column(name))
            if before + len(pending) * _find_magnitude(pending.column(name)) > _LARGEST:
                return None
        rows = pa.concat_tables([self._groups, pending])
        for name in self._ordered:
            rows = rows.set_column(rows.column_names.index(name), name, _convert_to_ranks(rows.column(name)))
        keys = self._keys
        if not keys:
            # Without a key, Arrow adds in another order.
            rows, keys = rows.append_column("all", pa.array(np.zeros(len(rows), np.int8))), ["all"]
        aggregations = [
            (name, _ADDS[function.name]) for name, function in zip(self._partials, self._functions, strict=True)
        ]
        groups = pa.TableGroupBy(rows, keys, use_threads=False).aggregate(aggregations)
        columns = {name: groups.column(name) for name in self._keys}
        columns |= {name: groups.column(f"{name}_{how}") for name, how in aggregations}
        for name in self._ordered:
            # Spark keeps the first of two zeros.
            if _has_any(columns[name], _ZEROS) and _has_any(rows.column(name), _ZEROS[:1]):
                return None
            columns[name] = _convert_from_ranks(columns[name], self._schema.field(name).type)
        return pa.Table.from_arrays(list(columns.values()), schema=self._schema)

    def _release_groups(self) -> Iterator[pa.RecordBatch]:
        """Yield the groups, and begin new ones."""
        for name in self._added:
            self._returned[name] += _find_magnitude(self._groups.column(name))
        groups, self._groups, self._fed = self._groups, self._schema.empty_table(), 0
        yield from groups.to_batches()


def _measure_bytes(rows: pa.Table) -> int:
    return int(rows.nbytes)


def _find_magnitude(column: pa.ChunkedArray) -> int:
    """Return the greatest distance of the numbers from 0."""
    extremes = pc.min_max(column).as_py().values()
    return max((abs(extreme) for extreme in extremes if extreme is not None), default=0)


def _convert_to_ranks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers in the order in which Spark has floating-point ones: NaN is the greatest."""
    doubles = column.cast(pa.float64())
    doubles = pc.if_else(pc.is_nan(doubles), _NAN, doubles)
    return _flip_negative(pa.chunked_array([chunk.view(pa.int64()) for chunk in doubles.chunks], pa.int64()))


def _convert_from_ranks(ranks: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    bits = _flip_negative(ranks)
    return pa.chunked_array([chunk.view(pa.float64()) for chunk in bits.chunks], pa.float64()).cast(type)


def _flip_negative(bits: pa.ChunkedArray) -> pa.ChunkedArray:
    """Invert the bits of negative numbers, except for the sign."""
    return pc.if_else(pc.less(bits, _NONE), pc.bit_wise_xor(bits, _ALL_BITS), bits)


def _has_any(ranks: pa.ChunkedArray, some: tuple[pa.Scalar, ...]) -> bool:
    return any(pc.any(pc.equal(ranks, rank)).as_py() for rank in some)


@dataclass(frozen=True)
class AggregatingPlan:
    """The reader of the rows, and how they are aggregated. `columns` are those that the table has for Spark."""

    reader: PlannedReader[Any, Any]
    aggregation: Aggregation
    columns: StructType
    output: StructType
    counted: bool
    """Whether batches of the reader may hold counts."""


class AggregatingReader(PlannedReader[AggregatingPlan, InputPartition]):
    """The partitions of another reader, each reduced to a few rows, from which Spark computes the result."""

    def read(self, partition: InputPartition) -> Generator[pa.RecordBatch, None, None]:
        """Yield the first step of the aggregates, even for an empty stream if they have a value there."""
        if type(partition) is InputPartition:
            yield from self._finish(self._groups())
        else:
            yield from super().read(partition)

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        groups = self._groups()
        for batch in self.plan.reader.batches(partition):
            counts = find_counts(batch) if self.plan.counted else None
            if counts is not None:
                yield make_counts_batch(counts, self._schema())
            else:
                yield from map(self._row, groups.feed(batch))
        yield from self._finish(groups)

    def _groups(self) -> PartialGroups:
        plan = self.plan
        return PartialGroups(plan.aggregation, plan.columns, plan.aggregation.operands(plan.columns))

    def _finish(self, groups: PartialGroups) -> Iterator[pa.RecordBatch]:
        yield from map(self._row, groups.finish())

    def _row(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = rows.columns
        if self.plan.counted:
            arrays = [*arrays, make_null_counts(rows.num_rows)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema())

    def _schema(self) -> pa.Schema:
        return arrow_schema(self.plan.output)


def begin_aggregates(source: RowSource, aggregation: Aggregation, columns: StructType) -> RowSource:
    """Return the groups that tasks make of the rows of a source, which are the aggregation's operands."""
    rows = aggregation.begin_rows(columns)
    output = StructType([*rows, COUNTS_COLUMN]) if source.counted else rows
    plan = AggregatingPlan(source.reader, aggregation, columns, output, source.counted)
    return RowSource(AggregatingReader(plan, source.reader.planned), rows, output)
