"""Maps Kafka Connect's schemas to Spark types: the columns of a table whose DDL declares none.

| Connect | Spark |
|---|---|
| boolean; int8, int16, int32, int64 | boolean; tinyint, smallint, int, bigint |
| float32, float64 | float, double |
| string, enumerations, JSON, UUID, intervals, ... | string |
| bytes, Bits | binary |
| Decimal with a precision up to 38 | decimal(p, s) |
| Decimal without one, VariableScaleDecimal | string, all digits |
| Date, IsoDate | date |
| Timestamp, MicroTimestamp, NanoTimestamp, IsoTimestamp | timestamp_ntz |
| ZonedTimestamp | timestamp |
| Time, MicroTime, NanoTime, ZonedTime, IsoTime | string, ISO 8601 |
| Year; MicroDuration, NanoDuration | as their numbers: int; bigint, of Oracle double |
| array, map with any keys, struct | array, map, struct |

`matrix` reads all of these.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ...core.spark_names import valid_decimal
from .kafka_connect_schema import FieldSchema
from .semantic_types import Semantic, semantic_of

_KINDS: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float32": FloatType(),
    "float64": DoubleType(),
    "bytes": BinaryType(),
}
_BY_KIND = (Semantic.BOOLEAN, Semantic.INTEGER, Semantic.FLOAT, Semantic.BYTES, Semantic.YEAR, Semantic.DURATION)
_SEMANTIC: dict[Semantic, DataType] = {
    Semantic.DATE: DateType(),
    Semantic.ISO_DATE: DateType(),
    Semantic.TIMESTAMP: TimestampNTZType(),
}
_WITH_OFFSET = "io.debezium.time.ZonedTimestamp"


def columns_of(image: FieldSchema) -> StructType:
    """Return the columns of a row with this schema, all nullable."""
    return StructType([StructField(name, type_of(each)) for name, each in image.fields.items()])


def type_of(schema: FieldSchema | None) -> DataType:
    """Return the type that a column with this schema has by default; a string, which takes all, for what has none."""
    semantic = semantic_of(schema)
    if schema is None:
        return StringType()
    if semantic is Semantic.DECIMAL:
        exact = schema.precision > 0 and valid_decimal(schema.precision, schema.scale)
        return DecimalType(schema.precision, schema.scale) if exact else StringType()
    if semantic is Semantic.ISO_TIMESTAMP:
        return TimestampType() if schema.name == _WITH_OFFSET else TimestampNTZType()
    if semantic is Semantic.ARRAY:
        return ArrayType(type_of(schema.element))
    if semantic is Semantic.MAP:
        return MapType(_key_type(schema.key), type_of(schema.element))
    if semantic is Semantic.STRUCT and schema.fields:
        return columns_of(schema)
    if semantic in _BY_KIND:
        return _KINDS[schema.kind]
    return _SEMANTIC.get(semantic, StringType())


def _key_type(schema: FieldSchema | None) -> DataType:
    # Spark has no maps as keys of maps.
    found = type_of(schema)
    return StringType() if isinstance(found, MapType | ArrayType | StructType) else found
