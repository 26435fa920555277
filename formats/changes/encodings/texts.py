"""Builds columns of strings and binaries from the values of change events."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.arrow_types import find_arrow_type
from ...core.columns import Leaf, Misfit, expect_type
from ...core.scalars import check_characters, decode_base64, name_special_float, read_anything, shorten_value
from ...json.variants import encode_variant, parse_variant
from ..feed import OWN_CONNECTOR
from .kafka_connect_schema import FieldSchema
from .matrix import Reading
from .numbers import read_decimal_digits
from .semantic_types import Semantic, find_semantic, find_unit
from .settings import BASE64, BYTES, HEX, MAXWELL, ONLY_NULL, URL_SAFE, Cell
from .times import make_time_writer

_PROPERTY = "the table property 'debezium.binary' to the connector's 'binary.handling.mode'"
_LIKE_HEX = re.compile(r"(?:[0-9a-f]{2}){4,}|(?:[0-9A-F]{2}){4,}")

_NO_MODE = (
    f"a string does not show how it encodes bytes; set {_PROPERTY} (base64, base64-url-safe or hex), or declare the "
    "column as STRING"
)

_TEXTS: frozenset[type] = frozenset((str, type(None)))
_VARIABLE_SCALE = {"scale", "value"}
_KINDS_OF_TIMES = {Semantic.DATE: "date", Semantic.TIMESTAMP: "timestamp", Semantic.TIME: "time"}


def make_string_column(cell: Cell) -> Leaf:
    """Return a column of strings: texts as they are, other values as JSON, or as the cell says."""
    match cell.reading:
        case Reading.DIGITS:
            show = partial(read_decimal_digits, schema=cell.schema)
            return Leaf(cell.path, pa.string(), show, kinds=ONLY_NULL)
        case Reading.ISO:
            return _make_iso_column(cell)
        case Reading.BASE64:
            return _make_base64_column(cell)
    schema = cell.schema
    # Objects without a schema may be VariableScaleDecimals, which the column shows as digits.
    decimals = schema is None and not cell.plain and cell.rules.connector != MAXWELL

    def convert_one(value: Any) -> str:
        if type(value) is str:
            return check_characters(value)
        if cell.raw:
            value = _convert_to_json(value, schema)
        if decimals and (digits := _read_variable_scale_digits(value)) is not None:
            return digits
        return read_anything(value)

    return Leaf(cell.path, pa.string(), convert_one, kinds=_TEXTS, native=("leaf",))


def _read_variable_scale_digits(value: Any) -> str | None:
    """Return the digits of an object with the shape of a VariableScaleDecimal; None for anything else."""
    if type(value) is not dict or value.keys() != _VARIABLE_SCALE or not value["value"]:
        return None
    try:
        return read_decimal_digits(value, None)
    except Misfit:
        return None


def make_variant_column(cell: Cell) -> Leaf:
    """Return a column of JSON values of any kind. Bytes of Avro are base64, as in JSON.

    Strings hold the JSON text of the value, as in Debezium's columns of JSON, unless Maxwell wrote them.
    """
    parsed = not cell.plain and cell.rules.connector != MAXWELL

    def convert_one(value: Any) -> dict[str, bytes] | None:
        if type(value) is str and parsed:
            return parse_variant(value)
        return encode_variant(_convert_to_json(value, cell.schema) if cell.raw else value)

    return Leaf(cell.path, find_arrow_type(cell.data_type), convert_one, kinds=ONLY_NULL)


def _make_base64_column(cell: Cell) -> Leaf:
    def convert_one(value: Any) -> str:
        if type(value) is bytes and cell.raw:
            return base64.b64encode(value).decode("ascii")
        return check_characters(expect_type(value, str, "bytes"))

    return Leaf(cell.path, pa.string(), convert_one, kinds=_TEXTS, native=("leaf",))


def _make_iso_column(cell: Cell) -> Leaf:
    """Return a column of ISO 8601 texts of dates, timestamps and times of day."""
    assert cell.schema is not None
    write = make_time_writer(find_unit(cell.schema), _KINDS_OF_TIMES[find_semantic(cell.schema)])

    def show(value: Any) -> str:
        return write(value) if type(value) is int else read_anything(value)

    return Leaf(cell.path, pa.string(), show, kinds=ONLY_NULL)


def _convert_to_json(value: Any, schema: FieldSchema | None) -> Any:
    """Return a value of Avro as Kafka Connect's JSON converter would write it."""
    if type(value) is bytes:
        return base64.b64encode(value).decode("ascii")
    if type(value) is float:
        single = schema is not None and schema.kind == "float32"
        # The fewest digits that distinguish it from its neighbours.
        return name_special_float(float(str(np.float32(value))) if single else value)
    if schema is None or type(value) not in (list, dict):
        return value
    if type(value) is dict:
        return {
            name: _convert_to_json(member, schema.fields.get(name, schema.element)) for name, member in value.items()
        }
    if schema.kind == "map":
        return [
            [_convert_to_json(entry["key"], schema.key), _convert_to_json(entry["value"], schema.element)]
            for entry in value
        ]
    return [_convert_to_json(item, schema.element) for item in value]


def make_binary_column(cell: Cell) -> Leaf:
    """Return a column of bytes: of Avro's bytes, or of strings that encode bytes in the table's mode."""
    mode, wary = cell.rules.binary, False
    if cell.reading is Reading.BYTES:
        mode = BYTES
    elif cell.schema is None:
        # Base64 that may also be hex is refused.
        wary = not mode and cell.rules.connector not in (OWN_CONNECTOR, MAXWELL)
        mode = mode or BASE64
    elif mode in ("", BYTES):
        return cell.refuse(f"{cell.describe_types()}: {_NO_MODE}")
    raw = cell.raw and cell.reading is Reading.BYTES
    decode = _decode_clear_base64 if wary else _DECODERS[mode]

    def convert_one(value: Any) -> bytes:
        if raw and type(value) is bytes:
            return value
        return decode(expect_type(value, str, "a string that encodes bytes"))

    native: tuple[str, ...] | None = None
    if mode in (BYTES, BASE64):
        native = ("wary",) if wary else ("leaf",)
    return Leaf(cell.path, pa.binary(), convert_one, kinds=ONLY_NULL, native=native)


def encode_bytes(array: pa.Array, mode: str) -> pa.Array:
    """Return the strings that encode bytes in a mode."""
    write = _ENCODERS[mode]
    return pa.array([None if item is None else write(item).decode("ascii") for item in array.to_pylist()], pa.string())


def _decode_url_safe(text: str) -> bytes:
    if "+" in text or "/" in text:
        raise Misfit(f"the string '{shorten_value(text)}' is not base64 that is safe in URLs")
    return decode_base64(text.replace("-", "+").replace("_", "/"))


def _decode_hex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError as error:
        raise Misfit(f"the string '{shorten_value(text)}' is not hex ({error})") from None


def _decode_clear_base64(text: str) -> bytes:
    if _LIKE_HEX.fullmatch(text):
        raise Misfit(f"the string '{shorten_value(text)}' may be hex as well as base64; set {_PROPERTY}")
    try:
        return decode_base64(text)
    except Misfit as error:
        raise Misfit(f"{error}; if it encodes bytes in another way, set {_PROPERTY}") from None


_DECODERS: Mapping[str, Callable[[str], bytes]] = MappingProxyType(
    {BYTES: decode_base64, BASE64: decode_base64, URL_SAFE: _decode_url_safe, HEX: _decode_hex}
)
_ENCODERS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {BYTES: base64.b64encode, BASE64: base64.b64encode, URL_SAFE: base64.urlsafe_b64encode, HEX: binascii.hexlify}
)
