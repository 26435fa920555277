"""Maps the semantic types of Kafka Connect and Debezium to the meaning of their values and to Spark types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import pyspark.sql.types as T

from ...core.spark_types import is_valid_decimal
from .kafka_connect_schema import DECIMAL, FieldSchema


class Semantic(Enum):
    """Meanings of values. The value is the title of a line in the documentation."""

    NO_SCHEMA = "no schema"
    BOOLEAN = "boolean"
    INTEGER = "int8, int16, int32, int64"
    FLOAT = "float32, float64"
    STRING = "string"
    WORDS = "Enum, EnumSet, Uuid, Xml, Ltree, Tsvector"
    JSON = "Json"
    BYTES = "bytes, Bits"
    DECIMAL = "Decimal"
    VARIABLE_DECIMAL = "VariableScaleDecimal"
    DATE = "Date"
    ISO_DATE = "IsoDate"
    TIMESTAMP = "Timestamp, MicroTimestamp, NanoTimestamp"
    ISO_TIMESTAMP = "ZonedTimestamp, IsoTimestamp"
    TIME = "Time, MicroTime, NanoTime"
    ISO_TIME = "IsoTime"
    ZONED_TIME = "ZonedTime"
    YEAR = "Year"
    DURATION = "MicroDuration, NanoDuration"
    INTERVAL = "Interval"
    ARRAY = "array, FloatVector, DoubleVector"
    MAP = "map"
    STRUCT = "struct (Point, Geometry, ...)"
    UNION = "other union of Avro"


@dataclass(frozen=True)
class Meaning:
    """The meaning of a schema's name with some kinds of values, in words, and the unit of its numbers ("": none)."""

    semantic: Semantic
    kinds: tuple[str, ...]
    words: str
    unit: str = ""


_CONNECT, _TIME, _DATA = "org.apache.kafka.connect.data.", "io.debezium.time.", "io.debezium.data."
_TEXT = ("string",)
_NUMBERS = ("int32", "int64")

_UNIT_WORDS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def _make_counted(semantic: Semantic, unit: str, since: str, kinds: tuple[str, ...] = _NUMBERS) -> Meaning:
    return Meaning(semantic, kinds, f"{_UNIT_WORDS[unit]}{since}", unit)


NAMED = MappingProxyType(
    {
        DECIMAL: Meaning(Semantic.DECIMAL, ("bytes",), ""),
        _DATA + "VariableScaleDecimal": Meaning(Semantic.VARIABLE_DECIMAL, ("struct",), "a decimal with its own scale"),
        _CONNECT + "Date": Meaning(Semantic.DATE, _NUMBERS, "days since 1970", "d"),
        _TIME + "Date": Meaning(Semantic.DATE, _NUMBERS, "days since 1970", "d"),
        _TIME + "IsoDate": Meaning(Semantic.ISO_DATE, _TEXT, "a date of ISO 8601"),
        _CONNECT + "Timestamp": _make_counted(Semantic.TIMESTAMP, "ms", " since 1970"),
        _TIME + "Timestamp": _make_counted(Semantic.TIMESTAMP, "ms", " since 1970"),
        _TIME + "MicroTimestamp": _make_counted(Semantic.TIMESTAMP, "us", " since 1970"),
        _TIME + "NanoTimestamp": _make_counted(Semantic.TIMESTAMP, "ns", " since 1970"),
        _TIME + "ZonedTimestamp": Meaning(Semantic.ISO_TIMESTAMP, _TEXT, "a timestamp of ISO 8601 with its offset"),
        _TIME + "IsoTimestamp": Meaning(Semantic.ISO_TIMESTAMP, _TEXT, "a timestamp of ISO 8601"),
        _CONNECT + "Time": _make_counted(Semantic.TIME, "ms", " of a day"),
        _TIME + "Time": _make_counted(Semantic.TIME, "ms", " of a day"),
        _TIME + "MicroTime": _make_counted(Semantic.TIME, "us", " of a day"),
        _TIME + "NanoTime": _make_counted(Semantic.TIME, "ns", " of a day"),
        _TIME + "ZonedTime": Meaning(Semantic.ZONED_TIME, _TEXT, "a time of day of ISO 8601 with its offset"),
        _TIME + "IsoTime": Meaning(Semantic.ISO_TIME, _TEXT, "a time of day of ISO 8601"),
        _TIME + "Year": Meaning(Semantic.YEAR, _NUMBERS, "a year"),
        _TIME + "MicroDuration": _make_counted(Semantic.DURATION, "us", "", (*_NUMBERS, "float64")),
        _TIME + "NanoDuration": _make_counted(Semantic.DURATION, "ns", "", (*_NUMBERS, "float64")),
        _TIME + "Interval": Meaning(Semantic.INTERVAL, _TEXT, "an interval of ISO 8601"),
        _DATA + "Json": Meaning(Semantic.JSON, _TEXT, "a JSON text"),
        _DATA + "Bits": Meaning(Semantic.BYTES, ("bytes",), "bits, the lowest byte first"),
        **{
            _DATA + name: Meaning(Semantic.WORDS, _TEXT, words)
            for name, words in (
                ("Enum", "a word of an enumeration"),
                ("EnumSet", "words of an enumeration"),
                ("Uuid", "a UUID"),
                ("Xml", "an XML text"),
                ("Ltree", "a path of labels"),
                ("Tsvector", "words of a text"),
            )
        },
    }
)
"""Meanings by name. Oracle's connector writes a MicroDuration as float64."""

_KINDS: dict[str, tuple[Semantic, T.DataType]] = {
    "boolean": (Semantic.BOOLEAN, T.BooleanType()),
    "int8": (Semantic.INTEGER, T.ByteType()),
    "int16": (Semantic.INTEGER, T.ShortType()),
    "int32": (Semantic.INTEGER, T.IntegerType()),
    "int64": (Semantic.INTEGER, T.LongType()),
    "float32": (Semantic.FLOAT, T.FloatType()),
    "float64": (Semantic.FLOAT, T.DoubleType()),
    "string": (Semantic.STRING, T.StringType()),
    "bytes": (Semantic.BYTES, T.BinaryType()),
    "array": (Semantic.ARRAY, T.StringType()),
    "map": (Semantic.MAP, T.StringType()),
    "struct": (Semantic.STRUCT, T.StringType()),
    "union": (Semantic.UNION, T.StringType()),
}
"""The meaning of each kind without a name, and the type of a column for its values."""


def find_meaning(schema: FieldSchema) -> Meaning | None:
    """Return the meaning of a schema's name; None if the name is unknown or does not fit the kind."""
    meaning = NAMED.get(schema.name)
    return meaning if meaning is not None and schema.kind in meaning.kinds else None


def find_semantic(schema: FieldSchema | None) -> Semantic:
    """Return the meaning of values with a schema. A kind that Connect does not have counts as no schema."""
    if schema is None:
        return Semantic.NO_SCHEMA
    meaning = find_meaning(schema)
    if meaning is not None:
        return meaning.semantic
    return _KINDS[schema.kind][0] if schema.kind in _KINDS else Semantic.NO_SCHEMA


def find_unit(schema: FieldSchema) -> str:
    """Return the unit that whole numbers with a schema count; "" for none."""
    meaning = find_meaning(schema)
    return "" if meaning is None else meaning.unit


def describe_schema(schema: FieldSchema) -> str:
    """Describe a type for messages, such as "io.debezium.time.Timestamp (int64, milliseconds since 1970)"."""
    words = [schema.kind] if schema.name else []
    meaning = find_meaning(schema)
    if schema.name == DECIMAL:
        words.append(f"scale {schema.scale}")
    elif meaning is not None and meaning.words:
        words.append(meaning.words)
    elif schema.kind == "map" and schema.key is not None and schema.element is not None:
        words.append(f"of {describe_schema(schema.key)} to {describe_schema(schema.element)}")
    name = (schema.name or schema.kind)[:100]
    return f"{name} ({', '.join(words)})" if words else name


_SEMANTIC: dict[Semantic, T.DataType] = {
    Semantic.DATE: T.DateType(),
    Semantic.ISO_DATE: T.DateType(),
    Semantic.TIMESTAMP: T.TimestampNTZType(),
    Semantic.TIME: T.StringType(),
}
"""The types of columns for values whose type their kind does not say."""
_WITH_OFFSET = "io.debezium.time.ZonedTimestamp"


def choose_columns(image: FieldSchema) -> T.StructType:
    """Return the columns of a row with this schema, all nullable."""
    return T.StructType([T.StructField(name, choose_type(field)) for name, field in image.fields.items()])


def choose_type(schema: FieldSchema | None) -> T.DataType:
    """Return the default type of a column with this schema; string, which holds everything, if no other type fits."""
    semantic = find_semantic(schema)
    if schema is None:
        return T.StringType()
    if semantic is Semantic.DECIMAL:
        exact = schema.precision > 0 and is_valid_decimal(schema.precision, schema.scale)
        return T.DecimalType(schema.precision, schema.scale) if exact else T.StringType()
    if semantic is Semantic.ISO_TIMESTAMP:
        return T.TimestampType() if schema.name == _WITH_OFFSET else T.TimestampNTZType()
    if semantic is Semantic.ARRAY:
        return T.ArrayType(choose_type(schema.element))
    if semantic is Semantic.MAP:
        return T.MapType(_choose_key_type(schema.key), choose_type(schema.element))
    if semantic is Semantic.STRUCT and schema.fields:
        return choose_columns(schema)
    if semantic in _SEMANTIC:
        return _SEMANTIC[semantic]
    return _KINDS[schema.kind][1] if schema.kind in _KINDS else T.StringType()


def _choose_key_type(schema: FieldSchema | None) -> T.DataType:
    # Spark has no maps as keys of maps.
    key_type = choose_type(schema)
    return T.StringType() if isinstance(key_type, T.MapType | T.ArrayType | T.StructType) else key_type
