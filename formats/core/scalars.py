"""What single values of several formats share: ranges of dates and floats, base64, decimals, ISO 8601, JSON text."""

from __future__ import annotations

import binascii
import datetime
import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from .columns import Misfit, NumberText

_EPOCH_DAYS = 719_163
_DAY_MICROS = 86_400_000_000

FIRST_DAY, LAST_DAY = 1 - _EPOCH_DAYS, 3_652_059 - _EPOCH_DAYS
"""0001-01-01 and 9999-12-31 as days since 1970-01-01: the dates of ISO 8601 without sign."""

FIRST_MICROS, LAST_MICROS = FIRST_DAY * _DAY_MICROS, (LAST_DAY + 1) * _DAY_MICROS - 1
"""The first and last microsecond of the years 0001 to 9999, since 1970."""

FLOAT_LIMIT = (2 - 2.0**-24) * 2.0**127
"""From here on a double is infinite as a float."""

SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON has no number for, by the strings that stand for them."""


def can_be_leap_second(seconds: int) -> bool:
    """Whether a 60th second that counts as `seconds` since 1970 in UTC can be a leap second: the last of a month.

    Clocks that count from 1970, as Spark's does, have no number for it: POSIX and PostgreSQL give it that of the
    second after.
    """
    days, of_day = divmod(seconds, 86_400)
    return of_day == 0 and FIRST_DAY <= days <= LAST_DAY and _is_first_of_month(days)


def _is_first_of_month(days: int) -> bool:
    return datetime.date.fromordinal(days + _EPOCH_DAYS).day == 1


def decode_base64(text: str) -> bytes:
    """Decode base64. Raises Misfit for a text that is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise Misfit(f"the string is not base64 ({error})") from None


def parse_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the number as decimal(precision, scale). Raises Misfit if digits would be lost."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Misfit(f"the number {shorten_value(text)} has an exponent out of range") from None
    if number.is_zero():
        return Decimal((0, (0,), -scale))
    kind = f"decimal({precision},{scale})"
    if number.adjusted() >= precision - scale:
        raise Misfit(f"the number {shorten_value(text)} is out of the range of {kind}")
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    surplus = -scale - exponent
    if surplus > 0:
        if surplus >= len(digits) or any(digits[-surplus:]):
            raise Misfit(f"the number {shorten_value(text)} has more fraction digits than {kind}")
        digits = digits[:-surplus]
    else:
        digits += (0,) * -surplus
    return Decimal((sign, digits, -scale))


def shorten_value(value: object) -> str:
    """Return the text of a value for a message, cut after 40 characters."""
    try:
        text = value.decode() if isinstance(value, NumberText) else str(value)
    except ValueError:
        return "with thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


def write_json(value: Any) -> str:
    """Return the JSON text of a parsed value, compact, with the digits that numbers came with."""
    parts: list[str] = []
    left: list[Any] = [value]  # not by recursion, whose limit is near that of documents
    while left:
        current = left.pop()
        if isinstance(current, _Written | NumberText):
            parts.append(current.text if isinstance(current, _Written) else current.decode())
        elif isinstance(current, dict):
            parts.append("{")
            left.append(_Written("}"))
            for place, (key, member) in reversed(list(enumerate(current.items()))):
                left += [member, _Written(("," if place else "") + json.dumps(key, ensure_ascii=False) + ":")]
        elif isinstance(current, list):
            parts.append("[")
            left.append(_Written("]"))
            for place, member in reversed(list(enumerate(current))):
                left += [member, _Written("," if place else "")]
        else:
            parts.append(json.dumps(current, ensure_ascii=False))
    return "".join(parts)


@dataclass(frozen=True)
class _Written:
    """A text that stands between values."""

    text: str


_EPOCH = datetime.datetime(1970, 1, 1)

_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)


def parse_days(text: str) -> int | None:
    """Return the days from 1970-01-01 to a date; None for a text that is none."""
    try:
        days = pa.scalar(text).cast(pa.date32()).value
    except (pa.ArrowInvalid, ValueError):
        return None
    return int(days) if FIRST_DAY <= days <= LAST_DAY else None


def parse_micros(text: str, zoned: bool) -> int | None:
    """Return microseconds since 1970 (in UTC, or of the local time). Digits beyond microseconds are cut off."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[6] is not None) is not zoned or (zoned and match[2] is None):
        return None
    days = parse_days(match[1])
    hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
    if days is None or hours > 23 or minutes > 59 or seconds > 60:
        return None
    offset = 0
    if match[6] is not None and match[6] not in "Zz":
        digits = match[6][1:].replace(":", "").ljust(4, "0")
        offset_hours, offset_minutes = int(digits[:2]), int(digits[2:])
        if offset_hours > 23 or offset_minutes > 59:
            return None
        offset = (offset_hours * 60 + offset_minutes) * (-60 if match[6][0] == "-" else 60)
    fraction = int((match[5] or "").ljust(6, "0")[:6])
    whole = days * 86_400 + hours * 3600 + minutes * 60 + seconds - offset
    if seconds == 60 and not (zoned and can_be_leap_second(whole)):
        return None
    micros = whole * 1_000_000 + fraction
    return micros if FIRST_MICROS <= micros <= LAST_MICROS else None


def format_date(days: int) -> str | None:
    """Return the date that is this many days after 1970-01-01; None outside the years 0001 to 9999."""
    if not FIRST_DAY <= days <= LAST_DAY:
        return None
    return (_EPOCH + datetime.timedelta(days)).date().isoformat()


def format_timestamp(micros: int, zoned: bool) -> str | None:
    """Return the time this many microseconds after 1970, with Z if `zoned`; None outside the years 0001 to 9999."""
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        return None
    text = (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    return text + "Z" if zoned else text
