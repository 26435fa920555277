"""Finds where a message ends within bytes that may go on with padding.

A field begins with its tag, a varint of its number times eight and its wire type. Numbers begin at 1, so that no tag
begins with a zero byte, and a NUL where a field should begin is not of the message.
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

_LONGEST_VARINT = 10
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)


def length_without_padding(payload: bytes) -> int:
    """Return the length of a message that nothing but NULs follow; of other payloads the whole length."""
    place, whole = 0, len(payload)
    groups: list[int] = []
    try:
        while place < whole:
            if payload[place] == 0 and not groups:
                return place if payload.count(0, place) == whole - place else whole
            tag, place = _varint(payload, place)
            kind = tag & 7
            if kind == _VARINT:
                _, place = _varint(payload, place)
            elif kind == _FIXED64:
                place += 8
            elif kind == _LENGTH:
                length, place = _varint(payload, place)
                place += length
            elif kind == _FIXED32:
                place += 4
            elif kind == _GROUP:
                groups.append(tag >> 3)
            elif kind != _END_GROUP or not groups or groups.pop() != tag >> 3:
                return whole
    except ValueError:
        pass
    return whole


def _varint(payload: bytes, place: int) -> tuple[int, int]:
    """Return the varint at a place, and the place behind it. Raises ValueError if there is none."""
    number = 0
    for count, byte in enumerate(payload[place : place + _LONGEST_VARINT]):
        number |= (byte & 127) << (7 * count)
        if byte < 128:
            return number, place + count + 1
    raise ValueError("no varint")
