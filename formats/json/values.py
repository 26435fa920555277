"""Builds columns from JSON values: what each Spark type accepts, and nothing else; natively by a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.errors import UnsupportedTypeError

from ..core.arrow_types import arrow_type_of
from ..core.columns import Column, Leaf, ListColumn, MapColumn, Member, Misfit, NumberText, StructColumn, describe_kind
from ..core.scalars import (
    FIRST_DAY,
    FIRST_MICROS,
    FLOAT_LIMIT,
    LAST_DAY,
    LAST_MICROS,
    SPECIAL_FLOATS,
    days_of,
    exact_decimal,
    from_base64,
    json_text,
    micros_of,
    shortened,
)
from ..core.spark_visitor import child_path, map_with_other_keys
from ..native import Spec, Unplanned
from . import schema_model as model
from .timestamps import ISO, epoch_column


def _or_none(*kinds: type) -> frozenset[type]:
    return frozenset((*kinds, type(None)))


_STRINGS = _or_none(str)
_NATIVE = ("leaf",)
"""The native decoder goes by the Arrow type."""
_FLOATS = _or_none(float)


def column_of(data_type: DataType, path: str, node: model.Node | None, timestamps: str = ISO) -> Column:
    """Return the column of a Spark type. `node`: what the table's schema text says about its values, if known.

    `timestamps`: how they are written, ISO or a unit of EPOCH_UNITS since 1970.
    """
    if isinstance(data_type, StructType):
        return struct_column(data_type, path, node, timestamps)
    if isinstance(data_type, ArrayType):
        items = node.items if isinstance(node, model.Array) else None
        element = column_of(data_type.elementType, child_path(path, "element"), items, timestamps)
        kind = ByteList if isinstance(data_type.elementType, IntegralType) else ListColumn
        return kind(path, arrow_type_of(data_type), element, data_type.containsNull)
    if isinstance(data_type, MapType):
        values = node.values if isinstance(node, model.Map) else None
        if map_with_other_keys(data_type) == "":
            raise UnsupportedTypeError(
                f"column '{path}' has type {data_type.simpleString()}, which format json cannot read: keys of JSON "
                "objects are strings"
            )
        value = column_of(data_type.valueType, child_path(path, "value"), values, timestamps)
        key = _string(child_path(path, "key"))
        return MapColumn(path, arrow_type_of(data_type), key, value, data_type.valueContainsNull)
    if isinstance(data_type, StringType):
        return _anything(path) if isinstance(node, model.Anything) else _string(path)
    if timestamps != ISO and isinstance(data_type, (TimestampType, TimestampNTZType)):
        return epoch_column(path, data_type, timestamps)
    make = _LEAVES.get(type(data_type))
    if make is None:
        raise UnsupportedTypeError(
            f"column '{path}' has type {data_type.simpleString()}, which format json cannot read"
        )
    return make(path, data_type)


def struct_column(struct: StructType, path: str, node: model.Node | None, timestamps: str = ISO) -> StructColumn:
    """Return the column that reads objects as structs."""
    properties = node.properties if isinstance(node, model.Object) else {}
    members = []
    for field in struct.fields:
        column = column_of(field.dataType, child_path(path, field.name), properties.get(field.name), timestamps)
        members.append(Member(field.name, column, field.nullable, _missing(properties.get(field.name))))
    return StructColumn(path, arrow_type_of(struct), members, dict)


def _missing(node: model.Node | None) -> Any:
    """Return what a missing property stands for, as a document would have it."""
    if node is None or type(node.default) is not float:
        return None if node is None else node.default
    return repr(node.default).encode()


def needs_number_text(data_type: DataType, node: model.Node | None, timestamps: str = ISO) -> bool:
    """Tell whether exact digits matter somewhere in a column: decimals, numeric timestamps, JSON kept as text."""
    if isinstance(data_type, StructType):
        properties = node.properties if isinstance(node, model.Object) else {}
        return any(needs_number_text(each.dataType, properties.get(each.name), timestamps) for each in data_type.fields)
    if isinstance(data_type, ArrayType):
        items = node.items if isinstance(node, model.Array) else None
        return needs_number_text(data_type.elementType, items, timestamps)
    if isinstance(data_type, MapType):
        values = node.values if isinstance(node, model.Map) else None
        return needs_number_text(data_type.valueType, values, timestamps)
    if timestamps != ISO and isinstance(data_type, (TimestampType, TimestampNTZType)):
        return True
    return isinstance(data_type, DecimalType) or isinstance(node, model.Anything)


class ByteList(ListColumn):
    """Builds a list of integers; Java serializers write a byte[] as base64."""

    def as_list(self, value: Any) -> list[Any]:
        if type(value) is str:
            return list(np.frombuffer(from_base64(value), np.int8).tolist())
        return super().as_list(value)


def _string(path: str) -> Column:
    return Leaf(path, pa.string(), _text, kinds=_STRINGS, native=_NATIVE)


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Misfit(f"expected a string, found {describe_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("the string has half of a surrogate pair, which is no character") from None
    return value


def _anything(path: str) -> Column:
    def exact(value: Any) -> str:
        return _text(value if type(value) is str else json_text(value))

    return Leaf(path, pa.string(), exact, kinds=_STRINGS, native=("anything",))


def _boolean(path: str, data_type: DataType) -> Column:
    def exact(value: Any) -> bool:
        if type(value) is not bool:
            raise Misfit(f"expected true or false, found {describe_kind(value)}")
        return value

    return Leaf(path, pa.bool_(), exact, kinds=_or_none(bool), native=_NATIVE)


def _integer(path: str, data_type: DataType) -> Column:
    arrow_type = arrow_type_of(data_type)
    limit = 1 << (arrow_type.bit_width - 1)

    def exact(value: Any) -> int:
        if type(value) is not int:
            raise Misfit(f"expected an integer, found {describe_kind(value)}")
        if not -limit <= value < limit:
            raise Misfit(f"the integer {shortened(value)} is out of the range of {data_type.simpleString()}")
        return value

    return Leaf(path, arrow_type, exact, kinds=_or_none(int), native=_NATIVE)


def _floating(path: str, data_type: DataType) -> Column:
    arrow_type, limit = (pa.float32(), FLOAT_LIMIT) if isinstance(data_type, FloatType) else (pa.float64(), math.inf)

    def exact(value: Any) -> float:
        if type(value) is str and value in SPECIAL_FLOATS:
            return SPECIAL_FLOATS[value]
        if type(value) not in (float, int, NumberText):
            raise Misfit(f"expected a number, found {describe_kind(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) >= limit:
            raise Misfit(f"the number {shortened(value)} is out of the range of {data_type.simpleString()}")
        return number

    def fast(values: Sequence[Any]) -> pa.Array:
        if not _FLOATS.issuperset(map(type, values)):
            values = [None if value is None else float(value) for value in values]
        array = pa.array(values, arrow_type)
        if pc.any(pc.is_inf(array)).as_py():
            raise OverflowError
        return array

    return Leaf(path, arrow_type, exact, fast=fast, kinds=_or_none(float, int, NumberText), native=_NATIVE)


def _decimal(path: str, data_type: DataType) -> Column:
    assert isinstance(data_type, DecimalType)
    precision, scale = data_type.precision, data_type.scale
    arrow_type = pa.decimal128(precision, scale)

    def exact(value: Any) -> Decimal:
        if type(value) not in (int, NumberText):
            raise Misfit(f"expected a number, found {describe_kind(value)}")
        return exact_decimal(str(value) if type(value) is int else value.decode(), precision, scale)

    def fast(values: Sequence[Any]) -> pa.Array:
        texts = [
            value.decode() if type(value) is NumberText else None if value is None else str(value) for value in values
        ]
        # Arrow reads beyond its tables when digits and exponent are far apart (1e-99), so that only short
        # numbers without exponent are given to it.
        if max(map(len, filter(None, texts)), default=0) > 38:
            raise ValueError
        strings = pa.array(texts, pa.string())
        if pc.any(pc.match_substring(strings, "e", ignore_case=True)).as_py():
            raise ValueError
        return strings.cast(arrow_type)

    return Leaf(path, arrow_type, exact, fast=fast, kinds=_or_none(int, NumberText), native=_NATIVE)


def _binary(path: str, data_type: DataType) -> Column:
    def exact(value: Any) -> bytes:
        if type(value) is not str:
            raise Misfit(f"expected a base64 string, found {describe_kind(value)}")
        return from_base64(value)

    def fast(values: Sequence[Any]) -> pa.Array:
        return pa.array([None if value is None else from_base64(value) for value in values], pa.binary())

    return Leaf(path, pa.binary(), exact, fast=fast, kinds=_STRINGS, native=_NATIVE)


def _date(path: str, data_type: DataType) -> Column:
    def exact(value: Any) -> int:
        if type(value) is not str:
            raise Misfit(f"expected a date as a string, found {describe_kind(value)}")
        days = days_of(value)
        if days is None:
            raise Misfit(f"the string '{shortened(value)}' is no date such as 2024-01-31")
        return days

    def store(values: Sequence[Any]) -> pa.Array:
        return pa.array(values, pa.int32()).view(pa.date32())

    def fast(values: Sequence[Any]) -> pa.Array:
        array = pa.array(values, pa.string()).cast(pa.date32())
        _check_range(array.view(pa.int32()), FIRST_DAY, LAST_DAY)
        return array

    return Leaf(path, pa.date32(), exact, fast=fast, kinds=_STRINGS, store=store, native=_NATIVE)


def _timestamp(path: str, data_type: DataType) -> Column:
    zoned = isinstance(data_type, TimestampType)
    arrow_type = pa.timestamp("us", "UTC" if zoned else None)
    example = "2024-01-31T12:00:00.5Z" if zoned else "2024-01-31T12:00:00.5"

    def exact(value: Any) -> int:
        if type(value) is not str:
            raise Misfit(f"expected a timestamp as a string, found {describe_kind(value)}")
        micros = micros_of(value, zoned)
        if micros is None:
            rule = "with Z or an offset" if zoned else "without Z or offset"
            raise Misfit(f"the string '{shortened(value)}' is no timestamp {rule}, such as {example}")
        return micros

    def store(values: Sequence[Any]) -> pa.Array:
        return pa.array(values, pa.int64()).view(arrow_type)

    def fast(values: Sequence[Any]) -> pa.Array:
        array = pa.array(values, pa.string()).cast(arrow_type)
        _check_range(array.view(pa.int64()), FIRST_MICROS, LAST_MICROS)
        return array

    return Leaf(path, arrow_type, exact, fast=fast, kinds=_STRINGS, store=store, native=_NATIVE)


def _check_range(array: pa.Array, first: int, last: int) -> None:
    bounds = pc.min_max(array).as_py()
    if bounds["min"] is not None and not (first <= bounds["min"] and bounds["max"] <= last):
        raise ValueError


_LEAVES: dict[type[DataType], Callable[[str, DataType], Column]] = {
    BooleanType: _boolean,
    **dict.fromkeys(IntegralType.__subclasses__(), _integer),
    FloatType: _floating,
    DoubleType: _floating,
    DecimalType: _decimal,
    BinaryType: _binary,
    DateType: _date,
    TimestampType: _timestamp,
    TimestampNTZType: _timestamp,
}


def json_struct(columns: StructColumn) -> Spec:
    """Plan the columns of JSON objects. Raises Unplanned."""
    return json_column(columns, False)


def _member(member: Member) -> Spec:
    spec = json_column(member.column, member.nullable)
    # Events that lack the value are left to the reference, which knows the default.
    return spec if member.missing is None else ("defaulted", member.column.type, member.nullable, spec)


def json_column(column: Column, nullable: bool) -> Spec:
    """Plan a column of JSON values. Raises Unplanned."""
    if isinstance(column, StructColumn):
        members = [_member(each) for each in column.members]
        return ("struct", column.type, nullable, [member.key for member in column.members], members)
    if type(column) in (ListColumn, ByteList):
        assert isinstance(column, ListColumn)
        return ("list", column.type, nullable, json_column(column.element, column.element_nullable))
    if isinstance(column, MapColumn):
        if not pa.types.is_string(column.key.type):
            raise Unplanned(f"column '{column.path}' has keys that are not strings")
        key, value = json_column(column.key, False), json_column(column.value, column.value_nullable)
        return ("map", column.type, nullable, key, value)
    if type(column) is Leaf and column.native is not None:
        kind, *more = column.native
        return (kind, column.type, nullable, *more)
    raise Unplanned(f"column '{column.path}' has a kind that the native decoder does not know")
