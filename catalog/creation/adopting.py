"""Streams that exist before their table: which of them can become one, and with which columns."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.changes.inference import infer_columns
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table, stored_properties
from pyspark_pravega.errors import SchemaNotFoundError, StreamExistsError, StreamNotFoundError, UnsupportedTypeError
from pyspark_pravega.formats.changes.debezium.avro import DebeziumAvroFormat, is_envelope, read_envelope_columns
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import TableSettings

from ..storage import table_properties
from ..storage.connections import Catalog
from .mark import CreationMark, mark_in


def existing(catalog: Catalog, stream: Stream) -> LoadedTable | None:
    """Load the table that a stream is now, None if there is none."""
    try:
        return load_table(catalog.pravega, stream)
    except StreamNotFoundError:
        return None


def adoptable(found: LoadedTable) -> bool:
    """Tell whether a stream can become another table: it has no schema, or that of Debezium's envelopes."""
    return "format" not in found.stored and (found.table.format == "raw" or has_envelopes(found))


def has_envelopes(found: LoadedTable) -> bool:
    """Tell whether others registered a schema of Debezium's envelopes for its events."""
    table = found.table
    return table.format == "avro" and table.schema_text is not None and is_envelope(table.schema_text)


def check_envelopes(found: LoadedTable, settings: TableSettings) -> None:
    """Raise StreamExistsError unless the table is made of these envelopes."""
    if (settings.format, settings.framing) != (DebeziumAvroFormat.name, "registry"):
        raise StreamExistsError(
            f"The stream {found.table.stream} exists, and its schema is one of Debezium's envelopes. Its rows are the "
            f"table with 'format'='{DebeziumAvroFormat.name}', 'framing'='registry'."
        )


def continued(
    catalog: Catalog, stream: Stream, settings: TableSettings, comment: str | None, options: o.Options, schema: str
) -> tuple[TableSettings, StreamConfiguration]:
    """Return with what to do the rest of a CREATE TABLE, and the stream's configuration that it has left.

    Raises SchemaNotFoundError, saying what to do, unless it was the same statement, and cannot be running any more.
    """
    controller, config = catalog.pravega.controller, catalog.pravega.config
    configuration = controller.stream_configuration(stream)
    there = stored_properties(configuration.tags)
    lacking = f"the schema registry at {config.registry_uri} has no schema for it. Check 'schema-registry-uri'"
    if not controller.current_segments(stream):
        raise SchemaNotFoundError(
            f"The stream {stream} is a sealed table, and {lacking}. Streams are sealed by CALL seal_stream, and by a "
            "DROP TABLE that was cut off: given again, it removes the stream with its events."
        )
    if (mark := mark_in(there)) is None:
        # Rather this than to give its events the schemas of a registry that is the wrong one.
        raise SchemaNotFoundError(
            f"The stream {stream} is a table, but {lacking}. DROP TABLE removes it with its events."
        )
    if settings.routing_key_of_all is None:
        settings = replace(settings, routing_key_of_all=there.get(o.ROUTING_KEY_OF_ALL.key) == "true")
    differing = table_properties.differing(settings, comment, options, configuration)
    if differing or not mark.is_for(config, schema):
        others = f"with other properties ({', '.join(differing)})" if differing else "with other columns"
        raise SchemaNotFoundError(
            f"The stream {stream} is being made a table by another CREATE TABLE, or was when that was cut off, "
            f"{others} or with another 'schema-registry-uri'. Give that statement again, or DROP TABLE it, which "
            "removes its events too."
        )
    if not mark.is_over:
        raise SchemaNotFoundError(being_made(stream, mark))
    return settings, configuration


def being_made(stream: Stream, mark: CreationMark) -> str:
    """Say that another statement may be running."""
    return (
        f"The stream {stream} is being made a table by another CREATE TABLE, or was when that was cut off. The same "
        f"statement does the rest from {mark.end} on, when the other one cannot be running any more. DROP TABLE "
        "removes it at any time."
    )


def columns_of_events(catalog: Catalog, stream: Stream, settings: TableSettings) -> StructType:
    """Return the columns that the events' schemas tell. Raises UnsupportedTypeError if they tell none."""
    columns = None
    found = existing(catalog, stream)
    if found is not None and has_envelopes(found):
        columns = read_envelope_columns(found.table.schema_text or "")
    elif found is not None:
        columns = infer_columns(catalog.pravega, stream, settings.format, settings.format_settings)
    if columns is None:
        raise UnsupportedTypeError(
            "It declares no columns, and no event of its stream has a schema that tells them. Declare them, or have "
            "them told by the values of events with the table property 'infer-columns'='sample' (JSON only)."
        )
    return columns
