"""Turns Avro's plain values into JSON values and back, for records that a column holds as JSON text.

| Avro | JSON |
|---|---|
| boolean, int, long, string, enum, uuid | as they are |
| float, double | the shortest digits that give the same number; "NaN", "Infinity", "-Infinity" |
| decimal | a number with all digits of its scale |
| bytes, fixed | base64 |
| date, timestamps | ISO 8601, as format json writes them |

Format json has the same values for the same columns.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from ..core import scalars
from ..core.columns import Misfit, NumberText
from . import schema_model as avro
from .cells import write_bytes, write_varint
from .field_defaults import write_primitive
from .leaves import MILLIS, Scalar, check_resolves, decode_text, describe_type, make_symbol_finder

ToJson = Callable[[Any], Any]
FromJson = Callable[[Any], bytes]

_MICROS_PER_MILLI = 1000


def make_json_converter(writer: Scalar, reader: Scalar, path: str) -> ToJson:
    """Return a function that turns values of `make_scalar_reader` into JSON values, or raises Misfit.

    Raises InvalidSchemaError, whose message names `path`, if the types do not resolve.
    """
    check_resolves(writer, reader, path)
    if isinstance(writer, avro.Enum):
        return make_symbol_finder(writer, reader)
    if isinstance(reader, avro.Primitive) and reader.name in ("float", "double"):
        return _convert_float if reader.name == "float" else lambda value: scalars.name_special_float(float(value))
    match reader.logical:
        case "decimal":
            written = writer.scale if writer.logical == "decimal" else reader.scale
            of_reader = reader.precision, reader.scale
            return lambda value: NumberText(f"{scalars.parse_unscaled(value, written, *of_reader):f}".encode())
        case "uuid" if isinstance(reader, avro.Fixed):
            return lambda value: str(uuid.UUID(bytes=value))
        case "date":
            return scalars.format_date
        case str(logical) if "timestamp" in logical:
            meant = writer.logical
            millis = (meant if meant is not None and "timestamp" in meant else logical) in MILLIS
            zoned = not logical.startswith("local-")
            unit = _MICROS_PER_MILLI if millis else 1
            return lambda value: scalars.format_timestamp(value * unit, zoned)
    if isinstance(reader, avro.Fixed) or (isinstance(reader, avro.Primitive) and reader.name == "bytes"):
        return lambda value: base64.b64encode(value).decode()
    if isinstance(reader, avro.Primitive) and reader.name == "string":
        return decode_text
    return lambda value: value


def _convert_float(value: float) -> Any:
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        return scalars.name_special_float(float(number))
    text = str(number)
    # A reader may convert via double, so the digits must survive that too.
    return NumberText((text if np.float32(float(text)) == number else repr(float(number))).encode())


def make_datum_writer(node: Scalar) -> FromJson:
    """Return a function that turns JSON values into Avro data. It raises Misfit for a value that does not fit."""
    if isinstance(node, avro.Enum):
        return lambda value: _write_symbol(node, value)
    match node.logical:
        case "decimal":
            return lambda value: _write_sized(node, _write_unscaled(node, value))
        case "uuid":
            return lambda value: _write_uuid(node, value)
        case "date":
            return lambda value: write_varint(scalars.read_days(value))
        case str(logical) if logical not in avro.TIMES_OF_DAY:
            zoned, millis = not logical.startswith("local-"), logical in MILLIS
            return lambda value: write_varint(scalars.read_micros(value, zoned) // (_MICROS_PER_MILLI if millis else 1))
    if isinstance(node, avro.Fixed) or node.name == "bytes":
        return lambda value: _write_sized(node, scalars.decode_base64(scalars.check_string(value)))
    write = partial(write_primitive, node.name)
    return (lambda value: write(scalars.read_floating(value, node.name))) if node.name in ("float", "double") else write


def _write_symbol(node: avro.Enum, value: Any) -> bytes:
    if value not in node.symbols:
        raise Misfit(f"expected a symbol of {describe_type(node)}, found {scalars.shorten_value(value)}")
    return write_varint(node.symbols.index(value))


def _write_unscaled(node: avro.Primitive | avro.Fixed, value: Any) -> bytes:
    number = scalars.read_decimal(value, node.precision, node.scale)
    unscaled = int(Decimal((number.is_signed(), number.as_tuple().digits, 0)))
    size = node.size if isinstance(node, avro.Fixed) else (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    try:
        return unscaled.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise Misfit(f"the number {scalars.shorten_value(value)} is too large for {describe_type(node)}") from None


def _write_uuid(node: avro.Primitive | avro.Fixed, value: Any) -> bytes:
    text = scalars.check_string(value)
    try:
        octets = uuid.UUID(text).bytes
    except ValueError:
        raise Misfit(f"the string '{scalars.shorten_value(text)}' is not a UUID") from None
    return octets if isinstance(node, avro.Fixed) else write_bytes(text.encode())


def _write_sized(node: avro.Primitive | avro.Fixed, octets: bytes) -> bytes:
    if not isinstance(node, avro.Fixed):
        return write_bytes(octets)
    if len(octets) != node.size:
        raise Misfit(f"it has {len(octets)} bytes, which does not fit {describe_type(node)}")
    return octets
