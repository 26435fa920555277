"""Names of columns: those in settings of a table, and all that its types have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_pravega.sql.table_settings import TableSettings

from .event_time import event_time_column
from .routing_key import routing_key_column


def with_columns(settings: TableSettings, columns: StructType) -> TableSettings:
    """Return settings with the columns that they name spelled as they are.

    Raises InvalidOptionError for names of none, UnsupportedTypeError for columns that cannot be what they are to be.
    """
    if settings.routing_key is not None:
        settings = replace(settings, routing_key=routing_key_column(settings.routing_key, columns))
    if settings.event_time is not None:
        settings = replace(settings, event_time=event_time_column(settings.event_time, columns))
    return settings


def all_names(type: DataType) -> Iterator[str]:
    """Yield the names of all fields of a type, those inside others too."""
    match type:
        case StructType():
            for field in type:
                yield field.name
                yield from all_names(field.dataType)
        case ArrayType():
            yield from all_names(type.elementType)
        case MapType():
            yield from all_names(type.keyType)
            yield from all_names(type.valueType)
