"""Maps Kafka Connect's schemas to Spark types: the columns of a table whose DDL declares none.

| Connect | Spark |
|---|---|
| boolean; int8, int16, int32, int64 | boolean; tinyint, smallint, int, bigint |
| float, double | float, double |
| string, enumerations, JSON, UUID, ... | string |
| bytes, Bits | binary |
| Decimal with a precision up to 38 | decimal(p, s) |
| Decimal without one, VariableScaleDecimal | string, all digits |
| Date | date |
| Timestamp, MicroTimestamp, NanoTimestamp | timestamp_ntz |
| ZonedTimestamp | timestamp |
| Time, MicroTime, NanoTime | string, ISO 8601 |
| array, map, struct | array, map, struct |
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...avro.schema_to_spark import PRIMITIVES
from ...core.spark_names import valid_decimal
from .kafka_connect_schema import (
    DATE_UNITS,
    DECIMAL,
    TIME_OF_DAY_UNITS,
    TIMESTAMP_UNITS,
    VARIABLE_SCALE_DECIMAL,
    FieldSchema,
)

_ZONED = ("io.debezium.time.ZonedTimestamp",)
_KINDS: dict[str, DataType] = PRIMITIVES | {
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": PRIMITIVES["int"],
    "int64": PRIMITIVES["long"],
    "float32": PRIMITIVES["float"],
    "float64": PRIMITIVES["double"],
}
"""Connect's names, and Avro's for schemas that came as Avro."""


def columns_of(image: FieldSchema) -> StructType:
    """Return the columns of a row with this schema, all nullable."""
    return StructType([StructField(name, _type(each)) for name, each in image.fields.items()])


def _type(schema: FieldSchema) -> DataType:
    if schema.name == DECIMAL:
        exact = schema.precision > 0 and valid_decimal(schema.precision, schema.scale)
        return DecimalType(schema.precision, schema.scale) if exact else StringType()
    if schema.name == VARIABLE_SCALE_DECIMAL or schema.name in TIME_OF_DAY_UNITS:
        return StringType()
    if schema.name in DATE_UNITS:
        return DateType()
    if schema.name in TIMESTAMP_UNITS:
        return TimestampNTZType()
    if schema.name in _ZONED:
        return TimestampType()
    if schema.kind == "array":
        return ArrayType(StringType() if schema.element is None else _type(schema.element))
    if schema.kind == "map":
        return MapType(StringType(), StringType() if schema.element is None else _type(schema.element))
    if schema.kind == "struct" and schema.fields:
        return columns_of(schema)
    return _KINDS.get(schema.kind, StringType())
