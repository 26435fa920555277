"""Builds columns of booleans, whole numbers and floats from the numbers of change events, and from texts of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, FloatType

from ...core.arrow_types import arrow_type_of
from ...core.columns import Leaf, Misfit, NumberText, kind_of
from ...core.scalars import FLOAT_LIMIT, SPECIAL_FLOATS, exact_decimal, shortened
from .decimals import decimal_text, is_decimal_text, unscaled_of
from .kafka_connect_schema import FieldSchema

_NONE = type(None)
_NATIVE = ("leaf",)
_SPECIAL = SPECIAL_FLOATS | {"NAN": math.nan, "POSITIVE_INFINITY": math.inf, "NEGATIVE_INFINITY": -math.inf}


def flag_column(path: str) -> Leaf:
    """Return a column of booleans that reads true, false, 0 and 1."""

    def exact(value: Any) -> bool:
        if type(value) is bool or (type(value) is int and value in (0, 1)):
            return bool(value)
        raise Misfit(f"expected true or false, found {kind_of(value)}")

    return Leaf(path, pa.bool_(), exact, kinds=frozenset((bool, _NONE)), native=("flag",))


def whole_column(path: str, data_type: DataType, schema: FieldSchema | None, *, plain: bool = False) -> Leaf:
    """Return a column of whole numbers that reads numbers without fraction, also as texts, and decimals.

    `plain`: no objects are decimals.
    """
    arrow_type = arrow_type_of(data_type)
    limit = 1 << (arrow_type.bit_width - 1)
    scaled = unscaled_of(schema) is not None
    floats = schema is not None and schema.kind in ("float32", "float64")
    raw = schema is not None and schema.raw

    def exact(value: Any) -> int:
        number = value
        if scaled or (type(value) is dict and not plain):
            number = _whole(decimal_text(value, schema))
        elif type(value) is str:
            number = _whole(value)
        elif type(value) is NumberText and not raw:
            number = _of_float(float(value)) if floats else _whole(value.decode())
        elif type(value) is float:
            number = _of_float(value)
        if type(number) is not int:
            raise Misfit(f"expected a whole number, found {kind_of(value)}")
        if not -limit <= number < limit:
            raise Misfit(f"the number {str(number)[:40]} is out of the range of {data_type.simpleString()}")
        return number

    return Leaf(path, arrow_type, exact, kinds=frozenset((int, _NONE)), native=None if scaled else _NATIVE)


def _of_float(number: float) -> int | None:
    return int(number) if number.is_integer() else None


def _whole(text: str) -> int | None:
    """Return the whole number that a decimal text is; None if it is none, or one of more than 38 digits."""
    if not is_decimal_text(text):
        return None
    try:
        return int(exact_decimal(text, 38, 0))
    except Misfit:
        return None


def floating_column(path: str, data_type: DataType, schema: FieldSchema | None, *, plain: bool = False) -> Leaf:
    """Return a column of floats that reads numbers, also as texts, and decimals. `plain`: no objects are decimals."""
    arrow_type, limit = (pa.float32(), FLOAT_LIMIT) if isinstance(data_type, FloatType) else (pa.float64(), math.inf)
    scaled = unscaled_of(schema) is not None

    def exact(value: Any) -> float:
        if type(value) is str and value in _SPECIAL and not scaled:
            return _SPECIAL[value]
        if type(value) is float and not math.isfinite(value):
            return value
        if scaled or (type(value) is dict and not plain):
            value = decimal_text(value, schema)
        if type(value) not in (float, int, str, NumberText):
            raise Misfit(f"expected a number, found {kind_of(value)}")
        if type(value) is str and not is_decimal_text(value):
            raise Misfit(f"the string '{value[:40]}' is no number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) >= limit or math.isnan(number):
            raise Misfit(f"the number {shortened(value)} is out of the range of {data_type.simpleString()}")
        return number

    def fast(values: Sequence[Any]) -> pa.Array:
        array = pa.array([None if value is None else float(value) for value in values], arrow_type)
        if pc.any(pc.is_inf(array)).as_py():
            raise OverflowError
        return array

    kinds: frozenset[type] = frozenset((_NONE,)) if scaled else frozenset((float, int, NumberText, _NONE))
    return Leaf(path, arrow_type, exact, fast=fast, kinds=kinds, native=None if scaled else _NATIVE)
