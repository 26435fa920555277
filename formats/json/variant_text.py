"""Writes a VARIANT as the JSON text that Java's `to_json` shows in a session whose time zone is UTC.

PySpark's own `to_json` rounds decimals to 28 digits, writes some with an exponent, and shows other digits of floats.
FLOAT and DOUBLE have the digits that Java shows since version 19: as few as distinguish it from other numbers.
"""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from uuid import UUID

import numpy as np

from ..core.columns import Misfit
from ..core.scalars import format_date_of_any_year

_NUMBERS = {3: 1, 4: 2, 5: 4, 6: 8}
"""The sizes of whole numbers, by their kinds."""
_DECIMALS = {8: 4, 9: 8, 10: 16}
_DOUBLE, _DATE, _TIMESTAMP, _TIMESTAMP_NTZ, _FLOAT, _BINARY, _STRING, _UUID = 7, 11, 12, 13, 14, 15, 16, 20
_CONSTANTS = {0: "null", 1: "true", 2: "false"}

_encode = json.JSONEncoder(ensure_ascii=False).encode
_CODE = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")
_DAY = 86_400_000_000


def write_variant_text(value: bytes, metadata: bytes, deepest: int) -> str:
    """Return the JSON text of a VARIANT, with at most `deepest` levels of arrays and objects.

    Raises Misfit for a value without a JSON text, and for one whose text is not read.
    """
    try:
        return "".join(_VariantText(value, metadata, deepest).parts())
    except Misfit:
        raise
    except (IndexError, ValueError) as error:
        raise Misfit(f"a VARIANT that has no JSON (its bytes are damaged: {error})") from error


def is_sorted_as_in_java(keys: list[str]) -> bool:
    """Return whether Java sorts keys like Python: in its UTF-16, characters above U+FFFF precede those from U+E000."""
    return all(map(str.isascii, keys)) or sorted(keys) == sorted(keys, key=lambda key: key.encode("utf-16-be"))


class _VariantText:
    """The parts of a VARIANT: its bytes, and the keys of its objects."""

    def __init__(self, value: bytes, metadata: bytes, deepest: int) -> None:
        self._value, self._deepest = value, deepest
        self._keys = _read_keys(metadata)

    def parts(self) -> list[str]:
        """Return the pieces of the text. It walks without recursion, whose limit is lower than that of documents."""
        pieces: list[str] = []
        left: list[tuple[int, int] | str] = [(0, 0)]
        while left:
            step = left.pop()
            if isinstance(step, str):
                pieces.append(step)
                continue
            at, depth = step
            basic, kind = self._value[at] & 3, self._value[at] >> 2
            if basic == 1:
                pieces.append(write_string(self._text(at + 1, kind)))
            elif basic == 0:
                pieces.append(self._scalar(at + 1, kind))
            elif depth == self._deepest:
                raise Misfit(f"a VARIANT whose arrays and objects are nested more than {depth} levels deep")
            else:
                keys, places = self._object(at) if basic == 2 else self._array(at)
                pieces.append("{" if basic == 2 else "[")
                left.append("}" if basic == 2 else "]")
                for index in range(len(places) - 1, -1, -1):
                    left.append((places[index], depth + 1))
                    begin = "," if index else ""
                    left.append(f"{begin}{write_string(keys[index])}:" if basic == 2 else begin)
        return pieces

    def _number(self, at: int, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._bytes(at, size), "little", signed=signed)

    def _bytes(self, at: int, size: int) -> bytes:
        octets = self._value[at : at + size]
        if len(octets) < size:
            raise ValueError("they end too early")
        return octets

    def _text(self, at: int, size: int) -> str:
        return self._bytes(at, size).decode()

    def _object(self, at: int) -> tuple[list[str], list[int]]:
        """Return the keys of an object, and the places of its values."""
        kind = self._value[at] >> 2
        size = 4 if kind & 16 else 1
        count = self._number(at + 1, size)
        id_size, offset_size = (kind >> 2 & 3) + 1, (kind & 3) + 1
        ids = at + 1 + size
        keys = [self._keys[self._number(ids + index * id_size, id_size)] for index in range(count)]
        if not is_sorted_as_in_java(keys):
            raise Misfit(
                "a VARIANT that could not be read back (no VARIANT can hold an object whose keys mix characters beyond "
                "U+FFFF with some below it)"
            )
        return keys, self._places(ids + count * id_size, count, offset_size)

    def _array(self, at: int) -> tuple[list[str], list[int]]:
        kind = self._value[at] >> 2
        size = 4 if kind & 4 else 1
        return [], self._places(at + 1 + size, self._number(at + 1, size), (kind & 3) + 1)

    def _places(self, offsets: int, count: int, size: int) -> list[int]:
        data = offsets + (count + 1) * size
        return [data + self._number(offsets + index * size, size) for index in range(count)]

    def _scalar(self, at: int, kind: int) -> str:
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind in _NUMBERS:
            return str(self._number(at, _NUMBERS[kind], signed=True))
        if kind in _DECIMALS:
            return _write_decimal(self._number(at + 1, _DECIMALS[kind], signed=True), self._number(at, 1))
        if kind == _DOUBLE:
            return write_double(struct.unpack("<d", self._bytes(at, 8))[0])
        if kind == _FLOAT:
            return write_float(np.frombuffer(self._bytes(at, 4), "<f4")[0])
        if kind == _STRING:
            return write_string(self._text(at + 4, self._number(at, 4)))
        return f'"{self._quoted(at, kind)}"'

    def _quoted(self, at: int, kind: int) -> str:
        if kind == _DATE:
            return format_date_of_any_year(self._number(at, 4, signed=True))
        if kind in (_TIMESTAMP, _TIMESTAMP_NTZ):
            return write_time(self._number(at, 8, signed=True)) + ("+00:00" if kind == _TIMESTAMP else "")
        if kind == _BINARY:
            return base64.b64encode(self._bytes(at + 4, self._number(at, 4))).decode()
        if kind == _UUID:
            return str(UUID(bytes=self._bytes(at, 16)))
        raise Misfit(f"a VARIANT that has no JSON (it holds a value of the unknown kind {kind})")


def _read_keys(metadata: bytes) -> list[str]:
    """Return the keys of all objects of a VARIANT."""
    size = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + size], "little")
    begin = 1 + (count + 2) * size
    if len(metadata) < begin:
        raise ValueError("they end too early")
    bounds = [int.from_bytes(metadata[at : at + size], "little") for at in range(1 + size, begin, size)]
    if bounds != sorted(bounds) or len(metadata) < begin + bounds[-1]:
        raise ValueError("they end too early")
    return [metadata[begin + bounds[at] : begin + bounds[at + 1]].decode() for at in range(count)]


def write_string(text: str) -> str:
    """Return a string in JSON. Like Java, it writes the codes of control characters in capitals."""
    written = _encode(text)
    return _CODE.sub(lambda match: f"{match[1]}\\u00{match[2].upper()}", written) if "\\u00" in written else written


def _write_decimal(unscaled: int, scale: int) -> str:
    """Return a decimal without an exponent, and without zeros at the end of its fraction."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    point = len(digits) - scale
    fraction = digits[point:].rstrip("0")
    return ("-" if unscaled < 0 else "") + digits[:point] + (f".{fraction}" if fraction else "")


def write_double(value: float) -> str:
    """Return the shortest digits that are the same double, as Java notes them. Raises Misfit for NaN and infinity."""
    return _note_number(value, repr(value))


def write_float(value: np.float32) -> str:
    """Return the shortest digits that are the same float, as Java notes them. Raises Misfit for NaN and infinity."""
    return _note_number(float(value), np.format_float_scientific(value))


def _note_number(value: float, shortest: str) -> str:
    """Return a number as Java notes it: with two digits or more, and an exponent below 0.001 and from 10 million on."""
    if not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else "infinity"
        raise Misfit(f"a VARIANT that has no JSON (it holds {shown})")
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _split_number(shortest.lstrip("-"))
    if len(digits) == 1:
        # Java looks for the closest number of two digits then, as in 4.9E-324.
        digits, exponent = _split_number(format(abs(value), ".1e"))
    if not -3 <= exponent < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    digits = digits.ljust(exponent + 2, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def _split_number(text: str) -> tuple[str, int]:
    """Return the digits of a positive number without zeros around them, and the power of ten of the first one."""
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    return digits.rstrip("0"), exponent


def write_time(micros: int) -> str:
    """Return microseconds since 1970 as Java shows them, of any year."""
    days, rest = divmod(micros, _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{format_date_of_any_year(days)} {hour:02}:{minute:02}:{second:02}{shown}"
