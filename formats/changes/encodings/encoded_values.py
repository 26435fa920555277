"""Builds columns from Debezium's values, as the `matrix` says for the event's type and the column's type.

Values of Avro have the form of JSON values, except that bytes are `bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NoReturn

from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from pyspark_pravega.errors import UnsupportedTypeError

from ...core.arrow_types import find_arrow_type
from ...core.columns import Column, Leaf, ListColumn, Misfit, StructColumn, StructMember
from ...core.spark_visitor import join_path
from ...core.times_of_day import is_time_of_day
from ..feed import OWN_CONNECTOR
from .kafka_connect_schema import FieldSchema
from .maps import EntriesColumn
from .matrix import Reading, Target, describe_column_type, explain_refusal, find_reading, find_target
from .numbers import make_decimal_column, make_flag_column, make_floating_column, make_whole_column
from .semantic_types import Semantic, describe_schema, find_semantic, find_unit
from .settings import Rules
from .texts import (
    BASE64,
    BYTES,
    NO_MODE,
    make_base64_column,
    make_binary_column,
    make_digits_column,
    make_iso_column,
    make_text_column,
    make_variant_column,
)
from .times import (
    is_any_day,
    is_day_of_postgres,
    is_no_day,
    make_clock_column,
    make_date_column,
    make_midnight_column,
    make_timestamp_column,
)

_NONE = type(None)
_MAXWELL = "maxwell"
"""Maxwell always writes bytes as base64, never decimals as objects, and columns of JSON as their values."""

_NO_TEXT = "expected a timestamp as a string, found the number {}"
_NO_CLOCK = "expected a time of day as a string, found the number {}"


@dataclass(frozen=True)
class _Cell:
    """A column to build.

    `declared`: the unit in `debezium.time-units` for the table's column around it. `plain`: the values come from a JSON
    text of the user, which no connector encoded.
    """

    data_type: DataType
    path: str
    schema: FieldSchema | None
    rules: Rules
    declared: str | None = None
    plain: bool = False

    def of_text(self) -> _Cell:
        """Return the same for values of a JSON text, to which no property applies."""
        rules = replace(self.rules, unit_by_column={}, default_unit=None, decimal="string", binary=BASE64)
        return replace(self, schema=None, rules=rules, declared=None, plain=True)

    def part(self, name: str, data_type: DataType, schema: FieldSchema | None) -> Column:
        """Return the column of a part of the values."""
        return _make_column(replace(self, data_type=data_type, path=join_path(self.path, name), schema=schema))


def make_image_column(struct: StructType, path: str, schema: FieldSchema | None, rules: Rules) -> StructColumn:
    """Return the column of a row's images. Units of time are looked up by the names of the row's columns."""
    fields = schema.fields if schema is not None else {}
    members = []
    for field in struct.fields:
        declared = rules.unit_by_column.get(field.name)
        cell = _Cell(field.dataType, join_path(path, field.name), fields.get(field.name), rules, declared)
        members.append(StructMember(field.name, _make_column(cell), True))
    return _Image(path, find_arrow_type(struct), members, dict)


class _Image(StructColumn):
    """Builds a struct whose members may be missing: events lack columns that were added later."""

    def _split_dicts(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        keys = [member.key for member in self.members]
        return list(zip(*[map(value.get, keys) for value in values], strict=True)) or [[] for _ in keys]


def _make_column(cell: _Cell) -> Column:
    target = find_target(cell.data_type)
    if target is None or (target is Target.TIME and not is_time_of_day(cell.data_type)):
        raise UnsupportedTypeError(
            f"column '{cell.path}' has type {cell.data_type.simpleString()}, which no Debezium format can read"
        )
    reading = find_reading(cell.schema, target)
    if reading is None:
        assert cell.schema is not None
        return _make_refusing_column(cell, explain_refusal(cell.schema, cell.data_type))
    column = _BUILDERS[target](cell, reading)
    if type(column) is Leaf and cell.schema is not None:
        words = (
            f"the event's type is {describe_schema(cell.schema)}, the column's {describe_column_type(cell.data_type)}"
        )
        column.about = f" ({words})"
    return column


class _Refusing(Leaf):
    """Accepts only null. The reason already names both types."""


def _make_refusing_column(cell: _Cell, sentence: str) -> Leaf:
    def convert_one(value: Any) -> NoReturn:
        raise Misfit(sentence)

    return _Refusing(cell.path, find_arrow_type(cell.data_type), convert_one, kinds=frozenset((_NONE,)))


def _make_decimal(cell: _Cell, reading: Reading) -> Column:
    assert isinstance(cell.data_type, DecimalType)
    rounding = reading is Reading.ROUNDED
    mode = cell.rules.decimal
    return make_decimal_column(cell.path, cell.data_type, cell.schema, mode, rounding=rounding, plain=cell.plain)


def _make_string(cell: _Cell, reading: Reading) -> Column:
    if cell.schema is None or reading is Reading.TEXT:
        decimals = not cell.plain and cell.rules.connector != _MAXWELL
        return make_text_column(cell.path, cell.schema, decimals=decimals)
    make = {Reading.DIGITS: make_digits_column, Reading.ISO: make_iso_column, Reading.BASE64: make_base64_column}[
        reading
    ]
    return make(cell.path, cell.schema)


def _make_binary(cell: _Cell, reading: Reading) -> Column:
    mode, schema = cell.rules.binary, cell.schema
    if reading is Reading.BYTES:
        return make_binary_column(cell.path, BYTES, raw=schema is not None and schema.raw)
    if schema is None:
        wary = not mode and cell.rules.connector not in (OWN_CONNECTOR, _MAXWELL)
        return make_binary_column(cell.path, mode or BASE64, raw=False, wary=wary)
    if mode in ("", BYTES):
        types = f"the event's type is {describe_schema(schema)}, the column's {describe_column_type(cell.data_type)}"
        return _make_refusing_column(cell, f"{types}: {NO_MODE}")
    return make_binary_column(cell.path, mode, raw=False)


def _make_date(cell: _Cell, reading: Reading) -> Column:
    schema = cell.schema
    if reading is Reading.MIDNIGHT:
        assert schema is not None
        return make_midnight_column(cell.path, find_unit(schema))
    if schema is not None:
        return make_date_column(cell.path, is_any_day)
    if cell.plain:
        return make_date_column(cell.path, is_no_day, plain=True)
    return make_date_column(cell.path, is_day_of_postgres if cell.rules.connector == "postgresql" else is_no_day)


def _make_timestamp(cell: _Cell, reading: Reading) -> Column:
    arrow_type = find_arrow_type(cell.data_type)
    if cell.schema is None:
        unit = cell.declared or cell.rules.default_unit
        return make_timestamp_column(
            cell.path, arrow_type, unit, _NO_TEXT if cell.plain else cell.rules.describe_unknown_unit()
        )
    if reading is Reading.DECLARED_UNIT and cell.declared is None:
        return _make_refusing_column(cell, explain_refusal(cell.schema, cell.data_type))
    unit = cell.declared if reading is Reading.DECLARED_UNIT else find_unit(cell.schema) or None
    return make_timestamp_column(cell.path, arrow_type, unit, "the number {} is not a text")


def _make_time(cell: _Cell, reading: Reading) -> Column:
    if reading is Reading.DECLARED_UNIT and cell.declared is None:
        assert cell.schema is not None
        return _make_refusing_column(cell, explain_refusal(cell.schema, cell.data_type))
    if cell.schema is None:
        unit = cell.declared or (None if cell.plain else cell.rules.clock_unit)
        unknown = _NO_CLOCK if cell.plain else cell.rules.describe_unknown_unit("times of day")
        return make_clock_column(cell.path, cell.data_type, unit, unknown, utc=cell.rules.utc_clocks)
    unit = cell.declared if reading is Reading.DECLARED_UNIT else find_unit(cell.schema) or None
    utc = find_semantic(cell.schema) is Semantic.ISO_TIME
    return make_clock_column(cell.path, cell.data_type, unit, "the number {} is not a text", utc=utc)


def _make_array(cell: _Cell, reading: Reading) -> Column:
    assert isinstance(cell.data_type, ArrayType)
    element = cell.part("element", cell.data_type.elementType, cell.schema.element if cell.schema else None)
    return ListColumn(cell.path, find_arrow_type(cell.data_type), element, cell.data_type.containsNull)


def _make_map(cell: _Cell, reading: Reading) -> Column:
    assert isinstance(cell.data_type, MapType)
    schema, data_type = cell.schema, cell.data_type
    inner = schema.element if schema is not None else None
    if schema is not None and schema.kind == "struct":
        members = list(schema.fields.values())
        if any(member != members[0] for member in members):
            return _make_refusing_column(cell, f"{explain_refusal(schema, data_type)}: its fields have different types")
        inner = members[0] if members else None
    column = _make_entries(cell, data_type, schema.key if schema is not None else None, inner)
    if not cell.plain and (schema is None or reading is Reading.JSON_OBJECT):
        column.of_text = _make_entries(cell.of_text(), data_type, None, None)
    return column


def _make_entries(
    cell: _Cell, data_type: MapType, keys: FieldSchema | None, values: FieldSchema | None
) -> EntriesColumn:
    key = cell.part("key", data_type.keyType, keys)
    value = cell.part("value", data_type.valueType, values)
    return EntriesColumn(cell.path, find_arrow_type(data_type), key, value, data_type.valueContainsNull)


def _make_struct(cell: _Cell, reading: Reading) -> Column:
    assert isinstance(cell.data_type, StructType)
    members = [StructMember(field.name, _make_member(cell, field), True) for field in cell.data_type.fields]
    return _Image(cell.path, find_arrow_type(cell.data_type), members, dict)


def _make_member(cell: _Cell, field: StructField) -> Column:
    schema = cell.schema
    if schema is None:
        return cell.part(field.name, field.dataType, None)
    inner = schema.element if schema.kind == "map" else schema.fields.get(field.name)
    return cell.part(field.name, field.dataType, inner)


_BUILDERS: Mapping[Target, Callable[[_Cell, Reading], Column]] = MappingProxyType(
    {
        Target.BOOLEAN: lambda cell, reading: make_flag_column(cell.path),
        Target.WHOLE: lambda cell, reading: make_whole_column(cell.path, cell.data_type, cell.schema, plain=cell.plain),
        Target.FLOATING: lambda cell, reading: make_floating_column(
            cell.path, cell.data_type, cell.schema, plain=cell.plain
        ),
        Target.DECIMAL: _make_decimal,
        Target.STRING: _make_string,
        Target.BINARY: _make_binary,
        Target.DATE: _make_date,
        Target.TIMESTAMP: _make_timestamp,
        Target.TIME: _make_time,
        Target.ARRAY: _make_array,
        Target.MAP: _make_map,
        Target.STRUCT: _make_struct,
        Target.VARIANT: lambda cell, reading: make_variant_column(
            cell.path, cell.schema, parsed=not cell.plain and cell.rules.connector != _MAXWELL
        ),
    }
)
