"""Spark's types of numbers, and which of them holds the values of another."""

from __future__ import annotations

from pyspark.sql.types import ByteType, DataType, DoubleType, FloatType, IntegerType, LongType, ShortType

WHOLE_NUMBERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)
FLOATING_POINT: tuple[type[DataType], ...] = (FloatType, DoubleType)
"""Each type holds the values of those before it."""


def wider_number(one: DataType, other: DataType) -> DataType | None:
    """Return that of two types of numbers which holds the values of both; None if neither does."""
    for family in (WHOLE_NUMBERS, FLOATING_POINT):
        if type(one) in family and type(other) in family:
            return max(one, other, key=lambda each: family.index(type(each)))
    return None
