"""Judges what stands in the place of a new table: nothing, a stream that can become it, or an interrupted attempt."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.loading import LoadedTable
from pyspark_pravega.datasource.tables.stored_properties import read_own_properties
from pyspark_pravega.errors import SchemaNotFoundError, StreamExistsError
from pyspark_pravega.formats.changes.debezium.avro import DebeziumAvroFormat
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.sql import options as o

from ..storage import table_properties
from ..storage.catalogs import Catalog
from ..storage.creation_mark import CreationMark, read_mark
from ..tables.stream_tables import has_envelopes, is_adoptable, wait_for_schema
from .declaration import Declaration, find_table


@dataclass(frozen=True)
class Unfinished:
    """A stream that is declared as a table, but has no schema in the registry."""

    configuration: StreamConfiguration
    is_sealed: bool


def look_up(catalog: Catalog, declared: Declaration) -> LoadedTable | Unfinished | None:
    """Return what has the name of a new table, or None. Gives others some time to complete it.

    Raises SchemaNotFoundError for a table whose schema is in a registry, if none is set.
    """
    stream, controller = declared.stream, catalog.pravega.controller
    if not declared.adopt and not controller.stream_exists(stream):
        return None
    try:
        return find_table(catalog, stream)
    except SchemaNotFoundError:
        try:
            return wait_for_schema(catalog, stream)
        except SchemaNotFoundError:
            if catalog.pravega.config.registry_uri is None:
                raise
    configuration = controller.stream_configuration(stream)
    return Unfinished(configuration, is_sealed=not controller.current_segments(stream))


def judge_new(declared: Declaration, existing: LoadedTable | None) -> Declaration:
    """Return the declaration of a table that a statement may make, of a stream that is `existing` or of a new one.

    Raises StreamExistsError if that is a table already. Sends nothing.
    """
    stream, settings = declared.stream, declared.settings
    if existing is not None and not (declared.adopt and is_adoptable(existing)):
        raise StreamExistsError(f"The stream {stream} exists and has a schema.")
    makes_envelopes = (settings.format, settings.framing) == (DebeziumAvroFormat.name, "registry")
    if existing is not None and has_envelopes(existing) and not makes_envelopes:
        raise StreamExistsError(
            f"The stream {stream} exists, and its schema is one of Debezium's envelopes. Create the table with "
            f"'format'='{DebeziumAvroFormat.name}', 'framing'='registry'."
        )
    if settings.routing_key_of_all is None and existing is None and not is_change_format(settings.format):
        # All events come after the property, and what writes here keeps to it.
        settings = replace(settings, routing_key_of_all=settings.routing_key is not None)
    return replace(declared, settings=settings)


def judge_rest(config: ClientConfig, declared: Declaration, unfinished: Unfinished) -> Declaration:
    """Return the declaration of a table whose CREATE TABLE was interrupted, and which a statement may complete.

    Raises SchemaNotFoundError, saying what to do, unless it was the same statement, and cannot be running any more.
    """
    stream, settings, configuration = declared.stream, declared.settings, unfinished.configuration
    stored = read_own_properties(configuration.tags)
    lacking = f"the schema registry at {config.registry_uri} has no schema for it. Check 'schema-registry-uri'"
    if unfinished.is_sealed:
        raise SchemaNotFoundError(
            f"The stream {stream} is a sealed table, and {lacking}. Streams are sealed by CALL seal_stream, and by a "
            "DROP TABLE that was interrupted: repeat it to remove the stream with its events."
        )
    if (mark := read_mark(stored)) is None:
        # Rather this than to give its events the schemas of a registry that is the wrong one.
        raise SchemaNotFoundError(
            f"The stream {stream} is a table, but {lacking}. DROP TABLE removes it with its events."
        )
    if settings.routing_key_of_all is None:
        settings = replace(settings, routing_key_of_all=stored.get(o.ROUTING_KEY_OF_ALL.key) == "true")
    differing = table_properties.find_differing(settings, declared.comment, declared.options, configuration)
    if differing or not mark.is_for(config, declared.schema_text):
        others = f"with other properties ({', '.join(differing)})" if differing else "with other columns"
        raise SchemaNotFoundError(
            f"Another CREATE TABLE is making a table of the stream {stream}, or was interrupted while it did, {others} "
            "or with another 'schema-registry-uri'. Repeat that statement, or use DROP TABLE, which removes its events "
            "too."
        )
    if not mark.is_over:
        raise SchemaNotFoundError(describe_creation_in_progress(stream, mark))
    return replace(declared, settings=settings)


def describe_creation_in_progress(stream: Stream, mark: CreationMark) -> str:
    """Say that another statement may be running."""
    return (
        f"Another CREATE TABLE is making a table of the stream {stream}, or was interrupted while it did. From "
        f"{mark.end} on, when it can no longer be running, the same statement completes the table. DROP TABLE removes "
        "the stream at any time."
    )
