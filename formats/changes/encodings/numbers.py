"""Builds columns of booleans, whole numbers, floats and decimals from the numbers of change events."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DecimalType

from ...core import scalars
from ...core.arrow_types import find_arrow_type
from ...core.columns import Leaf, Misfit, NumberText, describe_kind
from .kafka_connect_schema import DECIMAL, FieldSchema
from .matrix import Reading
from .settings import ONLY_NULL, Cell

_NONE = type(None)
_NATIVE = ("leaf",)
_SPECIAL = scalars.SPECIAL_FLOATS | {"NAN": math.nan, "POSITIVE_INFINITY": math.inf, "NEGATIVE_INFINITY": -math.inf}
_NOT_FINITE = frozenset(
    ("NaN", "NAN", "Infinity", "-Infinity", "POSITIVE_INFINITY", "NEGATIVE_INFINITY", "infinity", "-infinity")
)
_DECIMAL_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_MOST_BYTES, _LARGEST_SCALE = 65_536, 20_000
"""Limits of decimals: PostgreSQL's numeric has at most 131,072 digits before the point and 16,383 after it."""
_ROUNDING = Context(prec=120, rounding=ROUND_HALF_UP)  # 60 digits before the point, and 38 of the column's scale


def make_decimal_column(cell: Cell) -> Leaf:
    """Return a column of decimals that reads numbers, texts of numbers, unscaled numbers, and objects with a scale."""
    assert isinstance(cell.data_type, DecimalType)
    precision, scale = cell.data_type.precision, cell.data_type.scale
    arrow_type = pa.decimal128(precision, scale)
    unscaled = find_unscaled_scale(cell.schema)
    mode = cell.rules.decimal if cell.schema is None else ""
    if mode == "precise":
        unscaled = scale
    rounding = cell.reading is Reading.ROUNDED or mode == "double"

    def convert_one(value: Any) -> Decimal | None:
        text = _read_text(value, unscaled, cell.raw, plain=cell.plain)
        if text is None:
            return None
        if rounding and type(value) is not str:
            text = _round(text, scale)
        return scalars.parse_decimal(text, precision, scale)

    native: tuple[Any, ...] | None = ("digits",) if unscaled is None else ("unscaled", unscaled)
    if rounding or (unscaled is not None and abs(unscaled) > 100):
        native = None
    return Leaf(cell.path, arrow_type, convert_one, kinds=ONLY_NULL, native=native)


def find_unscaled_scale(schema: FieldSchema | None) -> int | None:
    """Return the scale of values that are unscaled numbers by their schema; None if they are something else."""
    if schema is None:
        return None
    return schema.scale if schema.name == DECIMAL and schema.kind == "bytes" else None


def is_decimal_text(text: str) -> bool:
    """Return whether a text is a decimal, possibly with an exponent."""
    return _DECIMAL_TEXT.fullmatch(text) is not None


def read_decimal_digits(value: Any, schema: FieldSchema | None) -> str:
    """Return the digits of a decimal, with or without a schema. Raises Misfit for anything else."""
    text = _read_text(value, find_unscaled_scale(schema), schema is not None and schema.raw, finite=False)
    assert text is not None
    return _expand_exponent(text) if "e" in text or "E" in text else text


def _expand_exponent(text: str) -> str:
    number = Decimal(text)
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_SCALE:
        return text
    return f"{number:f}"


def _read_text(value: Any, unscaled: int | None, raw: bool, *, finite: bool = True, plain: bool = False) -> str | None:
    if type(value) is str and unscaled is None and value in _NOT_FINITE:
        return None if finite else value
    if _has_scale(value, raw) and not plain:
        return _write_digits(_read_bytes(value["value"]), value["scale"])
    if unscaled is not None and type(value) is (bytes if raw else str):
        return _write_digits(_read_bytes(value), unscaled)
    if type(value) is str:
        if not _DECIMAL_TEXT.fullmatch(value):
            advice = "; if it is base64, set the table property 'debezium.decimal' to 'precise'"
            raise Misfit(f"the string '{value[:40]}' is not a decimal{'' if plain else advice}")
        return value
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return repr(value) if value - value == 0 else None
    if type(value) is NumberText and not raw:
        return value.decode("ascii")
    raise Misfit(f"expected a decimal, found {describe_kind(value)}")


def _has_scale(value: Any, raw: bool) -> bool:
    """Return whether a value is a decimal with a scale of its own (`VariableScaleDecimal`)."""
    return (
        type(value) is dict and type(value.get("scale")) is int and type(value.get("value")) is (bytes if raw else str)
    )


def _read_bytes(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    try:
        return scalars.read_base64(value)
    except ValueError as error:
        raise Misfit(
            f"the string '{value[:40]}' is not the base64 of an unscaled number ({error}); if it is a decimal, set the "
            "table property 'debezium.decimal' to 'string'"
        ) from None


def _write_digits(unscaled: bytes, scale: int) -> str:
    if len(unscaled) > _MOST_BYTES or abs(scale) > _LARGEST_SCALE:
        raise Misfit(f"a number of {len(unscaled)} bytes with scale {scale} is larger than any database has")
    number = int.from_bytes(unscaled, "big", signed=True)
    # Python limits the text of an integer to 4300 digits, so the text is not used.
    sign, digits, _ = Decimal(number).as_tuple()
    return f"{Decimal((sign, digits, -scale)):f}"


def _round(text: str, scale: int) -> str:
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -scale and number.adjusted() < 60:
        number = number.quantize(Decimal((0, (1,), -scale)), context=_ROUNDING)
    return str(number)


def make_flag_column(cell: Cell) -> Leaf:
    """Return a column of booleans that reads true, false, 0 and 1."""

    def convert_one(value: Any) -> bool:
        if type(value) is bool or (type(value) is int and value in (0, 1)):
            return bool(value)
        raise Misfit(f"expected true or false, found {describe_kind(value)}")

    return Leaf(cell.path, pa.bool_(), convert_one, kinds=frozenset((bool, _NONE)), native=("flag",))


def make_whole_column(cell: Cell) -> Leaf:
    """Return a column of whole numbers that reads numbers without a fraction, their texts, and decimals."""
    arrow_type = find_arrow_type(cell.data_type)
    limit = 1 << (arrow_type.bit_width - 1)
    schema, raw = cell.schema, cell.raw
    scaled = find_unscaled_scale(schema) is not None
    floats = schema is not None and schema.kind in ("float32", "float64")

    def convert_one(value: Any) -> int:
        number = value
        if scaled or (_has_scale(value, raw) and not cell.plain):
            number = _parse_whole(read_decimal_digits(value, schema))
        elif type(value) is str:
            number = _parse_whole(value)
        elif type(value) is NumberText and not raw:
            number = _convert_float(float(value)) if floats else _parse_whole(value.decode())
        elif type(value) is float:
            number = _convert_float(value)
        if type(number) is not int:
            raise Misfit(f"expected a whole number, found {describe_kind(value)}")
        if not -limit <= number < limit:
            raise Misfit(f"the number {str(number)[:40]} is out of the range of {cell.data_type.simpleString()}")
        return number

    return Leaf(cell.path, arrow_type, convert_one, kinds=frozenset((int, _NONE)), native=None if scaled else _NATIVE)


def _convert_float(number: float) -> int | None:
    return int(number) if number.is_integer() else None


def _parse_whole(text: str) -> int | None:
    """Parse a decimal text as a whole number; return None if it is not one, or has more than 38 digits."""
    if not is_decimal_text(text):
        return None
    try:
        return int(scalars.parse_decimal(text, 38, 0))
    except Misfit:
        return None


def make_floating_column(cell: Cell) -> Leaf:
    """Return a column of floats that reads numbers, their texts, and decimals."""
    arrow_type, kind = find_arrow_type(cell.data_type), cell.data_type.simpleString()
    schema, raw = cell.schema, cell.raw
    scaled = find_unscaled_scale(schema) is not None

    def convert_one(value: Any) -> float:
        if type(value) is str and value in _SPECIAL and not scaled:
            return _SPECIAL[value]
        if type(value) is float and not math.isfinite(value):
            return value
        if scaled or (_has_scale(value, raw) and not cell.plain):
            value = read_decimal_digits(value, schema)
        if type(value) is str:
            if not is_decimal_text(value):
                raise Misfit(f"the string '{value[:40]}' is not a number")
            value = value.encode()
        return scalars.read_floating(value, kind)

    return Leaf(cell.path, arrow_type, convert_one, kinds=ONLY_NULL, native=None if scaled else _NATIVE)
