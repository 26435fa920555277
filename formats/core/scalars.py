"""Converts single values for several formats: dates and timestamps of ISO 8601, base64, decimals, and JSON text."""

from __future__ import annotations

import binascii
import datetime
import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .columns import NEGATIVE_ZERO, Leaf, Misfit, NumberText, describe_kind, expect_type

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAYS = 719_163
_DAY_MICROS = 86_400_000_000
_DAYS_OF_CYCLE = 146_097
_EXACT = Context(prec=38, traps=[Inexact])
_MOST_DIGITS = 60
"""More digits than the count of any time has."""

FIRST_DAY, LAST_DAY = 1 - _EPOCH_DAYS, 3_652_059 - _EPOCH_DAYS
"""0001-01-01 and 9999-12-31 as days since 1970-01-01: the dates of ISO 8601 without sign."""

FIRST_MICROS, LAST_MICROS = FIRST_DAY * _DAY_MICROS, (LAST_DAY + 1) * _DAY_MICROS - 1
"""The first and last microsecond of the years 0001 to 9999, since 1970."""

FLOAT_LIMIT = (2 - 2.0**-24) * 2.0**127
"""Doubles of at least this size are infinite as floats."""

_FLOATS = frozenset((float, type(None)))

SPECIAL_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats that are not numbers in JSON, by the strings that stand for them."""

_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)


def check_string(value: Any) -> str:
    """Return a value that is a string of characters. Raises Misfit for any other."""
    return check_characters(expect_type(value, str, "a string"))


def check_characters(text: str) -> str:
    """Return a text that consists of characters. Raises Misfit for half of a surrogate pair in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Misfit("the string has half of a surrogate pair, which is not a character") from None
    return text


def read_anything(value: Any) -> str:
    """Return a string as it is, and another value as its JSON text. Raises Misfit as `check_characters` does."""
    return check_characters(value if type(value) is str else write_json(value))


def check_boolean(value: Any) -> bool:
    """Return a JSON value that is true or false. Raises Misfit for any other."""
    return expect_type(value, bool, "true or false")


def check_integer(value: Any, bits: int, kind: str) -> int:
    """Return a JSON value that is a whole number of so many bits. Raises Misfit, which names the type `kind`."""
    number = expect_type(value, int, "an integer")
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise Misfit(f"the integer {shorten_value(value)} is out of the range of {kind}")
    return number


def read_floating(value: Any, kind: str) -> float:
    """Return the `float` or `double` that a JSON value stands for, be it a string such as NaN. Raises Misfit."""
    if type(value) is str and value in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[value]
    if type(value) not in (float, int, NumberText):
        raise Misfit(f"expected a number, found {describe_kind(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if abs(number) >= (FLOAT_LIMIT if kind == "float" else math.inf):
        raise Misfit(f"the number {shorten_value(value)} is out of the range of {kind}")
    return number


def name_special_float(number: float) -> float | str:
    """Return a number, or the string that stands for it in JSON."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def read_decimal(value: Any, precision: int, scale: int) -> Decimal:
    """Return the decimal(precision, scale) that a JSON number stands for. Raises Misfit as `parse_decimal` does."""
    if type(value) not in (int, NumberText):
        raise Misfit(f"expected a number, found {describe_kind(value)}")
    return parse_decimal(value.decode() if type(value) is NumberText else str(value), precision, scale)


def read_days(value: Any) -> int:
    """Return the date that a JSON value stands for, as days since 1970-01-01. Raises Misfit if it is not a date."""
    days = parse_days(expect_type(value, str, "a date as a string"))
    if days is None:
        raise Misfit(f"the string '{shorten_value(value)}' is not a date such as 2024-01-31")
    return days


def read_micros(value: Any, zoned: bool) -> int:
    """Return the timestamp that a JSON value stands for, as `parse_micros` does. Raises Misfit if it is none."""
    micros = parse_micros(expect_type(value, str, "a timestamp as a string"), zoned)
    if micros is None:
        rule, sign = ("with Z or an offset", "Z") if zoned else ("without Z or offset", "")
        example = f"2024-01-31T12:00:00.5{sign}"
        raise Misfit(f"the string '{shorten_value(value)}' is not a timestamp {rule}, such as {example}")
    return micros


def make_moment_column(
    path: str,
    arrow_type: pa.DataType,
    exact: Callable[[Any], int],
    count: Callable[[Sequence[Any]], pa.Array],
    *,
    kinds: frozenset[type] | None = None,
    native: tuple[Any, ...] | None = None,
) -> Leaf:
    """Return a column of dates or timestamps of the years 0001 to 9999, counted in days or microseconds since 1970.

    `exact` returns the count that a value stands for, or raises Misfit; `count` returns those of all values, whatever
    the year, or raises what Arrow raises.
    """
    first, last = (FIRST_DAY, LAST_DAY) if pa.types.is_date(arrow_type) else (FIRST_MICROS, LAST_MICROS)

    def convert_all(values: Sequence[Any]) -> pa.Array:
        counts = count(values)
        bounds = pc.min_max(counts).as_py()
        if bounds["min"] is not None and not first <= bounds["min"] <= bounds["max"] <= last:
            raise ValueError
        return counts.view(arrow_type)

    return Leaf(path, arrow_type, exact, fast=convert_all, kinds=kinds, native=native)


def parse_days(text: str) -> int | None:
    """Parse a date as days since 1970-01-01; return None if the text is not a date."""
    try:
        days = pa.scalar(text).cast(pa.date32()).value
    except (pa.ArrowInvalid, ValueError):
        return None
    return int(days) if FIRST_DAY <= days <= LAST_DAY else None


def parse_micros(text: str, zoned: bool) -> int | None:
    """Parse a timestamp as microseconds since 1970, in UTC if `zoned`, else of local time.

    Returns None if the text is not such a timestamp. Digits beyond microseconds are cut off.
    """
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
    if seconds == 60 and not zoned:
        return None
    micros = count_micros(days, (hours, minutes, seconds), match[5], offset)
    return micros if micros is not None and FIRST_MICROS <= micros <= LAST_MICROS else None


def count_micros(days: int, clock: tuple[int, int, int], fraction: str | None, offset: int) -> int | None:
    """Return the microseconds from 1970 to a time in UTC; further digits of the fraction are cut off.

    `clock`: hours, minutes, seconds. `offset`: seconds east of UTC. Returns None for an impossible leap second.
    """
    hours, minutes, seconds = clock
    whole = days * 86_400 + hours * 3600 + minutes * 60 + seconds - offset
    if seconds == 60 and not can_be_leap_second(whole):
        return None
    return whole * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])


def can_be_leap_second(seconds: int) -> bool:
    """Return whether a 60th second can be a leap second: the last second of a month in UTC.

    `seconds` is its number since 1970. Clocks that count from 1970, as Spark's does, have no number of their own for
    it: POSIX and PostgreSQL give it the number of the following second.
    """
    days, of_day = divmod(seconds, 86_400)
    if of_day != 0 or not FIRST_DAY <= days <= LAST_DAY:
        return False
    return datetime.date.fromordinal(days + _EPOCH_DAYS).day == 1


def format_date(days: int) -> str:
    """Return the date that is this many days after 1970-01-01. Raises Misfit outside the years 0001 to 9999."""
    if not FIRST_DAY <= days <= LAST_DAY:
        raise Misfit("the date is outside the years 0001 to 9999, the range of dates in JSON")
    return format_date_of_any_year(days)


def format_date_of_any_year(days: int) -> str:
    """Return the date that is this many days after 1970-01-01, with a sign outside the years 0000 to 9999."""
    # The calendar repeats itself after 400 years.
    cycles, rest = divmod(days - FIRST_DAY, _DAYS_OF_CYCLE)
    same = datetime.date.fromordinal(rest + 1)
    year = same.year + 400 * cycles
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{same.month:02}-{same.day:02}"


def format_timestamp(micros: int, zoned: bool) -> str:
    """Return the time this many microseconds after 1970, with Z if `zoned`. Raises Misfit as `format_date` does."""
    if not FIRST_MICROS <= micros <= LAST_MICROS:
        raise Misfit("the timestamp is outside the years 0001 to 9999, the range of dates in JSON")
    text = (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    return text + "Z" if zoned else text


def decode_base64(text: str) -> bytes:
    """Decode base64. Raises Misfit for any other text."""
    try:
        return read_base64(text)
    except ValueError as error:
        raise Misfit(f"the string is not base64 ({error})") from None


def read_base64(text: str) -> bytes:
    """Decode canonical base64 (RFC 4648, 3.5): padded, with nothing else and no bits left over. Raises ValueError."""
    data = binascii.a2b_base64(text, strict_mode=True)
    if len(text) % 4:
        raise ValueError("Incorrect padding")
    if text[-1:] == "=" and (text[-3] not in "AQgw" if text[-2] == "=" else text[-2] not in "AEIMQUYcgkosw048"):
        raise ValueError("its last digit has bits that belong to no byte")
    return data


def parse_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Parse a number as decimal(precision, scale). Raises Misfit if it does not fit, or digits would be lost."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Misfit(f"the number {shorten_value(text)} has an exponent out of range") from None
    if number.is_zero():
        return Decimal((0, (0,), -scale))
    kind = f"decimal({precision},{scale})"
    if number.adjusted() >= precision - scale:
        raise Misfit(f"the number {shorten_value(text)} is out of the range of {kind}")
    try:
        return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    except Inexact:
        raise Misfit(f"the number {shorten_value(text)} has more fraction digits than {kind}") from None


def scale_number(value: int | NumberText, unit: int) -> tuple[int, bool]:
    """Return a number times a whole one, rounded down, and whether that is exact. Numbers beyond all times stay so."""
    if isinstance(value, int):
        return value * unit, True
    context = Context(prec=_MOST_DIGITS, rounding=ROUND_FLOOR)
    try:
        scaled = context.quantize(context.multiply(Decimal(value.decode()), unit), 1)
    except (InvalidOperation, Overflow):
        return 10**_MOST_DIGITS, True
    return int(scaled), not context.flags[Inexact]


def parse_unscaled(value: bytes, written_scale: int, precision: int, scale: int) -> Decimal:
    """Return the decimal(precision, scale) of an unscaled number in bytes. Raises Misfit as `parse_decimal` does."""
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**38:
        raise Misfit(f"the number is out of the range of decimal({precision},{scale})")
    return parse_decimal(f"{number}E-{written_scale}", precision, scale)


def convert_decimal_texts(texts: Sequence[str | None], arrow_type: pa.DataType) -> pa.Array:
    """Convert the texts of decimals. Raises ValueError for what Arrow does not convert, or not exactly."""
    # Arrow reads beyond its tables if digits and exponent are far apart (1e-99): it gets short numbers without one.
    longest = max(map(len, filter(None, texts)), default=0)
    if longest > 38:
        raise ValueError
    strings = pa.array(texts, pa.string())
    if pc.any(pc.match_substring_regex(strings, "[^-+.0-9]")).as_py():
        raise ValueError
    if longest + arrow_type.scale > 38:
        # With more digits behind the point than 128 bits hold, Arrow would make another number of it.
        strings = strings.cast(pa.decimal256(76, arrow_type.scale))
    return strings.cast(arrow_type)


def convert_floats(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Convert what `float` takes. Raises OverflowError for a number that becomes infinite."""
    if not _FLOATS.issuperset(map(type, values)):
        values = [None if value is None else float(value) for value in values]
    array = pa.array(values, arrow_type)
    if pc.any(pc.is_inf(array)).as_py():
        raise OverflowError
    return array


def shorten_value(value: object) -> str:
    """Return the text of a value for a message, cut after 40 characters."""
    try:
        text = value.decode() if isinstance(value, NumberText) else str(value)
    except ValueError:
        return "with thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."


# A string without an end is scanned only once, too.
_BRACKETS = re.compile(r'"(?:[^"\\]+|\\.)*+"?|([\[{])|[\]}]', re.DOTALL)


def is_nested_deeper(text: str, levels: int) -> bool:
    """Return whether the arrays and objects of a JSON text are nested more than this many levels deep."""
    if text.count("[") + text.count("{") <= levels:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match.lastindex:
            depth += 1
            if depth > levels:
                return True
        elif match[0] in "]}":
            depth -= 1
    return False


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(value: Any) -> str:
    """Return the compact JSON text of a parsed value. Numbers keep the digits of their NumberText."""
    try:
        return _encode(value)
    except (TypeError, RecursionError):
        pass  # It has a NumberText, or is too deep.
    parts: list[str] = []
    left: list[Any] = [value]  # instead of recursion, whose limit is close to that of documents
    while left:
        current = left.pop()
        if isinstance(current, _Written):
            parts.append(current)
        elif isinstance(current, NumberText):
            parts.append("0" if current is NEGATIVE_ZERO else current.decode())
        elif isinstance(current, dict):
            parts.append("{")
            left.append(_Written("}"))
            for number, (key, member) in reversed(list(enumerate(current.items()))):
                left += [member, _Written(f"{',' if number else ''}{_encode(key)}:")]
        elif isinstance(current, list):
            parts.append("[")
            left.append(_Written("]"))
            for number, member in reversed(list(enumerate(current))):
                left += [member, _Written("," if number else "")]
        else:
            parts.append(_encode(current))
    return "".join(parts)


class _Written(str):
    """A text between values, unlike a string among them."""

    __slots__ = ()
