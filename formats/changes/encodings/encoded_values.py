"""Builds columns from Debezium's values, as the `matrix` says for the event's type and the column's type.

Values of Avro have the form of JSON values, except that bytes are `bytes`. Kafka Connect's JSON converter writes a map
whose keys are not strings as an array of arrays of key and value, Confluent's Avro converter as an array of records
with the fields `key` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from ...core import columns
from ...core.arrow_types import find_arrow_type, restore_order
from ...core.columns import Column, Problems, Rows
from ...core.spark_visitor import join_path
from .kafka_connect_schema import FieldSchema
from .matrix import Reading, Target, explain_refusal
from .numbers import make_decimal_column, make_flag_column, make_floating_column, make_whole_column
from .settings import Cell, Rules
from .texts import make_binary_column, make_string_column, make_variant_column
from .times import make_clock_column, make_date_column, make_timestamp_column

_Entries = list[tuple[Any, Any]]
_ENTRY = {"key", "value"}


def make_image_column(struct: StructType, path: str, schema: FieldSchema | None, rules: Rules) -> columns.StructColumn:
    """Return the column of a row's images. Units of time are looked up by the names of the row's columns."""
    fields = schema.fields if schema is not None else {}
    members = []
    for field in struct.fields:
        declared = rules.unit_by_column.get(field.name)
        cell = Cell(field.dataType, join_path(path, field.name), fields.get(field.name), rules, declared)
        members.append(columns.StructMember(field.name, _make_column(cell), True))
    return columns.StructColumn(path, find_arrow_type(struct), members, dict)


def _make_column(cell: Cell) -> Column:
    build = _BUILDERS[cell.target]
    if cell.reading is None:
        return cell.refuse()
    column = build(cell)
    if type(column) is columns.Leaf and cell.schema is not None:
        column.about = f" ({cell.describe_types()})"
    return column


def _make_array(cell: Cell) -> Column:
    assert isinstance(cell.data_type, ArrayType)
    element = cell.part("element", cell.data_type.elementType, cell.schema.element if cell.schema else None)
    return columns.ListColumn(
        cell.path, find_arrow_type(cell.data_type), _make_column(element), cell.data_type.containsNull
    )


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


def _make_entries(cell: Cell, keys: FieldSchema | None, values: FieldSchema | None) -> _EntriesColumn:
    data_type = cell.data_type
    assert isinstance(data_type, MapType)
    key = _make_column(cell.part("key", data_type.keyType, keys))
    value = _make_column(cell.part("value", data_type.valueType, values))
    return _EntriesColumn(cell.path, find_arrow_type(data_type), key, value, data_type.valueContainsNull)


def _make_struct(cell: Cell) -> Column:
    assert isinstance(cell.data_type, StructType)
    members = [columns.StructMember(field.name, _make_member(cell, field), True) for field in cell.data_type.fields]
    return columns.StructColumn(cell.path, find_arrow_type(cell.data_type), members, dict)


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


class _EntriesColumn(columns.MapColumn):
    """Builds a map from an object, a text of an object, or entries.

    A key that occurs twice counts once, with its last value, as when Kafka Connect reads the map. Keys that differ in
    the event but are equal in the column make the event bad, because either value may be meant.
    """

    of_text: _EntriesColumn | None = None
    """The column that builds maps of texts, if their values are read differently."""

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        texts = np.fromiter((type(value) is str for value in values), np.bool_, len(values))
        if self.of_text is None or not texts.any():
            return self._build_maps(values, rows, problems)
        parts, positions = [], [np.flatnonzero(~texts), np.flatnonzero(texts)]
        for column, here in zip((self, self.of_text), positions, strict=True):
            parts.append([column._build_maps([values[number] for number in here.tolist()], rows[here], problems)])
        return restore_order(parts, positions)[0]

    def _build_maps(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        values = [_parse_object(value) for value in values]
        if pa.types.is_string(self.type.key_type) and not any(type(value) is list for value in values):
            return super().build(values, rows, problems)
        maps: list[_Entries | None] = self.convert_each(_list_entries, values, rows, problems)
        keys, owners = self._keys(maps, rows, problems)
        kept = self._drop_twins(maps, keys.to_pylist(), rows, problems)
        if kept != maps:
            maps = kept
            keys, owners = self._keys(maps, rows, problems)
        items = [value for entries in maps if entries for _, value in entries]
        values = self.value.build_required(items, owners, problems, nullable=self.value_nullable)
        return pa.MapArray.from_arrays(
            columns.make_list_offsets(maps, _count_entries(maps)), keys, values, type=self.type
        )

    def _keys(self, maps: Sequence[_Entries | None], rows: Rows, problems: Problems) -> tuple[pa.Array, Rows]:
        owners = np.repeat(rows, _count_entries(maps))
        return self.key.build([key for entries in maps if entries for key, _ in entries], owners, problems), owners

    def _drop_twins(
        self, maps: Sequence[_Entries | None], keys: list[Any], rows: Rows, problems: Problems
    ) -> list[_Entries | None]:
        """Return the maps with each key once; None for a map with a null key or keys that become equal."""
        kept: list[_Entries | None] = []
        begin = 0
        for entries, row in zip(maps, rows, strict=True):
            if entries is None:
                kept.append(None)
                continue
            own = keys[begin : begin + len(entries)]
            begin += len(entries)
            last: dict[str, tuple[Any, Any]] = {}
            reason = "a map has a key that is null" if None in own else ""
            for key, entry in zip(own, entries, strict=True):
                twin = last.get(repr(key))
                if twin is not None and twin[0] != entry[0]:
                    reason = f"the keys {twin[0]!r:.40} and {entry[0]!r:.40} of a map are one key in the column"
                last[repr(key)] = entry
            if reason:
                self.note_misfit(row, reason, problems)
            kept.append(None if reason else list(last.values()))
        return kept


def _count_entries(maps: Sequence[_Entries | None]) -> Rows:
    return np.fromiter((0 if entries is None else len(entries) for entries in maps), np.int64, len(maps))


def _list_entries(value: Any) -> _Entries:
    """Return the entries of an object, of an array of arrays, or of an array of records. Raises Misfit."""
    if type(value) is dict:
        return list(value.items())
    if type(value) is not list:
        raise columns.Misfit(f"expected an object or an array of entries, found {columns.describe_kind(value)}")
    entries = []
    for entry in value:
        if type(entry) is list and len(entry) == 2:
            entries.append((entry[0], entry[1]))
        elif type(entry) is dict and entry.keys() == _ENTRY:
            entries.append((entry["key"], entry["value"]))
        else:
            raise columns.Misfit(
                f"expected an array of a key and a value as the entry of a map, found {columns.describe_kind(entry)}"
            )
    return entries


def _parse_object(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        parsed = json.loads(value, parse_float=str.encode)  # as NumberText, with all digits
    except (ValueError, RecursionError):
        return value  # refused later
    return parsed if type(parsed) is dict else value
