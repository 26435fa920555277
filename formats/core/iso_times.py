"""Reads and writes dates and timestamps of ISO 8601, of the years 0001 to 9999, one at a time."""

from __future__ import annotations

import datetime
import re

import pyarrow as pa

from .scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS, leap_second_counts

_EPOCH = datetime.datetime(1970, 1, 1)

_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)


def days_of(text: str) -> int | None:
    """Return the days from 1970-01-01 to a date; None for a text that is none."""
    try:
        days = pa.scalar(text).cast(pa.date32()).value
    except (pa.ArrowInvalid, ValueError):
        return None
    return int(days) if FIRST_DAY <= days <= LAST_DAY else None


def micros_of(text: str, zoned: bool) -> int | None:
    """Return microseconds since 1970 (in UTC, or of the local time). Digits beyond microseconds are cut off."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[6] is not None) is not zoned or (zoned and match[2] is None):
        return None
    days = days_of(match[1])
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
    if seconds == 60 and not (zoned and leap_second_counts(whole)):
        return None
    micros = whole * 1_000_000 + fraction
    return micros if FIRST_MICROS <= micros <= LAST_MICROS else None


def date_text(days: int) -> str | None:
    """Return the date that is this many days after 1970-01-01; None outside the years 0001 to 9999."""
    if not FIRST_DAY <= days <= LAST_DAY:
        return None
    return (_EPOCH + datetime.timedelta(days)).date().isoformat()


def timestamp_text(micros: int, zoned: bool) -> str | None:
    """Return the time that is this many microseconds after 1970, with Z if `zoned`; None where `date_text` does so."""
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        return None
    text = (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    return text + "Z" if zoned else text
