"""Edits the properties of a JSON Schema, so that readers of the new schema read events of the old one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.errors import UnsupportedOperationError

from ..core.edited_columns import REVISION, EditedColumn
from ..core.schema_texts import SPARK_METADATA, split_comment
from .defaults import json_defaults
from .portable_schema import full_schema, portable
from .spark_to_schema import spark_to_json_schema
from .timestamps import ISO


def edited_json(text: str, columns: Sequence[EditedColumn], revision: int | None, timestamps: str) -> str:
    """Return the schema with these columns as its properties; one that stays keeps all that is said of it."""
    root = full_schema(json.loads(text))
    if not isinstance(root, dict) or not isinstance(root.get("properties"), dict):
        raise UnsupportedOperationError("Its JSON schema has no properties that could be changed.")
    for column in columns:
        if column.source not in (None, column.field.name):
            raise UnsupportedOperationError(
                f"Column {column.source} cannot be renamed: a column of JSON events is the property of its name, and "
                "events that were written before would have none of the new name. Select it under another name."
            )
    old = root["properties"]
    root["properties"] = {each.field.name: _property(each, old, timestamps) for each in columns}
    required = [each.field.name for each in columns if not each.field.nullable]
    root.pop("required", None)
    if required:  # draft 4 does not allow an empty list
        root["required"] = required
    if revision is not None:
        root[REVISION] = revision
    return portable(json.dumps(root, ensure_ascii=False))


def _property(column: EditedColumn, old: dict[str, Any], timestamps: str) -> Any:
    comment, metadata = split_comment(column.field.metadata)
    if column.source is not None and not column.retyped:
        node = old[column.source]
        if not isinstance(node, dict):
            return node
        said = ({} if comment is None else {"description": comment}) | ({SPARK_METADATA: metadata} if metadata else {})
        return {key: value for key, value in node.items() if key not in ("description", SPARK_METADATA)} | said
    defaults = json_defaults([column.field], timestamps)
    if column.source is not None and isinstance(node := old[column.source], dict) and "default" in node:
        defaults[column.field.name] = node["default"]
    fresh = json.loads(
        spark_to_json_schema(StructType([column.field]), epoch_timestamps=timestamps != ISO, defaults=defaults)
    )
    return fresh["properties"][column.field.name]
