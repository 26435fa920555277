"""Converts times of day, the values of Spark's TIME(p), between counts, texts and nanoseconds since midnight.

A value outside a day, or with more digits than its column has, is refused: no digit is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import DataType, TimeType

from .columns import Leaf, Misfit, NumberText
from .scalars import scale_number, shorten_value
from .writing import Cells, Rows

TIME_OF_DAY = pa.time64("ns")
"""The Arrow type of all times of day, as Spark has it."""

MOST_DIGITS = 6
"""Most digits after the seconds of a column. Spark 4.3 also has 7 to 9, but neither Avro nor earlier Sparks do."""

UNITS = MappingProxyType({"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1})
"""The nanoseconds in each unit of counts since midnight, or since 1970."""

_DAY = 86_400 * UNITS["s"]
_TEXT = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)


def count_digits(data_type: DataType) -> int:
    """Return the digits after the seconds of a type TIME(p)."""
    assert isinstance(data_type, TimeType)
    return data_type.precision


def is_time_of_day(data_type: DataType) -> bool:
    """Return whether a type is TIME(p) with digits that tables can hold."""
    return isinstance(data_type, TimeType) and 0 <= data_type.precision <= MOST_DIGITS


def make_time_column(path: str, data_type: DataType, read: Callable[[Any], int], native: tuple[Any, ...]) -> Leaf:
    """Return a column of times of day. `read` returns the nanoseconds that a value stands for, or raises Misfit.

    `native` tells the native decoder the same; the step between two values follows the kind in it.
    """
    step = _find_step(data_type)

    def convert_one(value: Any) -> int:
        nanos = read(value)
        if not 0 <= nanos < _DAY:
            raise Misfit(f"{_show(value)} is not a time of day, from 00:00:00 to before 24:00:00")
        if nanos % step:
            raise Misfit(f"{_show(value)} has more digits than {data_type.simpleString().upper()}")
        return nanos

    kind, *more = native
    return Leaf(path, TIME_OF_DAY, convert_one, kinds=frozenset((type(None),)), native=(kind, step, *more))


def _find_step(data_type: DataType) -> int:
    """Return the nanoseconds between two values of a column."""
    step: int = 10 ** (9 - count_digits(data_type))
    return step


def _show(value: Any) -> str:
    return f"the string '{shorten_value(value)}'" if type(value) is str else f"the number {shorten_value(value)}"


def parse_time_of_day(text: str) -> int:
    """Parse a text such as 12:34:56.789 as nanoseconds since midnight. Raises Misfit for any other text."""
    match = _TEXT.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in match.group(1, 2, 3)) if match else (24, 0, 0)
    if match is None or hours > 23 or minutes > 59 or seconds > 59:
        raise Misfit(f"the string '{shorten_value(text)}' is not a time of day without offset, such as 12:34:56.789")
    return (hours * 3600 + minutes * 60 + seconds) * UNITS["s"] + int((match[4] or "").ljust(9, "0"))


def count_nanos(value: int | NumberText, unit: int) -> int:
    """Return a count of units, each of some nanoseconds, in nanoseconds. Raises Misfit for digits beyond these."""
    nanos, exact = scale_number(value, unit)
    if not exact:
        raise Misfit(f"the number {shorten_value(value)} has digits beyond nanoseconds")
    return nanos


def check_times(array: pa.Array, rows: Rows, cells: Cells, data_type: DataType) -> npt.NDArray[np.int64]:
    """Return the nanoseconds of an array without nulls. Raises InvalidRowError for a value that the type lacks."""
    nanos: npt.NDArray[np.int64] = array.view(pa.int64()).to_numpy()
    for wrong, words in find_wrong_times(nanos, data_type):
        cells.refuse_first(wrong, rows, words)
    return nanos


def find_wrong_times(nanos: npt.NDArray[np.int64], data_type: DataType) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    """Yield which of some nanoseconds a type does not have, and in words what these are; for each reason."""
    yield (nanos < 0) | (nanos >= _DAY), "not a time of day, from 00:00:00 to before 24:00:00"
    name = data_type.simpleString().upper()
    yield nanos % _find_step(data_type) != 0, f"a time of day with more digits than {name}"


def write_times(nanos: npt.NDArray[np.int64], data_type: DataType) -> pa.LargeStringArray:
    """Return texts such as 12:34:56.789, with no digits, 3 or 6 after the seconds."""
    digits = count_digits(data_type)
    unit = "s" if digits == 0 else "ms" if digits <= 3 else "us"
    counts = pa.array(nanos // UNITS[unit])
    if unit == "us":
        return counts.view(pa.time64("us")).cast(pa.large_string())
    return counts.cast(pa.int32()).view(pa.time32(unit)).cast(pa.large_string())
