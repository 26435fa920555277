"""Knows the names of Spark types, which schema texts carry where their own types are coarser ("spark.type")."""

from __future__ import annotations

import re

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

_PLAIN: dict[str, DataType] = {
    each.simpleString(): each
    for each in (
        BooleanType(),
        ByteType(),
        ShortType(),
        IntegerType(),
        LongType(),
        FloatType(),
        DoubleType(),
        StringType(),
        BinaryType(),
        DateType(),
        TimestampType(),
        TimestampNTZType(),
    )
}
_WITH_LENGTH = re.compile(r"(char|varchar)\((\d{1,9})\)")
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")
_COLLATED = re.compile(r"string collate (\w+)")


def spark_type_named(name: object) -> DataType | None:
    """Return the primitive type with this `simpleString()`; None for anything else."""
    if not isinstance(name, str):
        return None
    found = _PLAIN.get(name)
    if found is not None:
        return found
    if match := _WITH_LENGTH.fullmatch(name):
        length = int(match[2])
        return CharType(length) if match[1] == "char" else VarcharType(length)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        return DecimalType(precision, scale) if valid_decimal(precision, scale) else None
    if match := _COLLATED.fullmatch(name):
        return StringType(match[1])
    return None


def valid_decimal(precision: object, scale: object) -> bool:
    """Tell whether Spark has decimal(precision, scale)."""
    return isinstance(precision, int) and isinstance(scale, int) and 0 < precision <= 38 and 0 <= scale <= precision
