"""Checks which columns can be an event time, and turns their values into the times of Pravega's writers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DateType, LongType, StructType, TimestampNTZType, TimestampType

from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.formats.core.columns import find_column
from pyspark_pravega.sql.options import EVENT_TIME

_TIMES = (TimestampType, TimestampNTZType, DateType, LongType)


def event_time_column(name: str, columns: StructType) -> str:
    """Return the exact name of the column that an `event-time` names in any case.

    Raises InvalidOptionError when there is none, UnsupportedTypeError for one whose values are no times.
    """
    column = find_column(EVENT_TIME.key, name, columns)
    if not isinstance(column.dataType, _TIMES):
        raise UnsupportedTypeError(
            f"'event-time'='{name}' is a column of type {column.dataType.simpleString()}, whose values are no times. "
            "Allowed are TIMESTAMP, TIMESTAMP_NTZ (as UTC), DATE, and BIGINT for milliseconds since 1970."
        )
    return column.name


def latest_time(column: pa.Array) -> int | None:
    """Return the latest time of a column in milliseconds since 1970, None if it has no times."""
    latest = pc.max(column)
    if not latest.is_valid:
        return None
    if pa.types.is_timestamp(latest.type):
        return int(latest.cast(pa.timestamp("us", tz=latest.type.tz)).value // 1000)
    if pa.types.is_date(latest.type):
        return int(latest.cast(pa.date32()).value) * 86_400_000
    return int(latest.as_py())
