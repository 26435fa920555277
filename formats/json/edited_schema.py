"""Edits the properties of a JSON Schema, so that readers of the new schema read events of the old one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.errors import UnsupportedOperationError

from ..core.edited_columns import ELEMENT, REVISION, VALUE, EditedColumn
from ..core.schema_texts import SPARK_METADATA, split_comment
from ..core.spark_visitor import child_path
from .defaults import json_defaults
from .portable_schema import full_schema, portable
from .spark_to_schema import SPARK_CONTAINS_NULL, spark_to_json_schema
from .timestamps import ISO


def edited_json(text: str, columns: Sequence[EditedColumn], revision: int | None, timestamps: str) -> str:
    """Return the schema with these columns as its properties; one that stays keeps all that is said of it."""
    root = full_schema(json.loads(text))
    if not isinstance(root, dict) or not isinstance(root.get("properties"), dict):
        raise UnsupportedOperationError("Its JSON schema has no properties that could be changed.")
    root = _object(root, columns, timestamps, "")
    if revision is not None:
        root[REVISION] = revision
    return portable(json.dumps(root, ensure_ascii=False))


def _object(node: dict[str, Any], columns: Sequence[EditedColumn], timestamps: str, path: str) -> dict[str, Any]:
    old, new = node["properties"], {}
    for column in columns:
        here = child_path(path, column.source or column.field.name)
        if column.source not in (None, column.field.name):
            raise UnsupportedOperationError(
                f"Column {here} cannot be renamed: a column of JSON events is the property of its name, and "
                "events that were written before would have none of the new name. Select it under another name."
            )
        new[column.field.name] = _property(column, old.get(column.source), timestamps, here)
    edited = {key: value for key, value in node.items() if key != "required"} | {"properties": new}
    required = [each.field.name for each in columns if not each.field.nullable]
    return edited | {"required": required} if required else edited  # draft 4 does not allow an empty list


def _property(column: EditedColumn, node: Any, timestamps: str, path: str) -> Any:
    """Return the property of a column; `node` is what it was until now."""
    if column.source is None:
        return _fresh(column, timestamps)
    node = _value(column, node, timestamps, path)
    if not isinstance(node, dict):
        return node
    comment, metadata = split_comment(column.field.metadata)
    said = ({} if comment is None else {"description": comment}) | ({SPARK_METADATA: metadata} if metadata else {})
    return {key: value for key, value in node.items() if key not in ("description", SPARK_METADATA)} | said


def _value(column: EditedColumn, node: Any, timestamps: str, path: str) -> Any:
    """Return what a schema says of the values of a column, or of the elements or values of one."""
    if column.retyped:
        default = {"default": node["default"]} if isinstance(node, dict) and "default" in node else {}
        return _fresh(column, timestamps) | default
    if column.parts is not None:
        node = _container(column, column.parts, node, timestamps, path)
    if column.relaxed and isinstance(node, dict) and "type" in node:
        kinds = node["type"] if isinstance(node["type"], list) else [node["type"]]
        return node | {"type": kinds if "null" in kinds else [*kinds, "null"]}
    return node


def _container(
    column: EditedColumn, parts: Sequence[EditedColumn], node: Any, timestamps: str, path: str
) -> dict[str, Any]:
    if isinstance(node, dict) and isinstance(column.field.dataType, StructType):
        if isinstance(node.get("properties"), dict):
            return _object(node, parts, timestamps, path)
    elif isinstance(node, dict):
        inner, name = ("items", ELEMENT) if "items" in node else ("additionalProperties", VALUE)
        if isinstance(node.get(inner), dict):
            edited = node | {inner: _value(parts[-1], node[inner], timestamps, child_path(path, name))}
            if parts[-1].relaxed:
                edited.pop(SPARK_CONTAINS_NULL, None)
            return edited
    raise UnsupportedOperationError(
        f"Column {path} is one of several types, or of one that the schema describes elsewhere, in a schema made by "
        "another program, and so nothing in it can be changed here."
    )


def _fresh(column: EditedColumn, timestamps: str) -> dict[str, Any]:
    defaults = json_defaults([column.field], timestamps)
    text = spark_to_json_schema(StructType([column.field]), epoch_timestamps=timestamps != ISO, defaults=defaults)
    found: dict[str, Any] = json.loads(text)["properties"][column.field.name]
    return found
