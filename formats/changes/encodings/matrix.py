"""Holds the matrix: how a column of each Spark type reads each semantic type of a change event.

A cell without a reading makes the event bad, with a sentence that names both types. No cell assumes a unit or an
encoding that the schema does not name: only the line "no schema" depends on the table's properties and the connector.
`encoded_values` builds the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import pyspark.sql.types as T

from .kafka_connect_schema import FieldSchema
from .semantic_types import Semantic, choose_type, describe_schema, find_semantic


class Target(Enum):
    """Kinds of columns that are read alike. The value is the heading in the documentation."""

    BOOLEAN = "BOOLEAN"
    WHOLE = "TINYINT ... BIGINT"
    FLOATING = "FLOAT, DOUBLE"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP, TIMESTAMP_NTZ"
    TIME = "TIME"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"
    VARIANT = "VARIANT"


class Reading(Enum):
    """Ways to read a value. The value is the wording in the documentation."""

    FLAG = "true, false, 0, 1"
    NUMBER = "number"
    DIGITS = "exact"
    ROUNDED = "rounded"
    DECIMAL_MODE = "by `debezium.decimal`"
    TEXT = "text"
    ISO = "ISO 8601"
    BASE64 = "base64"
    BYTES = "bytes"
    BINARY_MODE = "by `debezium.binary`"
    BINARY_OR_BASE64 = "by `debezium.binary`, else base64"
    DAYS = "date"
    DAYS_OR_DATE = "days, or a date as text"
    MIDNIGHT = "if it is midnight"
    MOMENT = "timestamp"
    DECLARED_UNIT = "by `debezium.time-units`"
    UNIT_OR_MOMENT = "by unit, or a timestamp as text"
    CLOCK = "time of day"
    UNIT_OR_CLOCK = "by unit, or a time of day as text"
    ELEMENTS = "elements"
    ENTRIES = "entries"
    JSON_OBJECT = "entries of its JSON object"
    FIELDS = "fields"
    JSON = "JSON of a text, else the value"
    VALUE = "the value"


def _make_matrix() -> Mapping[Semantic, Mapping[Target, Reading]]:
    s, r, no = Semantic, Reading, None
    # fmt: off
    rows: dict[Semantic, tuple[Reading | None, ...]] = {
        # the event's type      BOOLEAN WHOLE     FLOATING  DECIMAL         STRING    BINARY              DATE            TIMESTAMP         TIME             ARRAY       MAP            STRUCT    VARIANT  # noqa: E501
        s.NO_SCHEMA:           (r.FLAG, r.NUMBER, r.NUMBER, r.DECIMAL_MODE, r.TEXT,   r.BINARY_OR_BASE64, r.DAYS_OR_DATE, r.UNIT_OR_MOMENT, r.UNIT_OR_CLOCK, r.ELEMENTS, r.ENTRIES,     r.FIELDS, r.JSON),  # noqa: E501
        s.BOOLEAN:             (r.FLAG, no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       r.VALUE),  # noqa: E501
        s.INTEGER:             (r.FLAG, r.NUMBER, r.NUMBER, r.DIGITS,       r.TEXT,   no,                 no,             r.DECLARED_UNIT,  r.DECLARED_UNIT, no,         no,            no,       r.VALUE),  # noqa: E501
        s.FLOAT:               (no,     r.NUMBER, r.NUMBER, r.ROUNDED,      r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.STRING:              (no,     r.NUMBER, r.NUMBER, r.DIGITS,       r.TEXT,   r.BINARY_MODE,      r.DAYS,         r.MOMENT,         r.CLOCK,         no,         r.JSON_OBJECT, no,       r.JSON),  # noqa: E501
        s.WORDS:               (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.JSON:                (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         r.JSON_OBJECT, no,       r.JSON),  # noqa: E501
        s.BYTES:               (no,     no,       no,       no,             r.BASE64, r.BYTES,            no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.DECIMAL:             (no,     r.NUMBER, r.NUMBER, r.DIGITS,       r.DIGITS, no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.VARIABLE_DECIMAL:    (no,     r.NUMBER, r.NUMBER, r.DIGITS,       r.DIGITS, no,                 no,             no,               no,              no,         no,            r.FIELDS, no),  # noqa: E501
        s.DATE:                (no,     r.NUMBER, no,       no,             r.ISO,    no,                 r.DAYS,         no,               no,              no,         no,            no,       no),  # noqa: E501
        s.ISO_DATE:            (no,     no,       no,       no,             r.TEXT,   no,                 r.DAYS,         no,               no,              no,         no,            no,       no),  # noqa: E501
        s.TIMESTAMP:           (no,     r.NUMBER, no,       no,             r.ISO,    no,                 r.MIDNIGHT,     r.MOMENT,         no,              no,         no,            no,       no),  # noqa: E501
        s.ISO_TIMESTAMP:       (no,     no,       no,       no,             r.TEXT,   no,                 r.MIDNIGHT,     r.MOMENT,         no,              no,         no,            no,       no),  # noqa: E501
        s.TIME:                (no,     r.NUMBER, no,       no,             r.ISO,    no,                 no,             no,               r.CLOCK,         no,         no,            no,       no),  # noqa: E501
        s.ISO_TIME:            (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               r.CLOCK,         no,         no,            no,       no),  # noqa: E501
        s.ZONED_TIME:          (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.YEAR:                (no,     r.NUMBER, r.NUMBER, r.DIGITS,       r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.DURATION:            (no,     r.NUMBER, r.NUMBER, r.ROUNDED,      r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.INTERVAL:            (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
        s.ARRAY:               (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              r.ELEMENTS, no,            no,       r.VALUE),  # noqa: E501
        s.MAP:                 (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         r.ENTRIES,     r.FIELDS, r.VALUE),  # noqa: E501
        s.STRUCT:              (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         r.ENTRIES,     r.FIELDS, r.VALUE),  # noqa: E501
        s.UNION:               (no,     no,       no,       no,             r.TEXT,   no,                 no,             no,               no,              no,         no,            no,       no),  # noqa: E501
    }
    # fmt: on
    return MappingProxyType(
        {
            semantic: {target: reading for target, reading in zip(Target, row, strict=True) if reading is not None}
            for semantic, row in rows.items()
        }
    )


MATRIX = _make_matrix()
"""The reading of each semantic type in each kind of column. Other combinations are refused."""

_TARGETS: tuple[tuple[type[T.DataType] | tuple[type[T.DataType], ...], Target], ...] = (
    (T.BooleanType, Target.BOOLEAN),
    (T.IntegralType, Target.WHOLE),
    ((T.FloatType, T.DoubleType), Target.FLOATING),
    (T.DecimalType, Target.DECIMAL),
    (T.StringType, Target.STRING),
    (T.BinaryType, Target.BINARY),
    (T.DateType, Target.DATE),
    ((T.TimestampType, T.TimestampNTZType), Target.TIMESTAMP),
    (T.TimeType, Target.TIME),
    (T.ArrayType, Target.ARRAY),
    (T.MapType, Target.MAP),
    (T.StructType, Target.STRUCT),
    (T.VariantType, Target.VARIANT),
)


def find_target(data_type: T.DataType) -> Target | None:
    """Return the kind of column for a type; None for a type that no format of changes has."""
    return next((target for types, target in _TARGETS if isinstance(data_type, types)), None)


def find_reading(schema: FieldSchema | None, target: Target) -> Reading | None:
    """Return how a column reads values with a schema; None if it refuses them."""
    return MATRIX[find_semantic(schema)].get(target)


def describe_column_type(data_type: T.DataType) -> str:
    """Name a column's type for messages."""
    text = data_type.simpleString().upper()
    return text if len(text) <= 100 else f"{text[:97]}..."


def explain_refusal(schema: FieldSchema, data_type: T.DataType) -> str:
    """Return the message about a type that the column cannot hold: both types, and what to declare."""
    semantic = find_semantic(schema)
    own = describe_column_type(choose_type(schema))
    instead = own if own == "STRING" else f"{own} or STRING"
    hint = ""
    target = find_target(data_type)
    if target is not None and MATRIX[semantic].get(target) is Reading.DECLARED_UNIT:
        hint = ", or name its unit in the table property 'debezium.time-units', for example 'created=ms'"
    return (
        f"the event's type is {describe_schema(schema)}, which a column of type {describe_column_type(data_type)} "
        f"cannot hold; declare the column as {instead}{hint}"
    )
