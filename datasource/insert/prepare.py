"""A table as one write sees it: with the write's own routing key and codec, checked before anything is sent."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import WRITTEN_AT
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o

from ..changes.current_rows_planning import prepared_changes
from ..tables.routing_key import routing_key_column
from ..tables.stream_table import REGISTRY_CODECS, StreamTable


def table_for_write(pravega: Pravega, table: StreamTable, rows: StructType, options: o.Options) -> StreamTable:
    """Return the table that rows of a schema are written to.

    Raises InvalidOptionError for a routing key or codec that does not fit, InvalidSchemaError for columns that do not.
    """
    if options.source(o.ROUTING_KEY) is o.Source.QUERY:
        table = replace(table, routing_key=options.get(o.ROUTING_KEY))
    if options.source(o.CODEC) is o.Source.QUERY and options.get(o.CODEC) != table.codec:
        table = _with_codec(pravega, table, options.get(o.CODEC))
    if table.changelog:
        raise UnsupportedOperationError(
            f"The changelog of stream {table.stream} cannot be written to. Insert rows into the table itself."
        )
    if table.framed and table.schema_version is None:
        raise UnsupportedOperationError(
            f"The events of stream {table.stream} have schemas of Debezium's envelopes that others register. INSERT "
            "knows none of them. Write with what writes the others."
        )
    if table.of_changes:
        # Tasks that are run again must write the same bytes.
        now = str(int(time.time() * 1000))
        table = prepared_changes(table, options)
        table = replace(table, settings={**table.settings, WRITTEN_AT: now})
    try:
        find_format(table.format).encoder(
            rows, table.schema_text, 0 if table.framed else None, REGISTRY_CODECS[table.codec], table.settings
        )
    except InvalidSchemaError as error:
        wanted = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)
        raise InvalidSchemaError(
            f"The rows do not fit stream {table.stream}: {error.message}. Its columns are {wanted}."
        ) from None
    if table.routing_key is not None:
        table = replace(table, routing_key=routing_key_column(table.routing_key, rows))
    return table


def _with_codec(pravega: Pravega, table: StreamTable, codec: str) -> StreamTable:
    if not table.framed:
        raise InvalidOptionError(
            f"'codec'='{codec}' needs events with the schema registry's header, which those of stream {table.stream} "
            "do not have. Leave 'codec' out."
        )
    if codec != "none":
        pravega.registry(table.stream.scope).add_codec(table.stream.name, REGISTRY_CODECS[codec])
    return replace(table, codec=codec)
