"""Reads and writes JSON timestamps that are numbers since 1970, for writers that do not use ISO 8601.

Times of day are numbers since midnight, of the same unit. They are read exactly, or not at all.

A number is read exactly; digits beyond microseconds are cut off. It is written without a fraction if it is whole.
A `timestamp` counts from 1970-01-01T00:00:00Z, a `timestamp_ntz` from 1970-01-01T00:00:00 on its own clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType

from ..core.arrow_types import find_arrow_type
from ..core.columns import Column, Misfit, NumberText, describe_kind
from ..core.format import Settings
from ..core.scalars import FIRST_MICROS, LAST_MICROS, make_moment_column, scale_number, shorten_value
from ..core.times_of_day import UNITS, count_nanos, make_time_column

TIMESTAMP_FORMAT = "json.timestamp-format"
ISO = "iso"
EPOCH_UNITS = {"epoch-seconds": 1_000_000, "epoch-millis": 1_000, "epoch-micros": 1}
"""The number of microseconds in each unit."""


def read_timestamp_format(settings: Settings) -> str:
    """Return ISO, or the unit in which a table's events have timestamps."""
    return settings.get(TIMESTAMP_FORMAT, ISO).lower()


def make_epoch_column(path: str, data_type: DataType, timestamps: str) -> Column:
    """Return a column of timestamps that reads numbers of a unit since 1970."""
    unit = EPOCH_UNITS[timestamps]
    arrow_type = find_arrow_type(data_type)

    def convert_one(value: Any) -> int:
        if type(value) is not int and type(value) is not NumberText:
            raise Misfit(f"expected a timestamp as a number ({timestamps}), found {describe_kind(value)}")
        micros, _ = scale_number(value, unit)
        if not FIRST_MICROS <= micros <= LAST_MICROS:
            raise Misfit(f"the number {shorten_value(value)} ({timestamps}) is outside the years 0001 to 9999")
        return micros

    def count(values: Sequence[Any]) -> pa.Array:
        return pc.multiply_checked(pa.array(values, pa.int64()), unit)

    return make_moment_column(path, arrow_type, convert_one, count, kinds=frozenset((int, type(None))))


def make_counted_time_column(path: str, data_type: DataType, timestamps: str) -> Column:
    """Return a column of times of day that reads numbers of a unit since midnight."""
    unit = EPOCH_UNITS[timestamps] * UNITS["us"]

    def read(value: Any) -> int:
        if type(value) is not int and type(value) is not NumberText:
            raise Misfit(f"expected a time of day as a number ({timestamps}), found {describe_kind(value)}")
        return count_nanos(value, unit)

    return make_time_column(path, data_type, read, ("clock", unit, False, False))


def make_epoch_writer(timestamps: str) -> Callable[[pa.Array], pa.LargeStringArray]:
    """Return a function that writes microseconds since 1970 as numbers of a unit."""
    unit = EPOCH_UNITS[timestamps]
    digits = len(str(unit)) - 1

    def format_one(micros: int) -> str:
        whole, rest = divmod(abs(micros), unit)
        fraction = f".{rest:0{digits}d}".rstrip("0") if rest else ""
        return f"{'-' if micros < 0 else ''}{whole}{fraction}"

    def write_cells(micros: pa.Array) -> pa.LargeStringArray:
        numbers = micros.to_numpy()
        if not np.any(numbers % unit):
            return pa.array(numbers // unit).cast(pa.large_string())
        return pa.array([format_one(value) for value in numbers.tolist()], pa.large_string())

    return write_cells
