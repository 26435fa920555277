"""Edits the fields of an Avro record, so that readers of the new schema read events of the old one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructField

from pyspark_pravega.errors import UnsupportedOperationError

from ..core.edited_columns import REVISION, EditedColumn
from ..core.schema_texts import SPARK_METADATA, split_comment
from .spark_to_schema import spark_field_to_avro, with_avro_default


def edited_avro(text: str, columns: Sequence[EditedColumn], revision: int | None) -> str:
    """Return the schema with these columns as its fields.

    A field that stays keeps all that is said of it. A renamed one has its old name as an alias, by which readers find
    it in old events.
    """
    record = json.loads(text)
    if not isinstance(record, dict) or record.get("type") != "record":
        raise UnsupportedOperationError("Its Avro schema is no record, and so has no columns that could be changed.")
    old = {field["name"]: field for field in record["fields"]}
    full_name = record["name"]
    if "." not in full_name and record.get("namespace"):
        full_name = f"{record['namespace']}.{full_name}"
    record["fields"] = [_field(each, old, full_name) for each in columns]
    if revision is not None:
        record[REVISION] = revision
    return json.dumps(record, ensure_ascii=False)


def _field(column: EditedColumn, old: dict[str, dict[str, Any]], full_name: str) -> dict[str, Any]:
    fresh = spark_field_to_avro(column.field, full_name)
    if column.source is None:
        return fresh
    before = old[column.source]
    field = fresh | {key: before[key] for key in ("aliases", "order") if key in before} if column.retyped else before
    if column.retyped and before.get("default") is not None:
        field = with_avro_default(field, before["default"])
    aliases = [] if column.source == column.field.name else [column.source]
    aliases = [*field.get("aliases", []), *aliases]
    field = field | {"name": column.field.name} | ({"aliases": aliases} if aliases else {})
    return _described(field, column.field)


def _described(field: dict[str, Any], column: StructField) -> dict[str, Any]:
    comment, metadata = split_comment(column.metadata)
    said = ({} if comment is None else {"doc": comment}) | ({SPARK_METADATA: metadata} if metadata else {})
    return {key: value for key, value in field.items() if key not in ("doc", SPARK_METADATA)} | said
