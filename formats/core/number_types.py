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


_EXACT_IN: dict[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (FloatType, DoubleType),
    ShortType: (FloatType, DoubleType),
    IntegerType: (DoubleType,),
}
"""Floating-point types that hold all values of a type of whole numbers."""


def holds_number(wide: DataType, narrow: DataType) -> bool:
    """Tell whether a type of numbers holds every value of another exactly; False for types of anything else."""
    return wider_number(narrow, wide) == wide or type(wide) in _EXACT_IN.get(type(narrow), ())
