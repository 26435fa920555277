"""What single values of several formats have in common: ranges of dates and floats, base64, exact decimals."""

from __future__ import annotations

import binascii
import datetime
import math
from decimal import Decimal, InvalidOperation

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


def leap_second_counts(seconds: int) -> bool:
    """Whether a 60th second that counts as `seconds` since 1970 in UTC can be a leap second: the last of a month.

    Clocks that count from 1970, as Spark's does, have no number for it: POSIX and PostgreSQL give it that of the
    second after.
    """
    days, of_day = divmod(seconds, 86_400)
    return of_day == 0 and FIRST_DAY <= days <= LAST_DAY and _first_of_month(days)


def _first_of_month(days: int) -> bool:
    return datetime.date.fromordinal(days + _EPOCH_DAYS).day == 1


def from_base64(text: str) -> bytes:
    """Decode base64. Raises Misfit for a text that is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise Misfit(f"the string is not base64 ({error})") from None


def exact_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return the number as decimal(precision, scale). Raises Misfit if digits would be lost."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Misfit(f"the number {shortened(text)} has an exponent out of range") from None
    if number.is_zero():
        return Decimal((0, (0,), -scale))
    kind = f"decimal({precision},{scale})"
    if number.adjusted() >= precision - scale:
        raise Misfit(f"the number {shortened(text)} is out of the range of {kind}")
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    surplus = -scale - exponent
    if surplus > 0:
        if surplus >= len(digits) or any(digits[-surplus:]):
            raise Misfit(f"the number {shortened(text)} has more fraction digits than {kind}")
        digits = digits[:-surplus]
    else:
        digits += (0,) * -surplus
    return Decimal((sign, digits, -scale))


def shortened(value: object) -> str:
    """Return the text of a value for a message, cut after 40 characters."""
    try:
        text = value.decode() if isinstance(value, NumberText) else str(value)
    except ValueError:
        return "with thousands of digits"
    return text if len(text) <= 40 else text[:37] + "..."
