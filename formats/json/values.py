"""Builds columns from JSON values: defines which values each Spark type accepts, and plans the native decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T

from pyspark_pravega.errors import UnsupportedTypeError

from ..core import scalars
from ..core.arrow_types import find_arrow_type
from ..core.columns import Column, Leaf, ListColumn, MapColumn, NumberText, StructColumn, StructMember, expect_type
from ..core.spark_visitor import find_map_without_string_keys, join_path, list_part_types
from ..core.times_of_day import is_time_of_day, make_time_column, parse_time_of_day
from ..native import Spec, Unplanned
from .schemas import schema_model as model
from .timestamps import ISO, make_counted_time_column, make_epoch_column
from .variants import make_variant_column


def _add_none(*kinds: type) -> frozenset[type]:
    return frozenset((*kinds, type(None)))


_STRINGS = _add_none(str)
_NATIVE = ("leaf",)
"""For the native decoder: the Arrow type says all."""


def make_column(data_type: T.DataType, path: str, node: model.Node | None, timestamps: str = ISO) -> Column:
    """Return the column of a Spark type. `node`: the schema of its values in the table's schema text, if known.

    `timestamps`: the encoding of timestamps, ISO or a unit of EPOCH_UNITS.
    """
    if isinstance(data_type, T.StructType):
        return make_struct_column(data_type, path, node, timestamps)
    if isinstance(data_type, T.ArrayType):
        items = model.find_part(node, "element")
        element = make_column(data_type.elementType, join_path(path, "element"), items, timestamps)
        kind = ByteList if isinstance(data_type.elementType, T.IntegralType) else ListColumn
        return kind(path, find_arrow_type(data_type), element, data_type.containsNull)
    if isinstance(data_type, T.MapType):
        if find_map_without_string_keys(data_type) == "":
            raise UnsupportedTypeError(
                f"column '{path}' has type {data_type.simpleString()}, which format json cannot read: keys of JSON "
                "objects are strings"
            )
        values = model.find_part(node, "value")
        value = make_column(data_type.valueType, join_path(path, "value"), values, timestamps)
        key = _make_string(join_path(path, "key"))
        return MapColumn(path, find_arrow_type(data_type), key, value, data_type.valueContainsNull)
    if isinstance(data_type, T.VariantType):
        return make_variant_column(path)
    if isinstance(data_type, T.StringType):
        if isinstance(node, model.Anything):
            return Leaf(path, pa.string(), scalars.read_anything, kinds=_STRINGS, native=("anything",))
        return _make_string(path)
    if timestamps != ISO and isinstance(data_type, (T.TimestampType, T.TimestampNTZType)):
        return make_epoch_column(path, data_type, timestamps)
    if timestamps != ISO and is_time_of_day(data_type):
        return make_counted_time_column(path, data_type, timestamps)
    make = _LEAVES.get(type(data_type))
    if make is None or (isinstance(data_type, T.TimeType) and not is_time_of_day(data_type)):
        raise UnsupportedTypeError(
            f"column '{path}' has type {data_type.simpleString()}, which format json cannot read"
        )
    return make(path, data_type)


def make_struct_column(struct: T.StructType, path: str, node: model.Node | None, timestamps: str = ISO) -> StructColumn:
    """Return the column that reads objects as structs."""
    members = []
    for field in struct.fields:
        member = model.find_part(node, field.name)
        column = make_column(field.dataType, join_path(path, field.name), member, timestamps)
        members.append(StructMember(field.name, column, field.nullable, _read_default(member)))
    return StructColumn(path, find_arrow_type(struct), members, dict)


def _read_default(node: model.Node | None) -> Any:
    """Return the value of a missing property, as a document would have it."""
    if node is None or type(node.default) is not float:
        return None if node is None else node.default
    return repr(node.default).encode()


def has_number_text(data_type: T.DataType, node: model.Node | None, timestamps: str = ISO) -> bool:
    """Return whether exact digits matter somewhere in a column: decimals, numeric timestamps, JSON kept as text."""
    parts = list_part_types(data_type)
    if parts:
        return any(has_number_text(part, model.find_part(node, name), timestamps) for name, part in parts)
    if timestamps != ISO and isinstance(data_type, (T.TimestampType, T.TimestampNTZType, T.TimeType)):
        return True
    return isinstance(data_type, T.DecimalType | T.VariantType) or isinstance(node, model.Anything)


class ByteList(ListColumn):
    """Builds a list of integers; Java serializers write a byte[] as base64."""

    def as_list(self, value: Any) -> list[Any]:
        if type(value) is str:
            return list(np.frombuffer(scalars.decode_base64(value), np.int8).tolist())
        return super().as_list(value)


def _make_string(path: str) -> Column:
    return Leaf(path, pa.string(), scalars.check_string, kinds=_STRINGS, native=_NATIVE)


def _make_boolean(path: str, data_type: T.DataType) -> Column:
    return Leaf(path, pa.bool_(), scalars.check_boolean, kinds=_add_none(bool), native=_NATIVE)


def _make_integer(path: str, data_type: T.DataType) -> Column:
    arrow_type, name = find_arrow_type(data_type), data_type.simpleString()
    exact = partial(scalars.check_integer, bits=arrow_type.bit_width, kind=name)
    return Leaf(path, arrow_type, exact, kinds=_add_none(int), native=_NATIVE)


def _make_floating(path: str, data_type: T.DataType) -> Column:
    arrow_type = find_arrow_type(data_type)
    exact = partial(scalars.read_floating, kind=data_type.simpleString())
    fast = partial(scalars.convert_floats, arrow_type=arrow_type)
    return Leaf(path, arrow_type, exact, fast=fast, kinds=_add_none(float, int, NumberText), native=_NATIVE)


def _make_decimal(path: str, data_type: T.DataType) -> Column:
    assert isinstance(data_type, T.DecimalType)
    precision, scale = data_type.precision, data_type.scale
    arrow_type = pa.decimal128(precision, scale)

    def convert_all(values: Sequence[Any]) -> pa.Array:
        texts = [
            value.decode() if type(value) is NumberText else None if value is None else str(value) for value in values
        ]
        return scalars.convert_decimal_texts(texts, arrow_type)

    exact = partial(scalars.read_decimal, precision=precision, scale=scale)
    return Leaf(path, arrow_type, exact, fast=convert_all, kinds=_add_none(int, NumberText), native=_NATIVE)


def _make_binary(path: str, data_type: T.DataType) -> Column:
    def convert_one(value: Any) -> bytes:
        return scalars.decode_base64(expect_type(value, str, "a base64 string"))

    return Leaf(path, pa.binary(), convert_one, kinds=_add_none(), native=_NATIVE)


def _make_moment(path: str, data_type: T.DataType) -> Column:
    arrow_type = find_arrow_type(data_type)
    exact: Callable[[Any], int] = partial(scalars.read_micros, zoned=isinstance(data_type, T.TimestampType))
    counted = pa.int64()
    if isinstance(data_type, T.DateType):
        exact, counted = scalars.read_days, pa.int32()

    def count(values: Sequence[Any]) -> pa.Array:
        return pa.array(values, pa.string()).cast(arrow_type).view(counted)

    return scalars.make_moment_column(path, arrow_type, exact, count, kinds=_STRINGS, native=_NATIVE)


def _make_time(path: str, data_type: T.DataType) -> Column:
    def read(value: Any) -> int:
        return parse_time_of_day(expect_type(value, str, "a time of day as a string"))

    return make_time_column(path, data_type, read, ("clock", 0, True, False))


_LEAVES: dict[type[T.DataType], Callable[[str, T.DataType], Column]] = {
    T.BooleanType: _make_boolean,
    **dict.fromkeys(T.IntegralType.__subclasses__(), _make_integer),
    T.FloatType: _make_floating,
    T.DoubleType: _make_floating,
    T.DecimalType: _make_decimal,
    T.BinaryType: _make_binary,
    T.DateType: _make_moment,
    T.TimestampType: _make_moment,
    T.TimestampNTZType: _make_moment,
    T.TimeType: _make_time,
}


def _plan_member(member: StructMember) -> Spec:
    spec = plan_column(member.column, member.nullable)
    # Events that lack the value are left to the reference, which knows the default.
    return spec if member.missing is None else ("defaulted", member.column.type, member.nullable, spec)


def plan_column(column: Column, nullable: bool) -> Spec:
    """Plan a column of JSON values. Raises Unplanned."""
    if isinstance(column, StructColumn):
        members = [_plan_member(one) for one in column.members]
        return ("struct", column.type, nullable, [member.key for member in column.members], members)
    if type(column) in (ListColumn, ByteList):
        assert isinstance(column, ListColumn)
        return ("list", column.type, nullable, plan_column(column.element, column.element_nullable))
    if isinstance(column, MapColumn):
        if not pa.types.is_string(column.key.type):
            raise Unplanned(f"column '{column.path}' has keys that are not strings")
        key, value = plan_column(column.key, False), plan_column(column.value, column.value_nullable)
        return ("map", column.type, nullable, key, value)
    if type(column) is Leaf and column.native is not None:
        kind, *more = column.native
        return (kind, column.type, nullable, *more)
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")
