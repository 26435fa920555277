"""Builds columns of strings and binaries from the values of change events."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.columns import Leaf, Misfit, describe_kind
from ...core.scalars import from_base64, json_text, shortened
from .kafka_connect_schema import FieldSchema
from .numbers import decimal_text
from .semantic_types import Semantic, semantic_of, unit_of
from .times import as_text

_NONE = type(None)
_VARIABLE_SCALE = {"scale", "value"}
_KINDS_OF_TIMES = {Semantic.DATE: "date", Semantic.TIMESTAMP: "timestamp", Semantic.TIME: "time"}


def text_column(path: str, schema: FieldSchema | None, *, decimals: bool = True) -> Leaf:
    """Return a column of the texts that values are, or of their JSON. Bytes of Avro are base64, as JSON has them.

    `decimals`: objects without schema may be VariableScaleDecimals, and are their digits then.
    """
    raw = schema is not None and schema.raw

    def exact(value: Any) -> str:
        if type(value) is str:
            return _checked(value)
        if raw and schema is not None:
            value = _as_json(value, schema)
        if schema is None and decimals and (digits := _variable_scale_digits(value)) is not None:
            return digits
        return _checked(value if type(value) is str else json_text(value))

    return Leaf(path, pa.string(), exact, kinds=frozenset((str, _NONE)), native=("leaf",))


def _variable_scale_digits(value: Any) -> str | None:
    """Return the digits of what has the shape of a VariableScaleDecimal; None for anything else."""
    if type(value) is not dict or value.keys() != _VARIABLE_SCALE or not value["value"]:
        return None
    try:
        return decimal_text(value, None)
    except Misfit:
        return None


def base64_column(path: str, schema: FieldSchema) -> Leaf:
    """Return a column of the base64 of bytes."""

    def exact(value: Any) -> str:
        if type(value) is bytes and schema.raw:
            return base64.b64encode(value).decode("ascii")
        if type(value) is not str:
            raise Misfit(f"expected bytes, found {describe_kind(value)}")
        return _checked(value)

    return Leaf(path, pa.string(), exact, kinds=frozenset((str, _NONE)), native=("leaf",))


def digits_column(path: str, schema: FieldSchema) -> Leaf:
    """Return a column of all digits of decimals."""
    return _shown(path, lambda value: decimal_text(value, schema))


def iso_column(path: str, schema: FieldSchema) -> Leaf:
    """Return a column of ISO 8601 texts of dates, timestamps and times of day."""
    write = as_text(unit_of(schema), _KINDS_OF_TIMES[semantic_of(schema)])
    return _shown(path, lambda value: write(value) if type(value) is int else _checked(_plain(value)))


def _shown(path: str, show: Callable[[Any], str]) -> Leaf:
    return Leaf(path, pa.string(), show, kinds=frozenset((_NONE,)))


def _plain(value: Any) -> str:
    return value if type(value) is str else json_text(value)


def _as_json(value: Any, schema: FieldSchema | None) -> Any:
    """Return a value of Avro as Kafka Connect's JSON converter would write it."""
    if type(value) is bytes:
        return base64.b64encode(value).decode("ascii")
    if type(value) is float:
        return _float_as_json(value, schema)
    if schema is None or type(value) not in (list, dict):
        return value
    if type(value) is dict:
        return {name: _as_json(each, schema.fields.get(name, schema.element)) for name, each in value.items()}
    if schema.kind == "map":
        return [[_as_json(each["key"], schema.key), _as_json(each["value"], schema.element)] for each in value]
    return [_as_json(each, schema.element) for each in value]


def _float_as_json(value: float, schema: FieldSchema | None) -> float | str:
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    single = schema is not None and schema.kind == "float32"
    return float(str(np.float32(value))) if single else value  # the fewest digits that tell it from its neighbours


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Misfit("the string has half of a surrogate pair, which is no character") from None
    return text


BYTES, BASE64, URL_SAFE, HEX = MODES = ("bytes", "base64", "base64-url-safe", "hex")

_PROPERTY = "the table property 'debezium.binary' to the connector's 'binary.handling.mode'"
_LIKE_HEX = re.compile(r"(?:[0-9a-f]{2}){4,}|(?:[0-9A-F]{2}){4,}")

NO_MODE = (
    f"a string does not tell how it stands for bytes; set {_PROPERTY} (base64, base64-url-safe or hex), or declare the "
    "column as STRING"
)


def binary_column(path: str, mode: str, *, raw: bool, wary: bool = False) -> Leaf:
    """Return a column. `raw`: bytes come as they are. `wary`: refuse base64 that may as well be hex."""
    decode = _WARY if wary else _DECODERS[mode]

    def exact(value: Any) -> bytes:
        if raw and type(value) is bytes:
            return value
        if type(value) is not str:
            raise Misfit(f"expected a string that stands for bytes, found {describe_kind(value)}")
        return decode(value)

    def fast(values: Sequence[Any]) -> pa.Array:
        return pa.array([None if value is None else decode(value) for value in values], pa.binary())

    native: tuple[str, ...] | None = None
    if mode in (BYTES, BASE64):
        native = ("wary",) if wary else ("leaf",)
    return Leaf(path, pa.binary(), exact, fast=fast, kinds=frozenset((str, _NONE)), native=native)


def written(array: pa.Array, mode: str) -> pa.Array:
    """Return the strings that stand for bytes in a mode."""
    write = _ENCODERS[mode]
    return pa.array([None if each is None else write(each).decode("ascii") for each in array.to_pylist()], pa.string())


def _from_url_safe(text: str) -> bytes:
    if "+" in text or "/" in text:
        raise Misfit(f"the string '{shortened(text)}' is not base64 that is safe in URLs")
    return from_base64(text.replace("-", "+").replace("_", "/"))


def _from_hex(text: str) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError as error:
        raise Misfit(f"the string '{shortened(text)}' is not hex ({error})") from None


def _from_clear_base64(text: str) -> bytes:
    if _LIKE_HEX.fullmatch(text):
        raise Misfit(f"the string '{shortened(text)}' may be hex as well as base64; set {_PROPERTY}")
    try:
        return from_base64(text)
    except Misfit as error:
        raise Misfit(f"{error}; if it stands for bytes in another way, set {_PROPERTY}") from None


_DECODERS: Mapping[str, Callable[[str], bytes]] = MappingProxyType(
    {BYTES: from_base64, BASE64: from_base64, URL_SAFE: _from_url_safe, HEX: _from_hex}
)
_WARY = _from_clear_base64
_ENCODERS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {BYTES: base64.b64encode, BASE64: base64.b64encode, URL_SAFE: base64.urlsafe_b64encode, HEX: binascii.hexlify}
)
