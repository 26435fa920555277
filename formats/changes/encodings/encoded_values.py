"""Builds columns from Debezium's values, as the `matrix` says for the event's type and the column's type.

Values of Avro have the form of JSON values, except that bytes are `bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from ...core.arrow_types import find_arrow_type
from ...core.columns import Column, Leaf, ListColumn, StructColumn, StructMember
from ...core.spark_visitor import join_path
from .cell import Cell
from .kafka_connect_schema import FieldSchema
from .maps import EntriesColumn
from .matrix import Reading, Target, explain_refusal
from .numbers import make_decimal_column, make_flag_column, make_floating_column, make_whole_column
from .settings import Rules
from .texts import make_binary_column, make_string_column, make_variant_column
from .times import make_clock_column, make_date_column, make_timestamp_column


def make_image_column(struct: StructType, path: str, schema: FieldSchema | None, rules: Rules) -> StructColumn:
    """Return the column of a row's images. Units of time are looked up by the names of the row's columns."""
    fields = schema.fields if schema is not None else {}
    members = []
    for field in struct.fields:
        declared = rules.unit_by_column.get(field.name)
        cell = Cell(field.dataType, join_path(path, field.name), fields.get(field.name), rules, declared)
        members.append(StructMember(field.name, _make_column(cell), True))
    return _Image(path, find_arrow_type(struct), members, dict)


class _Image(StructColumn):
    """Builds a struct whose members may be missing: events lack columns that were added later."""

    def _split_dicts(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        keys = [member.key for member in self.members]
        return list(zip(*[map(value.get, keys) for value in values], strict=True)) or [[] for _ in keys]


def _make_column(cell: Cell) -> Column:
    build = _BUILDERS[cell.target]
    if cell.reading is None:
        return cell.refuse()
    column = build(cell)
    if type(column) is Leaf and cell.schema is not None:
        column.about = f" ({cell.describe_types()})"
    return column


def _make_array(cell: Cell) -> Column:
    assert isinstance(cell.data_type, ArrayType)
    element = cell.part("element", cell.data_type.elementType, cell.schema.element if cell.schema else None)
    return ListColumn(cell.path, find_arrow_type(cell.data_type), _make_column(element), cell.data_type.containsNull)


def _make_map(cell: Cell) -> Column:
    schema = cell.schema
    inner = schema.element if schema is not None else None
    if schema is not None and schema.kind == "struct":
        members = list(schema.fields.values())
        if any(member != members[0] for member in members):
            return cell.refuse(f"{explain_refusal(schema, cell.data_type)}: its fields have different types")
        inner = members[0] if members else None
    column = _make_entries(cell, schema.key if schema is not None else None, inner)
    if not cell.plain and (schema is None or cell.reading is Reading.JSON_OBJECT):
        column.of_text = _make_entries(cell.of_text(), None, None)
    return column


def _make_entries(cell: Cell, keys: FieldSchema | None, values: FieldSchema | None) -> EntriesColumn:
    data_type = cell.data_type
    assert isinstance(data_type, MapType)
    key = _make_column(cell.part("key", data_type.keyType, keys))
    value = _make_column(cell.part("value", data_type.valueType, values))
    return EntriesColumn(cell.path, find_arrow_type(data_type), key, value, data_type.valueContainsNull)


def _make_struct(cell: Cell) -> Column:
    assert isinstance(cell.data_type, StructType)
    members = [StructMember(field.name, _make_member(cell, field), True) for field in cell.data_type.fields]
    return _Image(cell.path, find_arrow_type(cell.data_type), members, dict)


def _make_member(cell: Cell, field: StructField) -> Column:
    schema = cell.schema
    if schema is not None:
        schema = schema.element if schema.kind == "map" else schema.fields.get(field.name)
    return _make_column(cell.part(field.name, field.dataType, schema))


_BUILDERS: Mapping[Target, Callable[[Cell], Column]] = MappingProxyType(
    {
        Target.BOOLEAN: make_flag_column,
        Target.WHOLE: make_whole_column,
        Target.FLOATING: make_floating_column,
        Target.DECIMAL: make_decimal_column,
        Target.STRING: make_string_column,
        Target.BINARY: make_binary_column,
        Target.DATE: make_date_column,
        Target.TIMESTAMP: make_timestamp_column,
        Target.TIME: make_clock_column,
        Target.ARRAY: _make_array,
        Target.MAP: _make_map,
        Target.STRUCT: _make_struct,
        Target.VARIANT: make_variant_column,
    }
)
