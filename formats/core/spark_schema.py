"""Spark schemas as JSON, and how deep their types may be nested."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.errors import UnsupportedTypeError

DEEPEST = 60
"""Levels of structs, arrays and maps inside one another; a map counts as two, because it is a list of structs to Arrow.

Arrow's IPC, by which Spark and its Python workers exchange rows, takes 64; a changelog has the columns one level down.
"""


def spark_schema_of(text: str) -> StructType:
    """Return the schema that Spark wrote as JSON. Raises UnsupportedTypeError for a column nested more than DEEPEST."""
    try:
        schema = json.loads(text)
    except RecursionError:
        raise _too_deep("a column") from None
    for column in schema["fields"]:
        _check_depth(f"column '{column['name']}'", column["type"])
    return StructType.fromJson(schema)


def _check_depth(column: str, data_type: Any) -> None:
    level = [data_type]
    for _ in range(DEEPEST + 1):
        level = [inner for each in level if isinstance(each, dict) for inner in _inner(each)]
        if not level:
            return
    raise _too_deep(column)


def _inner(data_type: dict[str, Any]) -> list[Any]:
    fields = [field["type"] for field in data_type.get("fields", ())]
    if "valueType" in data_type:
        return [{"fields": [{"type": data_type["keyType"]}, {"type": data_type["valueType"]}]}]
    return fields + ([data_type["elementType"]] if "elementType" in data_type else [])


def _too_deep(column: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"{column} has a type nested more than {DEEPEST} levels deep (a map counts as two). Flatten it, or store it as "
        "a STRING of JSON (to_json)."
    )
