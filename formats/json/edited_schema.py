"""Edits the properties of a JSON Schema, so that readers of the new schema read events of the old one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.errors import UnsupportedOperationError

from ..core.edited_columns import REVISION, EditedColumn
from ..core.schema_texts import split_comment
from .portable_schema import full_schema, portable
from .spark_to_schema import spark_to_json_schema


def edited_json(text: str, columns: Sequence[EditedColumn], revision: int | None, *, epoch_timestamps: bool) -> str:
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
    root["properties"] = {each.field.name: _property(each, old, epoch_timestamps) for each in columns}
    required = [each.field.name for each in columns if not each.field.nullable]
    root.pop("required", None)
    if required:  # draft 4 does not allow an empty list
        root["required"] = required
    if revision is not None:
        root[REVISION] = revision
    return portable(json.dumps(root, ensure_ascii=False))


def _property(column: EditedColumn, old: dict[str, Any], epoch_timestamps: bool) -> Any:
    comment, _ = split_comment(column.field.metadata)
    if column.source is not None and not column.retyped:
        node = old[column.source]
        if not isinstance(node, dict):
            return node
        rest = {key: value for key, value in node.items() if key != "description"}
        return rest if comment is None else rest | {"description": comment}
    fresh = json.loads(spark_to_json_schema(StructType([column.field]), epoch_timestamps=epoch_timestamps))
    return fresh["properties"][column.field.name]
