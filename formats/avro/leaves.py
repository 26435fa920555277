"""Builds columns from Avro's primitive values: promotion by the rules of schema resolution, and logical types.

The writer's logical type says what the stored number means (its unit, its scale), the reader's what the
column shows. Beyond the rules of the specification, an enum may be read as a string, a decimal with
another scale (no digit may be lost), and a timestamp or a time of day in another unit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidSchemaError

from ..core import scalars
from ..core.arrow_types import find_arrow_type
from ..core.columns import Column, Leaf, Misfit
from ..core.spark_types import FLOATING_POINT, WHOLE_NUMBERS
from ..core.times_of_day import UNITS, make_time_column
from . import schema_model as avro

Scalar = avro.Primitive | avro.Fixed | avro.Enum

MILLIS = ("timestamp-millis", "local-timestamp-millis")
_TIMESTAMPS = (*MILLIS, "timestamp-micros", "local-timestamp-micros")
_TIMES = frozenset(("date", "time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos", *_TIMESTAMPS))
"""Avro's logical types of dates, times of day and timestamps. Other names have no meaning."""
PROMOTED: dict[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "int": ("int",),
    "long": ("int", "long"),
    "float": ("int", "long", "float"),
    "double": ("int", "long", "float", "double"),
    "bytes": ("bytes", "string"),
    "string": ("string", "bytes"),
}
"""The writer's types that a reader's type accepts."""
_PLAIN = ("plain",)
"""For the native decoder: the writer's type and the Arrow type say all."""
_NONE: frozenset[type] = frozenset()
"""The kinds of a column whose values are converted one by one."""


def make_leaf_column(writer: Scalar, reader: Scalar, data_type: T.DataType, path: str) -> Column:
    """Return the column of the reader's type that reads values of the writer's type.

    Raises InvalidSchemaError if the types do not resolve, or the column's type is not the reader's.
    """
    check_resolves(writer, reader, path)
    kinds, make = _choose_maker(writer, reader)
    if not isinstance(data_type, kinds):
        raise InvalidSchemaError(
            f"column '{path}' should be read as {data_type.simpleString()}, but the table's schema says "
            f"{describe_type(reader)}"
        )
    return make(path, data_type)


def check_resolves(writer: Scalar, reader: Scalar, path: str) -> None:
    """Raise InvalidSchemaError if values of the writer's type cannot be read as the reader's."""
    if isinstance(writer, avro.Primitive) and isinstance(reader, avro.Primitive):
        # A column of times of day reads them in whatever unit.
        of_day = reader.logical in avro.TIMES_OF_DAY and _find_time_unit(writer) is not None
        promoted = writer.name in PROMOTED.get(reader.name, ()) or of_day
        fits = promoted and _has_compatible_time(writer, reader)
    elif isinstance(writer, avro.Enum) and isinstance(reader, avro.Primitive):
        fits = reader.name == "string"
    elif isinstance(writer, avro.Fixed) and isinstance(reader, avro.Fixed):
        fits = reader.has_name_of(writer) and reader.size == writer.size
    else:
        fits = isinstance(writer, avro.Enum) and isinstance(reader, avro.Enum) and reader.has_name_of(writer)
    if not fits:
        raise make_resolution_error(writer, reader, path)


def _find_unknown_time(node: avro.Primitive) -> str | None:
    """Return the words by which a writer says that its numbers are times of day in a unit that is not known here."""
    logical, connect = node.attributes.get("logicalType"), node.attributes.get("connect.name")
    if isinstance(logical, str) and logical.startswith("time-") and _find_time_unit(node) is None:
        return logical
    return connect if isinstance(connect, str) and connect.startswith("io.debezium.time.") else None


def _find_time_unit(node: avro.Primitive | avro.Fixed) -> str | None:
    return avro.find_time_unit(node.attributes.get("logicalType"), node.name)


def _has_compatible_time(writer: avro.Primitive, reader: avro.Primitive) -> bool:
    """Return whether numbers of a writer's time type can be read as a reader's time type.

    Plain numbers of the reader's own base type can be any, other whole numbers any but times of day.
    """
    said = writer.attributes.get("logicalType")
    if reader.logical in avro.TIMES_OF_DAY and _find_time_unit(writer) is None:
        return writer.name == reader.name and said not in _TIMES and _find_unknown_time(writer) is None
    if reader.logical not in _TIMES or not isinstance(said, str) or said not in _TIMES:
        return True
    if reader.logical in avro.TIMES_OF_DAY:
        return said in avro.TIMES_OF_DAY
    return said == reader.logical or (said in _TIMESTAMPS and reader.logical in _TIMESTAMPS)


def make_resolution_error(writer: avro.Node, reader: avro.Node, path: str) -> InvalidSchemaError:
    """Return the error for two types that do not resolve."""
    where = f"column '{path}'" if path else "the event"
    return InvalidSchemaError(
        f"{where} was written as {describe_type(writer)}, which cannot be read as {describe_type(reader)}"
    )


def describe_type(node: avro.Node) -> str:
    """Describe a type in words, for messages."""
    if isinstance(node, avro.Union):
        return "union of " + ", ".join(map(describe_type, node.branches))
    if isinstance(node, avro.Fixed):
        return f"fixed '{node.name}' of {node.size} bytes"
    if isinstance(node, avro.Named):
        return f"{type(node).__name__.lower()} '{node.name}'"
    if isinstance(node, avro.Primitive):
        said = _find_unknown_time(node) or node.attributes.get("logicalType")
        return f"{node.name} ({said})" if isinstance(said, str) else node.name
    return type(node).__name__.lower()


_Kinds = tuple[type[T.DataType], ...]
_Make = Callable[[str, Any], Column]


def _choose_maker(writer: Scalar, reader: Scalar) -> tuple[_Kinds, _Make]:
    """Return the Spark types that a column of the reader's type may have, and a function that makes the column."""
    if isinstance(writer, avro.Enum) or isinstance(reader, avro.Enum):
        return (T.StringType,), lambda path, _: _make_enum(writer, reader, path)
    if reader.logical == "decimal":
        scale = writer.scale if writer.logical == "decimal" else reader.scale
        return (T.DecimalType,), lambda path, data_type: _make_decimal(path, data_type, scale)
    if reader.logical == "uuid" and isinstance(reader, avro.Fixed):
        return (T.StringType,), _make_uuid
    if isinstance(reader, avro.Fixed):
        return (T.BinaryType,), _make_plain
    if reader.logical == "date":
        return (T.DateType,), lambda path, data_type: _make_moment(path, data_type, 1)
    if reader.logical in avro.TIMES_OF_DAY:
        counted = UNITS[_find_time_unit(writer) or _find_time_unit(reader) or "us"]
        return (T.TimeType,), lambda path, data_type: _make_time(path, data_type, counted)
    if reader.logical is not None and reader.logical != "uuid":
        unit = writer.logical if writer.logical and "timestamp" in writer.logical else reader.logical
        micros = 1000 if unit in MILLIS else 1
        return (T.TimestampType, T.TimestampNTZType), lambda path, data_type: _make_moment(path, data_type, micros)
    if reader.name in ("float", "double"):
        return FLOATING_POINT, _make_floating if writer.name in ("int", "long") else _make_plain
    by_name: dict[str, tuple[_Kinds, _Make]] = {
        "boolean": ((T.BooleanType,), _make_plain),
        "int": (WHOLE_NUMBERS, _make_integer),
        "long": (WHOLE_NUMBERS, _make_integer),
        "bytes": ((T.BinaryType,), _make_plain),
        "string": ((T.StringType,), _make_string),
    }
    return by_name[reader.name]


def _keep(value: Any) -> Any:
    return value


def _make_plain(path: str, data_type: T.DataType) -> Column:
    return Leaf(path, find_arrow_type(data_type), _keep, native=_PLAIN)


def _make_integer(path: str, data_type: T.DataType) -> Column:
    arrow_type, name = find_arrow_type(data_type), data_type.simpleString()
    return Leaf(path, arrow_type, partial(scalars.check_integer, bits=arrow_type.bit_width, kind=name), native=_PLAIN)


def _make_floating(path: str, data_type: T.DataType) -> Column:
    """Return a column that reads whole numbers as floating-point numbers."""
    arrow_type = find_arrow_type(data_type)

    def convert_all(values: Sequence[int | None]) -> pa.Array:
        return pa.array(values, pa.int64()).cast(arrow_type, safe=False)

    return Leaf(path, arrow_type, float, fast=convert_all, native=_PLAIN)


def _make_string(path: str, data_type: T.DataType) -> Column:
    return Leaf(path, pa.string(), decode_text, native=_PLAIN)


def decode_text(value: bytes) -> str:
    """Decode the bytes of a string. Raises Misfit if they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Misfit(f"the string is not UTF-8 (byte {error.start})") from None


def _make_uuid(path: str, data_type: T.DataType) -> Column:
    return Leaf(path, pa.string(), lambda value: str(uuid.UUID(bytes=value)), kinds=_NONE, native=("uuid",))


def _make_moment(path: str, data_type: T.DataType, unit: int) -> Column:
    """Return a column of days, or of timestamps in a unit of microseconds, in the years 0001 to 9999."""
    arrow_type = find_arrow_type(data_type)
    is_date = pa.types.is_date(arrow_type)
    what = "date" if is_date else "timestamp"
    first, last = (scalars.FIRST_DAY, scalars.LAST_DAY) if is_date else (scalars.FIRST_MICROS, scalars.LAST_MICROS)
    counted = "days" if is_date else "milliseconds" if unit > 1 else "microseconds"

    def convert_one(value: int) -> int:
        if not first <= value * unit <= last:
            raise Misfit(f"the {what} of {value} {counted} since 1970 is outside the years 0001 to 9999")
        return value * unit

    return Leaf(path, arrow_type, convert_one, kinds=_NONE, native=("days",) if is_date else ("moment", unit))


def _make_time(path: str, data_type: T.DataType, unit: int) -> Column:
    return make_time_column(path, data_type, lambda value: value * unit, ("time", unit))


def _make_decimal(path: str, data_type: T.DecimalType, written_scale: int) -> Column:
    precision, scale = data_type.precision, data_type.scale
    exact = partial(scalars.parse_unscaled, written_scale=written_scale, precision=precision, scale=scale)
    return Leaf(path, pa.decimal128(precision, scale), exact, kinds=_NONE, native=("decimal", written_scale))


def resolve_symbols(writer: avro.Enum, reader: Scalar) -> list[str | None]:
    """Return the text of each symbol of the writer. One that the reader's enum lacks becomes its default, or None."""
    if not isinstance(reader, avro.Enum):
        return list(writer.symbols)
    return [symbol if symbol in reader.symbols else reader.default for symbol in writer.symbols]


def make_symbol_finder(writer: avro.Enum, reader: Scalar) -> Callable[[int], str]:
    """Return a function that turns the writer's numbers of symbols into texts. It raises Misfit without a text."""
    symbols = resolve_symbols(writer, reader)

    def find_symbol(number: int) -> str:
        symbol = symbols[number]
        if symbol is None:
            raise Misfit(f"the symbol '{writer.symbols[number]}' is not one of {describe_type(reader)}")
        return symbol

    return find_symbol


def _make_enum(writer: Scalar, reader: Scalar, path: str) -> Column:
    """Return a column that reads symbols by number."""
    assert isinstance(writer, avro.Enum)
    native = ("enum", resolve_symbols(writer, reader))
    return Leaf(path, pa.string(), make_symbol_finder(writer, reader), kinds=_NONE, native=native)
