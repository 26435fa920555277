"""Loads the table that a stream is: from its configuration, its stored properties and its schema group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.registry.registry_types import GroupProperties, SchemaVersion
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.errors import InvalidOptionError, SchemaNotFoundError, UnsupportedOperationError
from pyspark_pravega.formats.changes.debezium.avro import read_schemas
from pyspark_pravega.formats.changes.feed import AVRO_SCHEMAS, check_settings, is_change_format, make_table_schema
from pyspark_pravega.formats.core.format import Format, find_format, find_registry_format
from pyspark_pravega.sql import options as o

from .stored_properties import CREATING_KEY, SCHEMA_KEY, describe_stored_table, read_own_properties
from .stream_table import RAW_SCHEMA, StreamTable, TableName, find_kind_of_format
from .table_settings import check_unused

LOG = logging.getLogger(__name__)

_warned: set[tuple[Stream, str]] = set()
"""The schemas whose unread parts were warned of in this process."""


@runtime_checkable
class PartlyReadFormat(Format, Protocol):
    """A format whose schemas can describe values that are in no column."""

    def unread(self, schema_text: str) -> Sequence[str]:
        """Return a phrase for each part of a schema whose values are in no column. Raises InvalidSchemaError."""
        ...


@dataclass(frozen=True)
class LoadedTable:
    """A stream as it was loaded: what tasks need, and what DDL shows."""

    table: StreamTable
    configuration: StreamConfiguration
    group: GroupProperties | None
    stored: Mapping[str, str]


def load_table(
    pravega: Pravega, stream: Stream, *, event_type: str | None = None, schema_version: int | None = None
) -> LoadedTable:
    """Read the table of a stream, or of one type of its events, with the columns of its latest schema or of a version.

    A stream without a schema is a `raw` table. Raises StreamNotFoundError, UnsupportedOperationError for
    schema groups whose events cannot be decoded, SchemaNotFoundError for a missing type or version, and for a table
    whose schema is missing: as a raw table, it would let bytes be written among its events.
    """
    # If there was a schema before, ask the registry for it at the same time as the controller.
    search = partial(_find_schema, pravega, stream, event_type, schema_version)
    schemas = run_in_background(search) if pravega.known_streams.find(stream).registered else search
    configuration = pravega.controller.stream_configuration(stream)
    stored = read_own_properties(configuration.tags)
    named = stored.get("format")
    if named is not None and (SCHEMA_KEY in stored or find_format(named).registry_format is None):
        _check_unregistered(stream, named, event_type, schema_version)
        return LoadedTable(_describe_unregistered(stream, named, stored), configuration, None, stored)
    group, schema = schemas()
    pravega.known_streams.note(stream, registered=schema is not None)
    if schema is None or group is None:
        if named is not None:
            raise SchemaNotFoundError(_describe_missing_schema(pravega, stream, named, CREATING_KEY in stored))
        _check_unregistered(stream, "raw", event_type, schema_version)
        return LoadedTable(_describe_unregistered(stream, "raw", stored), configuration, group, stored)
    try:
        format_of_schema = _choose_format(schema.schema.format, named)
    except InvalidOptionError as error:
        raise UnsupportedOperationError(
            f"The events of stream {stream} cannot be decoded: {error.message}. Their bytes can be read with "
            "spark.read.format('pravega').option('format', 'raw')."
        ) from None
    columns, format = format_of_schema.spark_schema(schema.schema.text), format_of_schema.name
    warn_of_unread(stream, format_of_schema, schema.schema.text)
    of_changes = is_change_format(format)
    table = describe_stored_table(stream, format, columns, stored, framing="registry")
    table = replace(
        table,
        schema=make_table_schema(columns, table.settings) if of_changes else columns,
        schema_text=schema.schema.text,
        schema_version=schema.version.to_json(),
        promised_key=None if of_changes else table.promised_key,
        kind=find_kind_of_format(format, event_type),
        event_type=None if event_type is None else schema.version.type,
    )
    return LoadedTable(table, configuration, group, stored)


def list_unread_parts(format: Format, schema_text: str) -> Sequence[str]:
    """Return a phrase for each part of a schema whose values are in no column; none for formats that show all."""
    return format.unread(schema_text) if isinstance(format, PartlyReadFormat) else ()


def warn_of_unread(stream: Stream, format: Format, schema_text: str) -> None:
    """Warn of values that are in no column, once for each stream and schema in a process."""
    if (stream, schema_text) in _warned:
        return
    _warned.add((stream, schema_text))
    if unread := list_unread_parts(format, schema_text):
        LOG.warning(
            "The schema of %s, made by another program, describes values that are in no column: %s. The column "
            "`unread` of the metadata table `schemas` lists them too.",
            stream,
            "; ".join(unread),
        )


def _choose_format(registry_format: str, named: str | None) -> Format:
    """Return the format of a schema: the format that the table was made with, if it fits, or else the usual one."""
    if named is not None and find_format(named).registry_format == registry_format:
        return find_format(named)
    return find_registry_format(registry_format)


def _describe_unregistered(stream: Stream, format: str, stored: Mapping[str, str]) -> StreamTable:
    """Describe a table outside the schema registry: with fixed columns, or with its schema kept with the stream."""
    text = stored.get(SCHEMA_KEY, "")
    columns = RAW_SCHEMA if format == "raw" else find_format(format).spark_schema(text)
    table = describe_stored_table(stream, format, columns, stored, framing="none")
    if is_change_format(format):
        table = replace(table, schema=make_table_schema(columns, table.settings), promised_key=None)
    if format == "raw":
        return StreamTable(stream, "raw", "none", RAW_SCHEMA, scan_properties=table.scan_properties)
    return replace(table, schema_text=text or None, codec="none")


def _check_unregistered(stream: Stream, format: str, event_type: str | None, version: int | None) -> None:
    what = f"a table of 'format'='{format}' without schemas in the schema registry"
    if event_type is not None:
        raise SchemaNotFoundError(f"Stream {stream} has no events of type {event_type}: it is {what}.")
    if version is not None:
        raise InvalidOptionError(
            f"'{o.SCHEMA_VERSION.key}'='{version}' does not apply to stream {stream}: it is {what}. Leave it out."
        )


def _describe_missing_schema(pravega: Pravega, stream: Stream, format: str, creating: bool) -> str:
    address = pravega.config.registry_uri
    what = f"Stream {stream} is a table of 'format'='{format}', "
    if address is None:
        return f"{what}whose schema is in a schema registry, but no registry is set. Set 'schema-registry-uri'."
    if creating:
        return (
            f"{what}but the schema registry at {address} has no schema for it yet. Its CREATE TABLE is running, or was "
            "cut off: run the same statement again to complete it, or DROP TABLE to remove it, which has to come "
            "before a CREATE TABLE AS SELECT."
        )
    return (
        f"{what}but the schema registry at {address} has no schema for it. Check 'schema-registry-uri'. If its schema "
        "was deleted, or its DROP TABLE cut off, DROP TABLE removes the rest. The events' bytes can be read with "
        "spark.read.format('pravega').option('format', 'raw')."
    )


def _find_schema(
    pravega: Pravega, stream: Stream, event_type: str | None, version: int | None
) -> tuple[GroupProperties | None, SchemaVersion | None]:
    if pravega.config.registry_uri is None:
        return None, None
    registry = pravega.registry(stream.scope)
    search = partial(registry.latest_schemas, stream.name)
    # Of a stream without a schema, as most of a scope may be, the answer about its group says enough.
    schemas = run_in_background(search) if pravega.known_streams.find(stream).registered else search
    try:
        group = registry.group(stream.name)
    except SchemaNotFoundError:
        return None, None
    latest = schemas()
    if not latest:
        return group, None
    chosen = latest[0] if event_type is None else _find_of_type(stream, latest, event_type)
    if event_type is None and len(latest) > 1:
        names = sorted(one.version.type for one in latest)
        tables = ", ".join(f"`{TableName(stream.name, name)}`" for name in names)
        raise UnsupportedOperationError(
            f"Stream {stream} holds events of several types ({', '.join(names)}), which do not form one table. Each "
            f"type is its own table: {tables}. The bytes of all events can be read with "
            "spark.read.format('pravega').option('format', 'raw')."
        )
    if version is not None:
        chosen = _find_version(stream, registry.versions(stream.name), chosen.version.type, version)
    return group, chosen


def _find_of_type(stream: Stream, latest: Sequence[SchemaVersion], event_type: str) -> SchemaVersion:
    """Return the schema of the type with this full name, or of the only type whose name ends with it."""
    exact = [one for one in latest if one.version.type == event_type]
    ending = [one for one in latest if one.version.type.endswith((f".{event_type}", f"${event_type}"))]
    matches = exact or ending
    if len(matches) != 1:
        names = ", ".join(sorted(one.version.type for one in latest))
        raise SchemaNotFoundError(
            f"Stream {stream} has {'no type' if not matches else 'more than one type'} with the name {event_type}. Its "
            f"types are {names}."
        )
    return matches[0]


def _find_version(stream: Stream, versions: Sequence[SchemaVersion], event_type: str, version: int) -> SchemaVersion:
    matches = [one for one in versions if (one.version.type, one.version.version) == (event_type, version)]
    if not matches:
        numbers = ", ".join(str(one.version.version) for one in versions if one.version.type == event_type)
        raise InvalidOptionError(
            f"'{o.SCHEMA_VERSION.key}'='{version}': the schema registry has no such version of {event_type} for stream "
            f"{stream}. Its versions: {numbers}."
        )
    return matches[0]


def apply_statement_settings(table: StreamTable, columns: StructType, options: o.Options) -> StreamTable:
    """Return the table with the settings that one statement gives. `columns` are those of its rows.

    Raises InvalidOptionError for settings that do not fit the table.
    """
    settings, changes = dict(table.settings), is_change_format(table.format)
    for option in o.OPTIONS.values():
        if option.is_known_to(table.format, changes) and options.source(option) is o.Source.QUERY:
            settings[option.key] = str(options.text(option))
    check_unused(table.framing, options)
    if AVRO_SCHEMAS in settings:
        if options.source(o.DEBEZIUM_AVRO_SCHEMAS) is o.Source.QUERY:
            settings[AVRO_SCHEMAS] = read_schemas(settings[AVRO_SCHEMAS])
        else:
            # An older release stored paths, and other programs may store anything.
            o.resolve(properties={AVRO_SCHEMAS: settings[AVRO_SCHEMAS]}, env={})
    return replace(table, settings=check_settings(columns, settings))
