"""Finds the table that the options of `spark.read.format("pravega")` and of `df.write.format("pravega")` name."""

from __future__ import annotations

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o

from .kinds.dispatch import load
from .tables.declared import declared_settings
from .tables.hidden_columns import METADATA_COLUMNS
from .tables.loading import TYPE_SIGN
from .tables.stream_table import FIXED_COLUMNS, RAW_SCHEMA, StreamTable, kind_of_format


def table_of_options(pravega: Pravega, options: o.Options, schema: StructType | None) -> StreamTable:
    """Return the table of the options: as stored, unless format or framing are given.

    The stream may be `name$type`, for its events of one type, or `name$changelog`.
    """
    name, _, part = options.require(o.STREAM).partition(TYPE_SIGN)
    stream = Stream(options.require(o.SCOPE), name)
    version = options.get(o.SCHEMA_VERSION)
    if not (options.is_set(o.FORMAT) or options.is_set(o.FRAMING)):
        return load(pravega, stream, part, schema_version=version).table
    settings = declared_settings(options)
    pravega.controller.stream_configuration(stream)  # StreamNotFoundError, whatever the options say
    if settings.format == "raw":
        return StreamTable(stream, "raw", "none", RAW_SCHEMA, routing_key=settings.routing_key)
    if settings.framing == "registry":
        return load(pravega, stream, part, schema_version=version).table
    if schema is None and settings.format in FIXED_COLUMNS:
        schema = FIXED_COLUMNS[settings.format]
    if schema is None:
        raise InvalidOptionError(
            f"Stream {stream} is read with 'format'='{settings.format}' and 'framing'='none', so nothing says which "
            "columns its events have. Give them with .schema('a INT, b STRING')."
        )
    format = find_format(settings.format)
    if settings.format in FIXED_COLUMNS:
        schema = FIXED_COLUMNS[settings.format]
    else:
        schema = StructType([field for field in schema if field.name not in METADATA_COLUMNS])
    return StreamTable(
        stream,
        settings.format,
        "none",
        schema,
        None if format.registry_format is not None else format.schema_text(schema, stream.name, stream.scope) or None,
        routing_key=settings.routing_key,
        kind=kind_of_format(settings.format),
        settings=settings.format_settings,
    )
