"""Builds columns from Debezium's values: what each Spark type takes from each encoding.

| Spark | taken |
|---|---|
| boolean | true, false; 0, 1 |
| tinyint ... bigint | whole numbers, also as the text of a decimal without fraction; times of day and intervals |
| float, double | numbers, also as text; "NaN", "Infinity", "-Infinity" |
| decimal(p, s) | see `decimals` |
| string | texts; of all else its JSON; with a schema, dates and times as ISO 8601 and decimals as digits |
| binary | base64 in JSON, bytes in Avro |
| date, timestamp, timestamp_ntz | see `times` |
| array, struct | arrays, objects (point, geometry) |
| map<string, v> | objects, also as the text of one (hstore) |

Values of Avro come as those of JSON would, but for bytes, which come as `bytes`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

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

from ...core.arrow_types import arrow_type_of
from ...core.columns import (
    Column,
    Leaf,
    ListColumn,
    MapColumn,
    Member,
    Misfit,
    NumberText,
    Problems,
    Rows,
    StructColumn,
    kind_of,
)
from ...core.json_text import json_text
from ...core.scalars import FLOAT_LIMIT, SPECIAL_FLOATS, from_base64
from ...core.spark_visitor import child_path
from . import kafka_connect_schema
from .decimals import decimal_column, decimal_text
from .kafka_connect_schema import FieldSchema
from .settings import Rules
from .times import as_text, date_column, timestamp_column

_NONE = type(None)
_NATIVE = ("leaf",)
_WHOLE = re.compile(r"([+-]?\d{1,40})(?:\.0*)?", re.ASCII)
_SPECIAL = SPECIAL_FLOATS | {"NAN": math.nan, "POSITIVE_INFINITY": math.inf, "NEGATIVE_INFINITY": -math.inf}


def image_column(struct: StructType, path: str, schema: FieldSchema | None, rules: Rules) -> StructColumn:
    """Return the column of a row's images. Units of time are looked up by the names of its columns."""
    return _struct(struct, path, schema, rules, top=True)


def column_of(data_type: DataType, path: str, schema: FieldSchema | None, rules: Rules, unit: str | None) -> Column:
    """Return a column. `unit`: of whole numbers in columns of timestamps, where no schema tells it."""
    if isinstance(data_type, StructType):
        return _struct(data_type, path, schema, rules, unit=unit)
    if isinstance(data_type, ArrayType):
        inner = schema.element if schema is not None else None
        element = column_of(data_type.elementType, child_path(path, "element"), inner, rules, unit)
        return ListColumn(path, arrow_type_of(data_type), element, data_type.containsNull)
    if isinstance(data_type, MapType):
        inner = schema.element if schema is not None else None
        value = column_of(data_type.valueType, child_path(path, "value"), inner, rules, unit)
        key = _string(child_path(path, "key"), None)
        return _MapOrText(path, arrow_type_of(data_type), key, value, data_type.valueContainsNull)
    return _leaf(data_type, path, schema, rules, unit)


def _struct(
    struct: StructType,
    path: str,
    schema: FieldSchema | None,
    rules: Rules,
    *,
    unit: str | None = None,
    top: bool = False,
) -> StructColumn:
    fields = schema.fields if schema is not None else {}
    members = []
    for field in struct.fields:
        own = rules.unit(field.name) if top else unit
        column = column_of(field.dataType, child_path(path, field.name), fields.get(field.name), rules, own)
        members.append(Member(field.name, column, True))
    return _Image(path, arrow_type_of(struct), members, dict)


class _Image(StructColumn):
    """Builds a struct of which any member may be missing: events do not have columns that were added after them."""

    def _columns_of_dicts(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        keys = [member.key for member in self.members]
        return list(zip(*[map(value.get, keys) for value in values], strict=True)) or [[] for _ in keys]


def _leaf(data_type: DataType, path: str, schema: FieldSchema | None, rules: Rules, unit: str | None) -> Column:
    name = schema.name if schema is not None else ""
    if isinstance(data_type, StringType):
        return _string(path, schema)
    if isinstance(data_type, DecimalType):
        return decimal_column(path, data_type, schema, rules.decimal)
    if isinstance(data_type, DateType):
        return date_column(path)
    if isinstance(data_type, TimestampType | TimestampNTZType):
        return timestamp_column(path, arrow_type_of(data_type), kafka_connect_schema.TIMESTAMP_UNITS.get(name, unit))
    if isinstance(data_type, BooleanType):
        return _boolean(path)
    if isinstance(data_type, IntegralType):
        return _integer(path, data_type, schema)
    if isinstance(data_type, FloatType | DoubleType):
        return _floating(path, data_type, schema)
    if isinstance(data_type, BinaryType):
        return _binary(path)
    raise UnsupportedTypeError(
        f"column '{path}' has type {data_type.simpleString()}, which no Debezium format can read"
    )


def _boolean(path: str) -> Leaf:
    def exact(value: Any) -> bool:
        if type(value) is bool or (type(value) is int and value in (0, 1)):
            return bool(value)
        raise Misfit(f"expected true or false, found {kind_of(value)}")

    return Leaf(path, pa.bool_(), exact, kinds=frozenset((bool, _NONE)), native=("flag",))


def _integer(path: str, data_type: DataType, schema: FieldSchema | None) -> Leaf:
    arrow_type = arrow_type_of(data_type)
    limit = 1 << (arrow_type.bit_width - 1)
    scaled = schema is not None and schema.name == kafka_connect_schema.DECIMAL

    def exact(value: Any) -> int:
        if scaled or type(value) is dict:
            value = decimal_text(value, schema)
        number = value
        if type(value) in (str, NumberText):
            match = _WHOLE.fullmatch(value if type(value) is str else value.decode())
            number = int(match[1]) if match else None
        if type(number) is not int:
            raise Misfit(f"expected a whole number, found {kind_of(value)}")
        if not -limit <= number < limit:
            raise Misfit(f"the number {str(number)[:40]} is out of the range of {data_type.simpleString()}")
        return number

    return Leaf(path, arrow_type, exact, kinds=frozenset((int, _NONE)), native=None if scaled else _NATIVE)


def _floating(path: str, data_type: DataType, schema: FieldSchema | None) -> Leaf:
    arrow_type, limit = (pa.float32(), FLOAT_LIMIT) if isinstance(data_type, FloatType) else (pa.float64(), math.inf)
    scaled = schema is not None and schema.name == kafka_connect_schema.DECIMAL

    def exact(value: Any) -> float:
        if type(value) is str and value in _SPECIAL:
            return _SPECIAL[value]
        if type(value) is float and not math.isfinite(value):
            return value
        if scaled or type(value) is dict:
            value = decimal_text(value, schema)
        if type(value) not in (float, int, str, NumberText):
            raise Misfit(f"expected a number, found {kind_of(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        except ValueError:
            raise Misfit(f"the string '{str(value)[:40]}' is no number") from None
        if abs(number) >= limit or math.isnan(number):
            raise Misfit(f"the number {str(value)[:40]} is out of the range of {data_type.simpleString()}")
        return number

    def fast(values: Sequence[Any]) -> pa.Array:
        array = pa.array([None if value is None else float(value) for value in values], arrow_type)
        if pc.any(pc.is_inf(array)).as_py():
            raise OverflowError
        return array

    kinds: frozenset[type] = frozenset((float, int, NumberText, _NONE))
    return Leaf(path, arrow_type, exact, fast=fast, kinds=kinds, native=None if scaled else _NATIVE)


def _string(path: str, schema: FieldSchema | None) -> Leaf:
    show = _shown_as_text(schema)

    def exact(value: Any) -> str:
        if show is not None:
            value = show(value)
        elif isinstance(value, NumberText) and schema is not None and schema.kind == "bytes":
            value = base64.b64encode(value).decode("ascii")
        elif type(value) is dict and set(value) == {"scale", "value"}:
            value = decimal_text(value, None)
        elif type(value) is not str:
            value = json_text(value)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit("the string has half of a surrogate pair, which is no character") from None
        return str(value)

    if show is not None:
        return Leaf(path, pa.string(), exact, kinds=frozenset((_NONE,)))
    return Leaf(path, pa.string(), exact, kinds=frozenset((str, _NONE)), native=_NATIVE)


def _shown_as_text(schema: FieldSchema | None) -> Callable[[Any], str] | None:
    """Return what turns values of a schema's semantic type into text; None for texts and plain values."""
    if schema is None:
        return None
    if schema.name in (kafka_connect_schema.DECIMAL, kafka_connect_schema.VARIABLE_SCALE_DECIMAL):
        return lambda value: decimal_text(value, schema)
    for kind, units in (
        ("date", kafka_connect_schema.DATE_UNITS),
        ("timestamp", kafka_connect_schema.TIMESTAMP_UNITS),
        ("time", kafka_connect_schema.TIME_OF_DAY_UNITS),
    ):
        if schema.name in units:
            write = as_text(units[schema.name], kind)
            return lambda value: write(value) if type(value) is int else json_text(value)
    return None


def _binary(path: str) -> Leaf:
    def exact(value: Any) -> bytes:
        if type(value) is bytes:
            return value
        if type(value) is not str:
            raise Misfit(f"expected a base64 string, found {kind_of(value)}")
        return from_base64(value)

    def fast(values: Sequence[Any]) -> pa.Array:
        return pa.array([None if value is None else from_base64(value) for value in values], pa.binary())

    return Leaf(path, pa.binary(), exact, fast=fast, kinds=frozenset((str, _NONE)), native=_NATIVE)


class _MapOrText(MapColumn):
    """Builds a map; PostgreSQL's hstore comes as an object or as the text of one."""

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        return super().build([_object_of(value) for value in values], rows, problems)


def _object_of(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value  # which MapColumn refuses
    return found if type(found) is dict else value
