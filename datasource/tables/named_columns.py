"""Columns that a table's settings name as routing key or event time: which columns can be one, and their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    LongType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.errors import UnsupportedTypeError
from pyspark_pravega.formats.core.columns import find_column
from pyspark_pravega.sql.options import EVENT_TIME
from pyspark_pravega.sql.table_settings import TableSettings

from .routing_key import RoutingKey

_TIMES = (TimestampType, TimestampNTZType, DateType, LongType)
"""The types that an event time can have."""


def resolve_event_time_column(name: str, columns: StructType) -> str:
    """Return the exact name of the column that an `event-time` names in any case.

    Raises InvalidOptionError if there is no such column, UnsupportedTypeError for one whose values are not times.
    """
    column = find_column(EVENT_TIME.key, name, columns)
    if not isinstance(column.dataType, _TIMES):
        raise UnsupportedTypeError(
            f"'event-time'='{name}' is a column of type {column.dataType.simpleString()}, whose values are not times. "
            "Allowed are TIMESTAMP, TIMESTAMP_NTZ (as UTC), DATE, and BIGINT for milliseconds since 1970."
        )
    return column.name


def find_latest_time(column: pa.Array) -> int | None:
    """Return the latest time of a column in milliseconds since 1970, None if it has no times."""
    latest = pc.max(column)
    if not latest.is_valid:
        return None
    if pa.types.is_timestamp(latest.type):
        return int(latest.cast(pa.timestamp("us", tz=latest.type.tz)).value // 1000)
    if pa.types.is_date(latest.type):
        return int(latest.cast(pa.date32()).value) * 86_400_000
    return int(latest.as_py())


def compute_key_positions(values: pa.Array) -> npt.NDArray[np.float64]:
    """Return the position of each value's text in the key space. No value is null.

    Raises InvalidRowError for a text that is too long.
    """
    return hash_keys(values if pa.types.is_string(values.type) else pc.cast(values, pa.string()))


def with_columns(settings: TableSettings, columns: StructType) -> TableSettings:
    """Return settings that spell the columns they name exactly.

    Raises InvalidOptionError for a missing column, UnsupportedTypeError for one whose type does not fit its role.
    """
    if settings.routing_key is not None:
        settings = replace(settings, routing_key=str(RoutingKey.of(settings.routing_key, columns)))
    if settings.event_time is not None:
        settings = replace(settings, event_time=resolve_event_time_column(settings.event_time, columns))
    return settings


def iterate_names(type: DataType) -> Iterator[str]:
    """Yield the names of all fields of a type, nested ones included."""
    match type:
        case StructType():
            for field in type:
                yield field.name
                yield from iterate_names(field.dataType)
        case ArrayType():
            yield from iterate_names(type.elementType)
        case MapType():
            yield from iterate_names(type.keyType)
            yield from iterate_names(type.valueType)
