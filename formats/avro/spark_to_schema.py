"""Maps Spark types to an Avro schema text.

| Spark | Avro |
|---|---|
| boolean, int, bigint, float, double, binary | boolean, int, long, float, double, bytes |
| tinyint, smallint | int with "spark.type" |
| string; char(n), varchar(n), collated | string; with "spark.type" |
| decimal(p, s) | bytes, logical decimal |
| date | int date |
| time(p) | with "spark.type": int time-millis up to 3 digits, long time-micros up to 6 |
| timestamp, timestamp_ntz | long timestamp-micros, long local-timestamp-micros; -millis by `avro.timestamp` |
| array, map<string, v>, struct | array, map, record named after its path |

A nullable column is the union [null, T] with the default null, so that it may be added to a table or
dropped later; with another default it is [T, null], because a default belongs to the first type. A column's comment is
its "doc", other metadata is kept in "spark.metadata".
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidNameError

from ..core.defaults import EXACT, drop_initial_value, read_initial_value
from ..core.format import Settings
from ..core.spark_types import SPARK_MAP, SPARK_TYPE, describe_column, is_valid_decimal
from ..core.spark_visitor import SparkTypeVisitor, explain_unsupported, join_path
from ..core.times_of_day import UNITS, count_digits, is_time_of_day
from .schema_model import TIMES_OF_DAY, is_valid_name
from .schema_to_spark import PRIMITIVES

_PRIMITIVES: dict[type[T.DataType], Any] = {
    **{type(kind): name for name, kind in PRIMITIVES.items()},
    T.ByteType: {"type": "int", SPARK_TYPE: "tinyint"},
    T.ShortType: {"type": "int", SPARK_TYPE: "smallint"},
    T.DateType: {"type": "int", "logicalType": "date"},
}
_MILLIS_DIGITS = 3
_TIMESTAMPS: dict[type[T.DataType], str] = {T.TimestampType: "timestamp", T.TimestampNTZType: "local-timestamp"}

TIMESTAMP_UNIT = "avro.timestamp"
MICROS = "micros"


def read_timestamp_unit(settings: Settings) -> str:
    """Return the unit of timestamps in a table's own schema: "micros" or "millis"."""
    return settings.get(TIMESTAMP_UNIT, MICROS).lower()


def convert_spark_to_avro(
    schema: T.StructType,
    name: str,
    namespace: str,
    comment: str | None = None,
    *,
    timestamps: str = MICROS,
    any_keys: bool = False,
) -> str:
    """Return the Avro schema of a table as JSON text. `convert_avro_to_spark` gives back exactly the same columns.

    With `any_keys` maps may have keys that are not strings; their entries are records.

    `name` and `namespace` (stream and scope) may hold any characters: characters that Avro does not allow in
    names become `_`. `timestamps` is their unit, "micros" or "millis". Raises UnsupportedTypeError or
    InvalidNameError naming the column by its path.
    """
    record_name = _make_record_name(name)
    parts = [_make_record_name(part) for part in namespace.split(".") if part]
    full_name = ".".join([*parts, record_name])
    visitor = _SparkToAvro(full_name, timestamps)
    visitor.any_keys = any_keys
    record = visitor.visit(schema)
    if comment is not None:
        fields = record.pop("fields")
        record |= {"doc": comment, "fields": fields}
    return json.dumps(record, ensure_ascii=False)


def convert_field_to_avro(field: T.StructField, full_name: str, timestamps: str = MICROS) -> dict[str, Any]:
    """Return the field of a column in a record of this full name. Raises as `convert_spark_to_avro` does."""
    description: dict[str, Any] = _SparkToAvro(full_name, timestamps).visit(T.StructType([field]))["fields"][0]
    return description


def _make_record_name(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if is_valid_name(name) else "_" + name


class _SparkToAvro(SparkTypeVisitor[Any]):
    format_name = "avro"

    def __init__(self, full_name: str, timestamps: str) -> None:
        self._full_name = full_name
        self._timestamps = timestamps

    def struct(self, struct: T.StructType, path: str, members: list[tuple[T.StructField, Any]]) -> Any:
        # A nested record is named after its column, in the namespace of the record around it.
        full_name = f"{self._full_name}.{path}" if path else self._full_name
        namespace, _, name = full_name.rpartition(".")
        record: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            record["namespace"] = namespace
        return record | {"fields": [_make_field(field, path, avro_type) for field, avro_type in members]}

    def array(self, array: T.ArrayType, path: str, element: Any) -> Any:
        return {"type": "array", "items": _make_nullable(element, array.containsNull)}

    def map(self, map_type: T.MapType, path: str, value: Any) -> Any:
        return {"type": "map", "values": _make_nullable(value, map_type.valueContainsNull)}

    def entries(self, map_type: T.MapType, path: str, key: Any, value: Any) -> Any:
        # As Confluent's converter writes them.
        namespace, _, name = f"{self._full_name}.{path}.MapEntry".rpartition(".")
        fields = [
            {"name": "key", "type": key},
            {"name": "value", "type": _make_nullable(value, map_type.valueContainsNull)},
        ]
        entry = {"type": "record", "name": name, "namespace": namespace, "fields": fields}
        return {"type": "array", "items": entry | {"connect.internal.type": "MapEntry"}, SPARK_MAP: True}

    def primitive(self, data_type: T.DataType, path: str) -> Any:
        if isinstance(data_type, (T.StringType, T.CharType, T.VarcharType)):
            name = data_type.simpleString()
            return "string" if name == "string" else {"type": "string", SPARK_TYPE: name}
        primitive = _PRIMITIVES.get(type(data_type))
        if primitive is not None:
            return primitive
        if (logical := _TIMESTAMPS.get(type(data_type))) is not None:
            return {"type": "long", "logicalType": f"{logical}-{self._timestamps}"}
        if is_time_of_day(data_type):
            logical = "time-millis" if count_digits(data_type) <= _MILLIS_DIGITS else "time-micros"
            base, _ = TIMES_OF_DAY[logical]
            return {"type": base, "logicalType": logical, SPARK_TYPE: data_type.simpleString()}
        if isinstance(data_type, T.DecimalType) and is_valid_decimal(data_type.precision, data_type.scale):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": data_type.precision,
                "scale": data_type.scale,
            }
        self.refuse(data_type, path, explain_unsupported(data_type))


def _make_field(field: T.StructField, parent: str, avro_type: Any) -> dict[str, Any]:
    if not is_valid_name(field.name):
        raise InvalidNameError(
            f"column '{join_path(parent, field.name)}' cannot be a field of an Avro record: names are made of "
            "letters, digits and _ and do not begin with a digit; use format json, or give the column another "
            f"name (SELECT `{field.name}` AS {_make_record_name(field.name)})"
        )
    result: dict[str, Any] = {"name": field.name, "type": _make_nullable(avro_type, field.nullable)}
    if field.nullable:
        result["default"] = None
    default = read_initial_value(field)
    if default is not None:
        result = add_avro_default(result, _encode_default(default, field.dataType))
    return result | describe_column(drop_initial_value(field.metadata or {}), "doc")


def add_avro_default(field: dict[str, Any], default: Any) -> dict[str, Any]:
    """Return a field with a default that is not null, as JSON."""
    avro_type = field["type"]
    if isinstance(avro_type, list) and avro_type[0] == "null":
        avro_type = [*avro_type[1:], "null"]
    return field | {"type": avro_type, "default": default}


def _encode_default(value: Any, data_type: T.DataType) -> Any:
    if is_time_of_day(data_type):
        return value // UNITS["ms" if count_digits(data_type) <= _MILLIS_DIGITS else "us"]
    if isinstance(value, Decimal):
        unscaled = int(value.scaleb(-int(value.as_tuple().exponent), EXACT))
        value = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _make_nullable(avro_type: Any, nullable: bool) -> Any:
    return ["null", avro_type] if nullable else avro_type
