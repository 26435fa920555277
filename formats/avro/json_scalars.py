"""Turns Avro's plain values into JSON values and back, for records that a column has as JSON text.

| Avro | JSON |
|---|---|
| boolean, int, long, string, enum, uuid | as they are |
| float, double | the shortest digits that give the same number; "NaN", "Infinity", "-Infinity" |
| decimal | a number with all digits of its scale |
| bytes, fixed | base64 |
| date, timestamps | ISO 8601, as format json writes them |

These are the values that format json has for the same columns.
"""

from __future__ import annotations

import binascii
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from ..core.columns import Misfit, NumberText, describe_kind
from ..core.scalars import (
    FLOAT_LIMIT,
    SPECIAL_FLOATS,
    date_text,
    days_of,
    exact_decimal,
    from_base64,
    micros_of,
    shortened,
    timestamp_text,
)
from . import schema_model as avro
from .cells import varint
from .leaves import MILLIS, Scalar, check_resolves, named

ToJson = Callable[[Any], Any]
FromJson = Callable[[Any], bytes]

_DIGITS = 38
_MICROS_PER_MILLI = 1000
_INT_BITS = {"int": 32, "long": 64}


def json_of(writer: Scalar, reader: Scalar, path: str) -> ToJson:
    """Return what makes a JSON value of one that `scalar_reader` has read; it raises Misfit for one without.

    Raises InvalidSchemaError if the types do not resolve; `path` is for its text.
    """
    check_resolves(writer, reader, path)
    if isinstance(writer, avro.Enum):
        return _symbols(writer, reader)
    if isinstance(reader, avro.Primitive) and reader.name in ("float", "double"):
        return _float_of if reader.name == "float" else _double_of
    match _meaning(reader):
        case "decimal":
            assert isinstance(reader, avro.Primitive | avro.Fixed)
            assert isinstance(writer, avro.Primitive | avro.Fixed)
            written = writer.scale if writer.logical == "decimal" else reader.scale
            return lambda value: _decimal_of(value, written, reader.precision, reader.scale)
        case "uuid" if isinstance(reader, avro.Fixed):
            return lambda value: str(uuid.UUID(bytes=value))
        case "date":
            return _date_of
        case str(logical) if "timestamp" in logical:
            meant = _meaning(writer)
            millis = (meant if meant is not None and "timestamp" in meant else logical) in MILLIS
            zoned = not logical.startswith("local-")
            return lambda value: _timestamp_of(value * _MICROS_PER_MILLI if millis else value, zoned)
    if isinstance(reader, avro.Fixed) or (isinstance(reader, avro.Primitive) and reader.name == "bytes"):
        return _base64_of
    if isinstance(reader, avro.Primitive) and reader.name == "string":
        return text_of
    return lambda value: value


def text_of(value: bytes) -> str:
    """Return the string of these bytes. Raises Misfit if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Misfit(f"the string is not UTF-8 (byte {error.start})") from None


def _meaning(node: Scalar) -> str | None:
    return None if isinstance(node, avro.Enum) else node.logical


def _symbols(writer: avro.Enum, reader: Scalar) -> ToJson:
    symbols: list[str | None] = list(writer.symbols)
    if isinstance(reader, avro.Enum):
        symbols = [symbol if symbol in reader.symbols else reader.default for symbol in writer.symbols]

    def symbol_of(number: int) -> str:
        symbol = symbols[number]
        if symbol is None:
            raise Misfit(f"the symbol '{writer.symbols[number]}' is not one of {named(reader)}")
        return symbol

    return symbol_of


def _double_of(value: float) -> Any:
    number = float(value)
    return number if math.isfinite(number) else _special(number)


def _float_of(value: float) -> Any:
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        return _special(float(number))
    text = str(number)
    # A reader may go by way of double, so the digits must survive that too.
    return NumberText((text if np.float32(float(text)) == number else repr(float(number))).encode())


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _decimal_of(value: bytes, written_scale: int, precision: int, scale: int) -> NumberText:
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**_DIGITS:
        raise Misfit(f"the number is out of the range of decimal({precision},{scale})")
    return NumberText(f"{exact_decimal(f'{number}E-{written_scale}', precision, scale):f}".encode())


def _base64_of(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()


def _date_of(days: int) -> str:
    return _known(date_text(days), "date")


def _timestamp_of(micros: int, zoned: bool) -> str:
    return _known(timestamp_text(micros, zoned), "timestamp")


def _known(text: str | None, kind: str) -> str:
    if text is None:
        raise Misfit(f"the {kind} is outside the years 0001 to 9999, which JSON's dates cannot tell")
    return text


def datum_of(node: Scalar) -> FromJson:
    """Return what makes Avro data of a JSON value. It raises Misfit for a value that does not fit."""
    if isinstance(node, avro.Enum):
        return lambda value: _symbol_number(node, value)
    match node.logical:
        case "decimal":
            return lambda value: _sized(node, _unscaled(node, value))
        case "uuid":
            return lambda value: _uuid(node, value)
        case "date":
            return lambda value: varint(_found(days_of(_string(value)), value, "date such as 2024-01-31"))
        case str(logical):
            zoned, millis = not logical.startswith("local-"), logical in MILLIS
            return lambda value: varint(_micros(value, zoned) // (_MICROS_PER_MILLI if millis else 1))
    if isinstance(node, avro.Fixed) or node.name == "bytes":
        return lambda value: _sized(node, from_base64(_string(value)))
    if node.name in ("float", "double"):
        return lambda value: _floating(value, node.name)
    if node.name in _INT_BITS:
        return lambda value: varint(_whole(value, node.name))
    return _boolean if node.name == "boolean" else lambda value: _with_length(_string(value).encode())


def _symbol_number(node: avro.Enum, value: Any) -> bytes:
    if value not in node.symbols:
        raise Misfit(f"expected a symbol of {named(node)}, found {shortened(value)}")
    return varint(node.symbols.index(value))


def _boolean(value: Any) -> bytes:
    if type(value) is not bool:
        raise Misfit(f"expected true or false, found {describe_kind(value)}")
    return b"\1" if value else b"\0"


def _whole(value: Any, name: str) -> int:
    if type(value) is not int:
        raise Misfit(f"expected an integer, found {describe_kind(value)}")
    limit = 1 << (_INT_BITS[name] - 1)
    if not -limit <= value < limit:
        raise Misfit(f"the integer {shortened(value)} is out of the range of {name}")
    return value


def _floating(value: Any, name: str) -> bytes:
    if type(value) is str and value in SPECIAL_FLOATS:
        number = SPECIAL_FLOATS[value]
    elif type(value) not in (int, NumberText):
        raise Misfit(f"expected a number, found {describe_kind(value)}")
    else:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) >= (FLOAT_LIMIT if name == "float" else math.inf):
            raise Misfit(f"the number {shortened(value)} is out of the range of {name}")
    return struct.pack("<f" if name == "float" else "<d", number)


def _string(value: Any) -> str:
    if type(value) is not str:
        raise Misfit(f"expected a string, found {describe_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("the string has half of a surrogate pair, which is no character") from None
    return value


def _found(number: int | None, value: Any, what: str) -> int:
    if number is None:
        raise Misfit(f"the string '{shortened(value)}' is no {what}")
    return number


def _micros(value: Any, zoned: bool) -> int:
    rule = "with Z or an offset, such as 2024-01-31T12:00:00Z" if zoned else "without Z or offset"
    return _found(micros_of(_string(value), zoned), value, f"timestamp {rule}")


def _unscaled(node: avro.Primitive | avro.Fixed, value: Any) -> bytes:
    if type(value) not in (int, NumberText):
        raise Misfit(f"expected a number, found {describe_kind(value)}")
    number = exact_decimal(value.decode() if type(value) is NumberText else str(value), node.precision, node.scale)
    unscaled = int(Decimal((number.is_signed(), number.as_tuple().digits, 0)))
    size = node.size if isinstance(node, avro.Fixed) else (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    try:
        return unscaled.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise Misfit(f"the number {shortened(value)} is too large for {named(node)}") from None


def _uuid(node: avro.Primitive | avro.Fixed, value: Any) -> bytes:
    text = _string(value)
    try:
        octets = uuid.UUID(text).bytes
    except ValueError:
        raise Misfit(f"the string '{shortened(text)}' is no UUID") from None
    return octets if isinstance(node, avro.Fixed) else _with_length(text.encode())


def _sized(node: avro.Primitive | avro.Fixed, octets: bytes) -> bytes:
    if not isinstance(node, avro.Fixed):
        return _with_length(octets)
    if len(octets) != node.size:
        raise Misfit(f"it has {len(octets)} bytes, unlike {named(node)}")
    return octets


def _with_length(octets: bytes) -> bytes:
    return varint(len(octets)) + octets
