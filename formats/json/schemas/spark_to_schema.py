"""Maps Spark types to a JSON Schema text (draft 7).

| Spark | JSON Schema | value |
|---|---|---|
| boolean | boolean | true, false |
| tinyint, smallint, int, bigint | integer | 5 |
| float, double | number | 0.1; "NaN", "Infinity", "-Infinity" as strings |
| decimal(p, s) | number | 12.50, all digits |
| string, char(n), varchar(n), collated | string | "text" |
| binary | string, contentEncoding base64 | "AAEC" |
| date | string, format date | "2024-01-31" |
| timestamp | string, format date-time | "2024-01-31T12:00:00.000000Z" |
| time(p) | string | "12:34:56.789", with no digits, 3 or 6 |
| timestamp_ntz | string | "2024-01-31T12:00:00.000000" |
| timestamp, timestamp_ntz by `json.timestamp-format` | number | 1706702400, 1706702400.5 |
| time(p) by `json.timestamp-format` | number since midnight | 45296, 45296.789 |
| variant | any type | {"any": ["value"]} |
| array | array | [1, 2] |
| map<string, v> | object with additionalProperties | {"key": 1} |
| struct | object with properties | {"field": 1} |

"spark.type" names the exact type. A NOT NULL column is "required"; a nullable one allows "null" too. Lists
and maps whose elements are NOT NULL say so by "spark.containsNull". A comment is the "description", other
metadata of a column is kept in "spark.metadata". A column's "default" has the form of its values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyspark.sql.types as T

from ...core.defaults import drop_initial_value
from ...core.spark_types import FLOATING_POINT, SPARK_MAP, SPARK_TYPE, WHOLE_NUMBERS, describe_column, is_valid_decimal
from ...core.spark_visitor import SparkTypeVisitor, explain_unsupported
from ...core.times_of_day import is_time_of_day

SPARK_CONTAINS_NULL = "spark.containsNull"

SPARK_COLUMNS = "spark.columns"
"""The order of an object's columns, where its properties are in several parts of a schema that was edited here."""

PRIMITIVES: dict[type[T.DataType], dict[str, Any]] = {
    T.BooleanType: {"type": "boolean"},
    **{kind: {"type": "integer"} for kind in WHOLE_NUMBERS},
    **{kind: {"type": "number"} for kind in FLOATING_POINT},
    T.BinaryType: {"type": "string", "contentEncoding": "base64"},
    T.DateType: {"type": "string", "format": "date"},
    T.TimestampType: {"type": "string", "format": "date-time"},
    **{kind: {"type": "string"} for kind in (T.TimestampNTZType, T.TimeType, T.StringType, T.CharType, T.VarcharType)},
    T.VariantType: {"type": ["array", "boolean", "number", "object", "string"]},
}
"""The schema of each type of plain values except decimals, without "spark.type"."""

NUMBERS_TOO = (T.DecimalType, T.TimestampType, T.TimestampNTZType, T.TimeType)
"""Types that are, or can be, written as a number."""


def convert_spark_to_json_schema(
    schema: T.StructType,
    comment: str | None = None,
    name: str | None = None,
    *,
    epoch_timestamps: bool = False,
    defaults: Mapping[str, Any] = MappingProxyType({}),
    any_keys: bool = False,
) -> str:
    """Return the JSON Schema of a table. `convert_json_schema_to_spark` gives back exactly the same columns.

    `name` becomes the "title". With `epoch_timestamps` timestamps are numbers. `defaults` are those of columns, in
    documents' form. With `any_keys` map keys may be of any type. Raises UnsupportedTypeError naming the column's path.
    """
    head: dict[str, Any] = {"$schema": "http://json-schema.org/draft-07/schema#"}
    if name is not None:
        head["title"] = name
    if comment is not None:
        head["description"] = comment
    visitor = _SparkToJsonSchema(epoch_timestamps)
    visitor.any_keys = any_keys
    root = visitor.visit(schema)
    for column, value in defaults.items():
        root["properties"][column]["default"] = value
    return json.dumps(head | root, ensure_ascii=False)


class _SparkToJsonSchema(SparkTypeVisitor[dict[str, Any]]):
    format_name = "json"

    def __init__(self, epoch_timestamps: bool) -> None:
        self._epoch_timestamps = epoch_timestamps

    def struct(
        self, struct: T.StructType, path: str, members: list[tuple[T.StructField, dict[str, Any]]]
    ) -> dict[str, Any]:
        properties = {}
        for field, node in members:
            description = describe_column(drop_initial_value(field.metadata or {}), "description")
            properties[field.name] = _make_nullable(node, field.nullable) | description
        result: dict[str, Any] = {"type": "object", "properties": properties}
        # Draft 4 does not allow an empty list.
        if required := [field.name for field, _ in members if not field.nullable]:
            result["required"] = required
        return result

    def array(self, array: T.ArrayType, path: str, element: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {"type": "array", "items": _make_nullable(element, array.containsNull)}
        return result if array.containsNull else result | {SPARK_CONTAINS_NULL: False}

    def map(self, map_type: T.MapType, path: str, value: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {
            "type": "object",
            "additionalProperties": _make_nullable(value, map_type.valueContainsNull),
        }
        return result if map_type.valueContainsNull else result | {SPARK_CONTAINS_NULL: False}

    def entries(self, map_type: T.MapType, path: str, key: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        # As Kafka Connect's converter writes them: arrays of key and value.
        return {"type": "array", "items": {"type": "array"}, SPARK_MAP: map_type.jsonValue()}

    def primitive(self, data_type: T.DataType, path: str) -> dict[str, Any]:
        schema = PRIMITIVES.get(type(data_type))
        if isinstance(data_type, T.DecimalType) and is_valid_decimal(data_type.precision, data_type.scale):
            schema = {"type": "number"}
        if self._epoch_timestamps and isinstance(data_type, (T.TimestampType, T.TimestampNTZType, T.TimeType)):
            schema = {"type": "number"}
        if isinstance(data_type, T.TimeType) and not is_time_of_day(data_type):
            schema = None
        if schema is None:
            self.refuse(data_type, path, explain_unsupported(data_type))
        return schema | {SPARK_TYPE: data_type.simpleString()}


def _make_nullable(node: dict[str, Any], nullable: bool) -> dict[str, Any]:
    types = node["type"] if isinstance(node["type"], list) else [node["type"]]
    return node | {"type": [*types, "null"]} if nullable else dict(node)
