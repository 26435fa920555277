"""Converts Debezium's dates, timestamps and times of day to days and microseconds.

A date is a number of days, a timestamp a number of seconds, milli-, micro- or nanoseconds since 1970, or either is a
text of ISO 8601. Dates and timestamps outside the years 0001 to 9999 (PostgreSQL's infinity, dates before Christ) have
no value in Spark and are null; columns of strings show them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...core.arrow_types import find_arrow_type
from ...core.columns import Leaf, Misfit, describe_kind, expect_type
from ...core.scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS, count_micros, format_date_of_any_year
from ...core.times_of_day import UNITS, count_nanos, make_time_column, parse_time_of_day
from .matrix import Reading
from .semantic_types import Semantic, find_semantic, find_unit
from .settings import ASSUMED_MS, ONLY_NULL, Cell

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"([+-]?\d{4,9})-(\d\d)-(\d\d)(?:Z|([+-])(\d\d):(\d\d))?", re.ASCII)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,9})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
    r"(?:([Zz])|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)
_ENDLESS = ("infinity", "-infinity")
_ENDLESS_MICROS = {9_223_372_036_825_200_000: "infinity", -9_223_372_036_832_400_000: "-infinity"}
"""Debezium's numbers for PostgreSQL's infinite timestamps."""

_LARGEST_OFFSET = 18 * 3600
_DAY_MICROS = 86_400_000_000
_DAYS_WITH_SCHEMA = (range(-(2**31), 2**31),)
"""What the 32 bits of a date with a schema can hold."""
_DAYS_OF_POSTGRES: tuple[Container[int], ...] = (
    range(-2_440_588, 106_751_992),
    (-622_191_234, -625_821_272, -2_147_472_692, -2_147_472_691),
)
"""4713 BC to the year 294,247, the range of PostgreSQL's timestamps, and the numbers that Debezium's connector for
PostgreSQL writes for infinite dates, in snapshots and in the stream. PostgreSQL's dates go further, up to numbers that
could be seconds since 1970."""

_NO_MIDNIGHT = "is not midnight, so it is not a date; declare the column as TIMESTAMP or TIMESTAMP_NTZ"

_TOO_LARGE = (
    "the number {} is beyond the year 9999 in milliseconds, the unit of MySQL's DATETIME without fraction; if the "
    "column has more digits, set the table property 'debezium.time-units', for example 'created=us'"
)


def make_date_column(cell: Cell) -> Leaf:
    """Return a column that reads days since 1970, or a date as text; of plain values only texts."""
    if cell.reading is Reading.MIDNIGHT:
        return _make_midnight_column(cell)
    plain = cell.plain
    # Which numbers outside the years 0001 to 9999 are dates, and so null.
    valid_ranges: Sequence[Container[int]] = _DAYS_WITH_SCHEMA if cell.schema is not None else ()
    if cell.schema is None and not plain and cell.rules.connector == "postgresql":
        valid_ranges = _DAYS_OF_POSTGRES

    def convert_one(value: Any) -> int | None:
        if plain:
            return _parse_days(expect_type(value, str, "a date as a string"))
        if type(value) is int:
            if FIRST_DAY <= value <= LAST_DAY:
                return value
            if any(value in days for days in valid_ranges):
                return None
            raise Misfit(
                f"the number {value} is not a day of the years 0001 to 9999; if it counts another unit since 1970, "
                "declare the column as TIMESTAMP_NTZ and set the table property 'debezium.time-units', otherwise "
                "declare it as STRING"
            )
        return _parse_days(expect_type(value, str, "days since 1970 or a date"))

    native = None if plain else ("days",)
    return Leaf(cell.path, pa.date32(), convert_one, kinds=ONLY_NULL, native=native)


def _make_midnight_column(cell: Cell) -> Leaf:
    """Return a column of dates that reads timestamps at midnight in UTC, as units since 1970 or as texts."""
    assert cell.schema is not None
    unit = find_unit(cell.schema)

    def convert_one(value: Any) -> int | None:
        if type(value) is str:
            return _parse_days(value)
        if type(value) is not int or unit not in UNITS:
            raise Misfit(f"expected a timestamp, found {describe_kind(value)}")
        day, rest = divmod(value * UNITS[unit], 86_400 * UNITS["s"])
        if not FIRST_DAY <= day <= LAST_DAY:
            return None
        if rest:
            raise Misfit(f"the number {value}, which is {make_time_writer(unit, 'timestamp')(value)}, {_NO_MIDNIGHT}")
        return day

    return Leaf(cell.path, pa.date32(), convert_one, kinds=ONLY_NULL)


def _find_unit(cell: Cell, of_rules: str | None, one: str, several: str) -> tuple[str | None, str]:
    """Return the unit of whole numbers, None if there is none, and the sentence that refuses {} without a unit.

    The schema names it, else the table's properties, else the rules. `one` and `several` name what they count.
    """
    if cell.schema is not None:
        unit = cell.declared if cell.reading is Reading.DECLARED_UNIT else find_unit(cell.schema)
        return unit or None, "the number {} is not a text"
    if cell.plain:
        return None, f"expected a {one} as a string, found the number {{}}"
    return cell.declared or of_rules, cell.rules.describe_unknown_unit(several)


def make_timestamp_column(cell: Cell) -> Leaf:
    """Return a column that reads units since 1970, or a timestamp as text, in UTC if it has no offset."""
    unit, unknown = _find_unit(cell, cell.rules.default_unit, "timestamp", "timestamps")
    if unit is None and cell.reading is Reading.DECLARED_UNIT:
        return cell.refuse()
    arrow_type = find_arrow_type(cell.data_type)
    assumed = unit == ASSUMED_MS
    if assumed:
        unit = "ms"

    def convert_one(value: Any) -> int | None:
        if type(value) is int:
            if unit is None:
                raise Misfit(unknown.format(value))
            micros = _limit_micros(value * UNITS[unit] // 1000)
            if micros is None and assumed:
                raise Misfit(_TOO_LARGE.format(value))
            return micros
        return read_database_timestamp(expect_type(value, str, "a whole number or a timestamp as a string"))

    native = ("moment", -1 if unit is None else UNITS[unit] // 1000)
    return Leaf(cell.path, arrow_type, convert_one, kinds=ONLY_NULL, native=native)


def make_clock_column(cell: Cell) -> Leaf:
    """Return a column of times of day that reads units since midnight, or a time of day as text."""
    unit, unknown = _find_unit(cell, cell.rules.clock_unit, "time of day", "times of day")
    if unit is None and cell.reading is Reading.DECLARED_UNIT:
        return cell.refuse()
    # Whether texts may end with Z.
    utc = cell.rules.utc_clocks if cell.schema is None else find_semantic(cell.schema) is Semantic.ISO_TIME

    def read(value: Any) -> int:
        if type(value) is int:
            if unit is None:
                raise Misfit(unknown.format(value))
            return count_nanos(value, UNITS[unit])
        text = expect_type(value, str, "a whole number or a time of day as a string")
        return parse_time_of_day(text.removesuffix("Z") if utc else text)

    nanos = 0 if unit is None else UNITS[unit]
    return make_time_column(cell.path, cell.data_type, read, ("clock", nanos, True, utc))


def divide_down(numbers: pa.Array, divisor: int) -> pa.Array:
    """Divide whole numbers, rounding down."""
    filled: npt.NDArray[np.int64] = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(filled // divisor, mask=numbers.is_null().to_numpy(zero_copy_only=False))


def limit_to_range(numbers: pa.Array, low: int, high: int) -> pa.Array:
    """Return the numbers, with null for those out of range."""
    bounds = pc.min_max(numbers).as_py()
    if bounds["min"] is None or (low <= bounds["min"] and bounds["max"] <= high):
        return numbers
    in_range = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return pc.if_else(in_range, numbers, pa.scalar(None, numbers.type))


def _limit_micros(micros: int) -> int | None:
    return micros if FIRST_MICROS <= micros <= LAST_MICROS else None


def _parse_days(text: str) -> int | None:
    if text in _ENDLESS:
        return None
    match = _DATE.fullmatch(text)
    if match is None and (moment := _TIMESTAMP.fullmatch(text)):
        micros = read_database_timestamp(text)
        if micros is None:
            return None
        if micros % _DAY_MICROS or (moment[7] or "")[6:].strip("0"):
            raise Misfit(f"the timestamp '{text[:40]}' {_NO_MIDNIGHT}")
        return micros // _DAY_MICROS
    if match is None:
        raise Misfit(f"the string '{text[:40]}' is not a date such as 2024-01-31")
    _parse_offset(match[4], match[5], match[6], text)
    return _count_days(int(match[1]), int(match[2]), int(match[3]), text)


def _parse_offset(sign: str | None, hours: str, minutes: str | None, text: str) -> int:
    """Return the seconds east of UTC; 0 without a sign. Raises Misfit beyond 18 hours, as java.time does."""
    if not sign:
        return 0
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    if int(minutes or 0) > 59 or seconds > _LARGEST_OFFSET:
        raise Misfit(f"the string '{text[:40]}' has no offset between -18:00 and +18:00")
    return -seconds if sign == "-" else seconds


def _count_days(year: int, month: int, day: int, text: str) -> int | None:
    if not 1 <= year <= 9999:
        return None
    try:
        return datetime.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise Misfit(f"the string '{text[:40]}' is not a date of the calendar") from None


def read_database_timestamp(text: str) -> int | None:
    """Parse a timestamp as microseconds since 1970 in UTC; further digits are cut off.

    Returns None for a timestamp that Spark has no value for. Raises Misfit for any other text.
    """
    if text in _ENDLESS:
        return None
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise Misfit(f"the string '{text[:40]}' is not a timestamp such as 2024-01-31T12:00:00.5Z")
    days = _count_days(int(match[1]), int(match[2]), int(match[3]), text)
    hours, minutes, seconds = int(match[4]), int(match[5]), int(match[6] or 0)
    if hours > 23 or minutes > 59 or seconds > 60:
        raise Misfit(f"the string '{text[:40]}' is not a time of day")
    offset = _parse_offset(match[9], match[10], match[11], text)
    if days is None:
        return None
    micros = count_micros(days, (hours, minutes, seconds), match[7], offset)
    if micros is None:
        raise Misfit(f"the string '{text[:40]}' is not a time of day")
    return _limit_micros(micros)


def make_time_writer(name_unit: str, kind: str) -> Callable[[int], str]:
    """Return a function that writes numbers of a semantic type as ISO 8601, for columns of strings."""
    if kind == "date":
        return format_date_of_any_year
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[name_unit]
    per_second = 10**digits
    per_unit = 10 ** max(6 - digits, 0)

    def format_clock(value: int) -> str:
        # MySQL's TIME goes from -838:59:59 to 838:59:59; the sign belongs to the whole time.
        seconds, fraction = divmod(abs(value), per_second)
        text = f"{'-' if value < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{text}.{fraction:0{digits}}" if digits else text

    def format_moment(value: int) -> str:
        if digits <= 6 and value * per_unit in _ENDLESS_MICROS:
            return _ENDLESS_MICROS[value * per_unit]
        days, rest = divmod(value, 86_400 * per_second)
        return f"{format_date_of_any_year(days)}T{format_clock(rest)}"

    return format_clock if kind == "time" else format_moment
