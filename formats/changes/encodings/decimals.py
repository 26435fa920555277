"""Builds columns of DECIMAL from Debezium's decimals.

| event's type | value |
|---|---|
| Decimal | JSON: base64 of the unscaled number, or (`decimal.format` = NUMERIC) the number itself; Avro: bytes |
| VariableScaleDecimal | {"scale": 10, "value": base64 or bytes} |
| string | "123.4500" |
| a number | the number; of a double rounded to the column's scale |
| no schema | numbers and objects as above; a string by `debezium.decimal`: digits, or base64 with the column's scale |

NaN and the infinities of PostgreSQL's numeric have no value in Spark's DECIMAL and are null, as Debezium itself writes
them in precise mode. A number that does not fit the column makes its event bad.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType

from ...core.columns import Leaf, Misfit, NumberText, kind_of
from ...core.scalars import exact_decimal
from .kafka_connect_schema import DECIMAL, FieldSchema

_NONE = type(None)
_NOT_FINITE = frozenset(
    ("NaN", "NAN", "Infinity", "-Infinity", "POSITIVE_INFINITY", "NEGATIVE_INFINITY", "infinity", "-infinity")
)
_DECIMAL_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_MOST_BYTES, _LARGEST_SCALE = 65_536, 20_000
"""PostgreSQL's numeric has at most 131,072 digits before the point and 16,383 behind it."""
_ROUNDING = Context(prec=120, rounding=ROUND_HALF_UP)  # 60 digits before the point, and 38 of the column's scale


def decimal_column(
    path: str, data_type: DecimalType, schema: FieldSchema | None, mode: str, *, rounding: bool, plain: bool = False
) -> Leaf:
    """Return a column.

    `mode`: what strings without a schema are: "string", "precise" or "double". `plain`: no objects are decimals.
    """
    precision, scale = data_type.precision, data_type.scale
    arrow_type = pa.decimal128(precision, scale)
    unscaled = unscaled_of(schema)
    if schema is None and mode == "precise":
        unscaled = scale
    rounding = rounding or (schema is None and mode == "double")
    raw = schema is not None and schema.raw

    def exact(value: Any) -> Decimal | None:
        text = _text_of(value, unscaled, raw, plain=plain)
        if text is None:
            return None
        if rounding and type(value) is not str:
            text = _rounded(text, scale)
        return exact_decimal(text, precision, scale)

    def fast(values: Sequence[Any]) -> pa.Array:
        if unscaled is None:
            return _of_texts(values, arrow_type)
        return _of_unscaled([None if v is None else _bytes_of(v) for v in values], unscaled).cast(arrow_type)

    # Bytes are the unscaled number in Avro, and in JSON the text of a number.
    kinds: frozenset[type] = frozenset((bytes if raw and unscaled is not None else str, _NONE))
    native: tuple[Any, ...] | None = ("digits",) if unscaled is None else ("unscaled", unscaled)
    if rounding or (unscaled is not None and abs(unscaled) > 100):
        native = None
    return Leaf(path, arrow_type, exact, fast=fast, kinds=kinds, native=native)


def unscaled_of(schema: FieldSchema | None) -> int | None:
    """Return the scale of the unscaled numbers that values with a schema are; None if they are something else."""
    if schema is None:
        return None
    return schema.scale if schema.name == DECIMAL and schema.kind == "bytes" else None


def is_decimal_text(text: str) -> bool:
    """Tell whether a text has the digits of a decimal, perhaps with an exponent."""
    return _DECIMAL_TEXT.fullmatch(text) is not None


def decimal_text(value: Any, schema: FieldSchema | None) -> str:
    """Return the digits of a decimal with or without schema. Raises Misfit for anything else."""
    text = _text_of(value, unscaled_of(schema), schema is not None and schema.raw, finite=False)
    assert text is not None
    return _without_exponent(text) if "e" in text or "E" in text else text


def _without_exponent(text: str) -> str:
    number = Decimal(text)
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_SCALE:
        return text
    return f"{number:f}"


def _text_of(value: Any, unscaled: int | None, raw: bool, *, finite: bool = True, plain: bool = False) -> str | None:
    if type(value) is str and unscaled is None and value in _NOT_FINITE:
        return None if finite else value
    if type(value) is dict and not plain:
        number, scale = value.get("value"), value.get("scale")
        if type(scale) is int and type(number) is (bytes if raw else str):
            return _digits(_bytes_of(number), scale)
        raise Misfit("expected a decimal, found an object")
    if unscaled is not None and type(value) is (bytes if raw else str):
        return _digits(_bytes_of(value), unscaled)
    if type(value) is str:
        if not _DECIMAL_TEXT.fullmatch(value):
            advice = "; if it is base64, set the table property 'debezium.decimal' to 'precise'"
            raise Misfit(f"the string '{value[:40]}' is no decimal{'' if plain else advice}")
        return value
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return repr(value) if value - value == 0 else None
    if type(value) is NumberText and not raw:
        return value.decode("ascii")
    raise Misfit(f"expected a decimal, found {kind_of(value)}")


def _bytes_of(value: Any) -> bytes:
    if type(value) is bytes:
        return value
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:
        raise Misfit(
            f"the string '{value[:40]}' is no base64 of an unscaled number ({error}); if it is a decimal, set the "
            "table property 'debezium.decimal' to 'string'"
        ) from None


def _digits(unscaled: bytes, scale: int) -> str:
    if len(unscaled) > _MOST_BYTES or abs(scale) > _LARGEST_SCALE:
        raise Misfit(f"a number of {len(unscaled)} bytes with scale {scale} is larger than any database has")
    number = int.from_bytes(unscaled, "big", signed=True)
    # Not by the text of the number, which Python limits to 4300 digits.
    sign, digits, _ = Decimal(number).as_tuple()
    return f"{Decimal((sign, digits, -scale)):f}"


def _rounded(text: str, scale: int) -> str:
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -scale and number.adjusted() < 60:
        number = number.quantize(Decimal((0, (1,), -scale)), context=_ROUNDING)
    return str(number)


def _of_texts(values: Sequence[str | None], arrow_type: pa.DataType) -> pa.Array:
    # As in `values`: Arrow may only see short numbers without exponent.
    if max(map(len, filter(None, values)), default=0) > 38:
        raise ValueError
    texts = pa.array(values, pa.string())
    if pc.any(pc.match_substring_regex(texts, "[^-+.0-9]")).as_py():
        raise ValueError
    return texts.cast(arrow_type)


def _of_unscaled(values: Sequence[bytes | None], scale: int) -> pa.Array:
    """Convert unscaled numbers. Raises OverflowError for more than 16 bytes, ArrowInvalid for more than 38 digits."""
    numbers = b"".join(
        [int.from_bytes(value or b"", "big", signed=True).to_bytes(16, "little", signed=True) for value in values]
    )
    there = None
    if None in values:
        there = pa.array([value is not None for value in values]).buffers()[1]
    array = pa.Array.from_buffers(pa.decimal128(38, scale), len(values), [there, pa.py_buffer(numbers)])
    array.validate(full=True)
    return array
