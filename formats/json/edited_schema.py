"""Edits the properties of a JSON Schema, so that readers of the new schema read events of the old one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import UnsupportedOperationError, UnsupportedTypeError

from ..core.arrow_types import find_arrow_type
from ..core.defaults import read_initial_value
from ..core.edited_columns import REVISION, EditedColumn
from ..core.format import Layout, Settings
from ..core.spark_types import ELEMENT, SPARK_TYPE, VALUE, replace_description
from ..core.spark_visitor import join_path
from .schemas.schema_references import make_foreign_portable, make_portable, read_full_schema
from .schemas.schema_to_spark import convert_json_schema_to_spark
from .schemas.spark_to_schema import SPARK_COLUMNS, SPARK_CONTAINS_NULL, convert_spark_to_json_schema
from .timestamps import ISO, read_timestamp_format
from .writing import JsonEncoder


def write_json_defaults(columns: Iterable[StructField], settings: Settings) -> dict[str, Any]:
    """Return columns' defaults by name, without nulls. Raises UnsupportedTypeError if a JSON schema cannot hold one."""
    return {
        field.name: _write_default(field, value, settings)
        for field in columns
        if (value := read_initial_value(field)) is not None
    }


def _write_default(field: StructField, value: Any, settings: Settings) -> Any:
    column = StructType([StructField(field.name, field.dataType, field.nullable)])
    batch = pa.RecordBatch.from_arrays([pa.array([value], find_arrow_type(field.dataType))], [field.name])
    [document] = JsonEncoder(Layout(column, settings=settings)).encode(batch).to_pylist()
    written = json.loads(document)[field.name]
    if isinstance(value, Decimal) and Decimal(repr(written)) != value:
        raise UnsupportedTypeError(
            f"column '{field.name}' cannot have the default {value}: a number in a JSON schema has about 15 digits. "
            "Choose 'format'='avro', or leave DEFAULT out"
        )
    return written


_PARTS = ("$ref", "allOf", "extends", "anyOf", "oneOf")
"""Keywords that add other parts to an object."""

_TYPES = frozenset({"type", "format", "contentEncoding", SPARK_TYPE})


def edit_json(text: str, columns: Sequence[EditedColumn], revision: int | None, settings: Settings) -> str:
    """Return the schema with these columns as its properties. A property that stays keeps all its keywords."""
    old = json.loads(text)
    root = read_full_schema(old)
    if not isinstance(root, dict) or not isinstance(root.get("properties"), dict):
        raise UnsupportedOperationError("Its JSON schema has no properties that could be changed.")
    ours = json.loads(make_portable(json.dumps(root))) == old
    if any(key in root for key in _PARTS):
        _check_other_parts(root["properties"], convert_json_schema_to_spark(text), columns)
    root = _edit_object(root, columns, settings, "")
    if revision is not None:
        root[REVISION] = revision
    edited = json.dumps(root, ensure_ascii=False)
    return make_portable(edited) if ours else make_foreign_portable(edited)


def _check_other_parts(own: dict[str, Any], before: StructType, columns: Sequence[EditedColumn]) -> None:
    """Refuse to change or drop a column that is not a property of the root itself."""
    kept = {column.source: column for column in columns}
    for field in before:
        if field.name in own:
            continue
        column = kept.get(field.name)
        if column is None or column.changed or column.field != field:
            raise UnsupportedOperationError(_explain_elsewhere(field.name))


def _edit_object(
    node: dict[str, Any], columns: Sequence[EditedColumn], settings: Settings, path: str
) -> dict[str, Any]:
    old, new = node["properties"], {}
    has_parts = any(key in node for key in _PARTS)
    for column in columns:
        here = join_path(path, column.source or column.field.name)
        if column.source not in (None, column.field.name):
            raise UnsupportedOperationError(
                f"Column {here} cannot be renamed: a column of JSON events is the property of its name, and events "
                "that were written before have no property of the new name. Select it under another name."
            )
        if column.source is not None and column.source not in old:
            continue  # it stays where it is
        new[column.field.name] = _edit_property(column, old.get(column.source), settings, here)
    edited = {key: value for key, value in node.items() if key != "required"} | {"properties": new}
    required = [column.field.name for column in columns if column.field.name in new and not column.field.nullable]
    if has_parts:
        others = node.get("required")
        required += [name for name in others if name not in old] if isinstance(others, list) else []
        edited[SPARK_COLUMNS] = [column.field.name for column in columns]
    return edited | {"required": required} if required else edited  # draft 4 does not allow an empty list


def _edit_property(column: EditedColumn, node: Any, settings: Settings, path: str) -> Any:
    """Return the property of a column; `node` is its property so far."""
    if column.source is None:
        return _make_property(column, settings)
    node = _edit_value(column, node, settings, path)
    if not isinstance(node, dict):
        return node
    return replace_description(node, column.field.metadata, "description")


def _edit_value(column: EditedColumn, node: Any, settings: Settings, path: str) -> Any:
    """Return the schema of the values of a column, or of its elements or values."""
    if column.retyped:
        if isinstance(node, dict) and any(key in node for key in _PARTS):
            raise UnsupportedOperationError(_explain_elsewhere(path))
        kept = {key: said for key, said in node.items() if key not in _TYPES} if isinstance(node, dict) else {}
        return kept | _make_property(column, settings) | {key: kept[key] for key in ("default",) if key in kept}
    if column.parts is not None:
        node = _edit_container(column, column.parts, node, settings, path)
    if column.relaxed and isinstance(node, dict) and "type" in node:
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        return node | {"type": kinds if "null" in kinds else [*kinds, "null"]}
    return node


def _edit_container(
    column: EditedColumn, parts: Sequence[EditedColumn], node: Any, settings: Settings, path: str
) -> dict[str, Any]:
    if isinstance(node, dict) and isinstance(column.field.dataType, StructType):
        if isinstance(node.get("properties"), dict) and not any(key in node for key in _PARTS):
            return _edit_object(node, parts, settings, path)
    elif isinstance(node, dict):
        inner, name = ("items", ELEMENT) if "items" in node else ("additionalProperties", VALUE)
        if isinstance(node.get(inner), dict):
            edited = node | {inner: _edit_value(parts[-1], node[inner], settings, join_path(path, name))}
            if parts[-1].relaxed:
                edited.pop(SPARK_CONTAINS_NULL, None)
            return edited
    raise UnsupportedOperationError(_explain_elsewhere(path))


def _explain_elsewhere(path: str) -> str:
    return (
        f"Column {path} has several types, or a type that the schema describes elsewhere (allOf, $ref), in a schema "
        "made by another program, so nothing in it can be changed here."
    )


def _make_property(column: EditedColumn, settings: Settings) -> dict[str, Any]:
    defaults = write_json_defaults([column.field], settings)
    text = convert_spark_to_json_schema(
        StructType([column.field]), epoch_timestamps=read_timestamp_format(settings) != ISO, defaults=defaults
    )
    property: dict[str, Any] = json.loads(text)["properties"][column.field.name]
    return property
