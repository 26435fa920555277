"""Finds Spark types for values of JSON: the columns of a table without DDL whose events have no schemas.

| values | Spark |
|---|---|
| true, false | boolean |
| whole numbers of 64 bits | bigint |
| numbers, not all of them whole | double |
| arrays | array |
| objects | struct |
| strings; nothing but null; whole numbers beyond; decimals as `{"scale": 2, "value": ...}`; different kinds | string |

Values do not tell what they stand for, such as days since 1970 or decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_LARGEST = 2**63 - 1
_DECIMAL = {"scale", "value"}


def sampled_columns(rows: Iterable[Mapping[str, Any]], ignored: str) -> StructType:
    """Return the columns of rows, in the order in which they first occur. The text `ignored` stands for no value.

    Of names that differ in case only, which SQL takes for one, the first counts; an empty name is none.
    """
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(None if value in (ignored, [ignored]) else value)
    names: dict[str, str] = {}
    for name in filter(None, values):
        names.setdefault(name.lower(), name)
    return StructType([StructField(name, _type(values[name], ignored)) for name in names.values()])


def _type(values: Sequence[Any], ignored: str) -> DataType:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return BooleanType()
    if kinds == {int}:
        fits = all(-_LARGEST - 1 <= value <= _LARGEST for value in values if value is not None)
        return LongType() if fits else StringType()
    if kinds in ({float}, {int, float}):
        return DoubleType()
    if kinds == {list}:
        return ArrayType(_type([each for value in values if value is not None for each in value], ignored))
    if kinds == {dict}:
        objects = [value for value in values if value is not None]
        if any(objects) and not all(each.keys() == _DECIMAL for each in objects):
            return sampled_columns(objects, ignored)
    return StringType()
