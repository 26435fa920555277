"""Settings of a table that name its columns."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import StructType

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
