"""Plans how the native decoder of Avro reads Debezium's envelopes.

A schema is planned by name: `op`, the images, `source` and the times are read, and the rest is skipped. The images may
have the types that connectors write most, each in the columns that read it alike; with any other, the reference reads
all events of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ...avro import schema_model as avro
from ...avro.native_plan import plan_skipping
from ...core.columns import Column, Leaf, StructColumn
from ...core.scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from ...native import Spec, Unplanned
from ..changelog_columns import IMAGES
from ..encodings.times import limit_to_range
from ..native_reader import NativeEnvelopes

_Plan = tuple[Spec, Spec]
"""A column, and how its values are read."""

_WHOLE = ("int", "long")
_WRITERS: Mapping[pa.DataType, Sequence[str]] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), _WHOLE),
    pa.float32(): ("float",),
    pa.float64(): ("float", "double"),
    pa.bool_(): ("boolean",),
    pa.string(): ("string",),
    pa.binary(): ("bytes",),
}
"""Types of Avro whose values a column takes as they are."""


class AvroEnvelopes(NativeEnvelopes):
    """Envelopes of one Avro schema."""

    def finish(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return envelopes with null for dates and timestamps in images that Spark has no value for."""
        for name in IMAGES:
            rows = rows.set_column(rows.schema.get_field_index(name), name, _limit_times(rows.column(name)))
        return rows


def _limit_times(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind) and kind.num_fields:
        columns = [_limit_times(array.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=array.is_null())
    if pa.types.is_date(kind):
        return limit_to_range(array.view(pa.int32()), FIRST_DAY, LAST_DAY).view(kind)
    if pa.types.is_timestamp(kind):
        return limit_to_range(array.view(pa.int64()), FIRST_MICROS, LAST_MICROS).view(kind)
    return array


def plan_by_name(column: Column, writer: avro.Node, nullable: bool = True) -> _Plan:
    """Plan a column by the names of a writer's fields; those that the writer lacks are null. Raises Unplanned."""
    if isinstance(writer, avro.Union):
        if len(writer.branches) != 2 or not (nullable and writer.nullable):
            raise Unplanned("a field was written as a union of several types")
        null_branch = next(number for number, branch in enumerate(writer.branches) if avro.is_null(branch))
        spec, plan = plan_by_name(column, writer.branches[1 - null_branch])
        return spec, ("nullable", null_branch, plan)
    if isinstance(column, StructColumn):
        return _plan_record(column, writer, nullable)
    if type(column) is Leaf:
        return _plan_leaf(column, writer)
    raise Unplanned(f"column '{column.path}' has the type {column.type}")


def _plan_record(column: StructColumn, writer: avro.Node, nullable: bool) -> _Plan:
    if not isinstance(writer, avro.Record):
        raise Unplanned("a part of the envelope is not a record")
    numbers = {member.key: number for number, member in enumerate(column.members)}
    types = [member.column.type for member in column.members]
    specs: list[Spec] = [("constant", type, True, pa.nulls(1, type)) for type in types]
    steps: list[tuple[int | None, Spec]] = []
    for field in writer.fields:
        number = numbers.pop(field.name, None)
        if number is None:
            steps.append((None, plan_skipping(field.type)))
        else:
            specs[number], plan = plan_by_name(column.members[number].column, field.type)
            steps.append((number, plan))
    names = [member.key for member in column.members]
    return ("struct", column.type, nullable, names, specs), ("record", steps, [*numbers.values()])


def _plan_leaf(column: Leaf, writer: avro.Node) -> _Plan:
    """Plan a column of plain values, if the native decoder gives what the column does."""
    name = writer.name if isinstance(writer, avro.Primitive) else ""
    size = writer.size if isinstance(writer, avro.Fixed) else None
    spec = ("leaf", column.type, True)
    match column.native:
        case ("leaf",) | ("flag",) if name in _WRITERS.get(column.type, ()):
            return spec, ("bytes" if name == "string" else name,)
        case ("days",) | ("moment", 1) if name in _WHOLE:
            return spec, (name,)
        case ("moment", 1000) if name in _WHOLE:
            return spec, ("millis", name == "int")
        case ("unscaled", scale) if name == "bytes" or size is not None:
            return spec, ("decimal", size, scale)
    raise Unplanned(f"column '{column.path}' of type {column.type} is written as {name or 'another type'}")
