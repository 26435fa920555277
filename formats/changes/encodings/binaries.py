"""Builds columns of bytes by the modes of the connector's `binary.handling.mode`.

| mode | in JSON | in Avro |
|---|---|---|
| `bytes` | base64, as Kafka Connect's converter writes bytes | bytes |
| `base64`, `base64-url-safe`, `hex` | a string | a string |
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from ...core.columns import Leaf, Misfit, kind_of
from ...core.scalars import from_base64, shortened

BYTES, BASE64, URL_SAFE, HEX = MODES = ("bytes", "base64", "base64-url-safe", "hex")

_NONE = type(None)
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
            raise Misfit(f"expected a string that stands for bytes, found {kind_of(value)}")
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
