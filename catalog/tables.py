"""Streams as tables: list, load, create, adopt, drop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.commit_log import origin_of
from pyspark_pravega.datasource.kinds.dispatch import kind_of, kind_with_format
from pyspark_pravega.datasource.kinds.dispatch import load as load_part
from pyspark_pravega.datasource.scan.bad_events import PERMISSIVE, bad_event_rule
from pyspark_pravega.datasource.scan.event_planning import nullable
from pyspark_pravega.datasource.tables.declared import declared_settings, format_traits
from pyspark_pravega.datasource.tables.hidden_columns import METADATA_COLUMNS
from pyspark_pravega.datasource.tables.loading import SCHEMA_KEY, TYPE_SIGN, LoadedTable, load_table, tags_for
from pyspark_pravega.datasource.tables.named_columns import with_columns
from pyspark_pravega.datasource.tables.stream_table import FIXED_COLUMNS, StreamTable
from pyspark_pravega.errors import (
    InvalidNameError,
    PermissionDeniedError,
    PravegaError,
    SchemaNotFoundError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import MAX_STREAM_NAME, check_new_stream, is_internal
from pyspark_pravega.sql.table_settings import TableSettings

from . import adopting, table_properties
from .connections import Catalog
from .constraints import with_primary_key
from .defaults import with_defaults
from .dropping import delete_if_there, delete_stream, drop_stream
from .naming import errors_about
from .registering import register
from .replies import HiddenColumn, TableDescription
from .requests import Constraint
from .spelling import listed, scope_named, stream_named, table_name, with_stream

LOG = logging.getLogger(__name__)
_CREATION_SECONDS, _PAUSE = 1.0, 0.1
"""How long a stream may be there before its schema, and the pause between looks."""


def _impossible(namespace: Sequence[str], name: str) -> bool:
    """Tell that no table can have this identifier: internal scopes and streams are none."""
    if len(namespace) != 1 or not name or len(name) > MAX_STREAM_NAME:
        return True
    return is_internal(name) or is_internal(namespace[0])


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the streams of a scope, with or without a schema; Pravega's internal ones are hidden."""
    return listed(catalog, catalog.pravega.controller.list_streams(scope_named(catalog, namespace)))


def describe(
    catalog: Catalog,
    stream: Stream,
    loaded: LoadedTable,
    *,
    permissive: bool = False,
    called: tuple[str, str] | None = None,
) -> TableDescription:
    """Return what the adapter shows of a table and hands back when it is scanned or written.

    `permissive`: bad events are rows of nulls, so that to Spark no column is NOT NULL. `called`: the scope and the
    stream as the statement spells them.
    """
    table, kind = loaded.table, kind_of(loaded.table)
    if called is not None and called != (stream.scope, stream.name):
        table = replace(table, called=called)
    return TableDescription(
        name=table_name(catalog, table),
        schema=nullable(table.schema) if permissive else table.schema,
        properties=table_properties.shown(loaded) | table_properties.place(stream),
        metadata_columns=hidden_columns(table, table.schema),
        table=table,
        id=identity(catalog, stream),
        events_are_rows=kind.events_are_rows,
        row_key=tuple(kind.row_key(table)),
    )


def hidden_columns(table: StreamTable, columns: StructType) -> tuple[HiddenColumn, ...]:
    """Return the metadata columns of a table that are none of the columns which it shows."""
    names = {name.lower() for name in columns.fieldNames()}
    return tuple(
        HiddenColumn(field.name, field.dataType, field.nullable, comment)
        for field, comment in map(METADATA_COLUMNS.__getitem__, kind_of(table).hidden_columns)
        if field.name not in names
    )


def identity(catalog: Catalog, stream: Stream) -> str | None:
    """Identify a stream, also against one made again under its name; None for a user who may only read."""
    try:
        return f"{stream}/{origin_of(catalog.pravega, stream)}"
    except PermissionDeniedError:
        return None


def load(
    catalog: Catalog,
    namespace: Sequence[str],
    name: str,
    options: Mapping[str, str] | None = None,
    writing: bool = False,
) -> TableDescription:
    """Describe a table, for a query with these options of those that change its columns.

    `stream$type` is the table of the events of one type, and `stream$changelog` that of the events of a table of
    changes. Raises StreamNotFoundError and the errors of `load_table`.
    """
    stream_name, sign, part = name.partition(TYPE_SIGN)
    stream = stream_named(catalog, namespace, stream_name)
    shown = catalog.named(*namespace, name)
    if _impossible(namespace, stream_name) or (sign and not part):
        raise StreamNotFoundError(f"There is no table {shown}.")
    read, called = {} if writing else options or {}, (namespace[0], stream_name)
    with errors_about("Table", with_stream(shown, called, stream)) if read or sign else nullcontext():
        version = catalog.options(read=read).get(o.SCHEMA_VERSION)
        loaded = _loaded(catalog, stream, part, version)
        mode = catalog.options(read=read, properties=loaded.table.scan_properties).get(o.MODE)
    try:
        return describe(catalog, stream, loaded, permissive=mode == PERMISSIVE and not writing, called=called)
    except StreamNotFoundError:
        catalog.pravega.controller.current_segments(stream)  # which says so when the stream was not made to its end
        raise


def _loaded(catalog: Catalog, stream: Stream, part: str, version: int | None) -> LoadedTable:
    """Load a table; one without its schema is waited for, because somebody may be creating it just now."""
    until = time.monotonic() + _CREATION_SECONDS
    while True:
        try:
            return load_part(catalog.pravega, stream, part, schema_version=version)
        except SchemaNotFoundError:
            if part or catalog.pravega.config.registry_uri is None or time.monotonic() > until:
                raise
        cancellation.sleep(_PAUSE)


def exists(catalog: Catalog, namespace: Sequence[str], name: str, creating: bool) -> bool:
    """Tell whether a table exists. To CREATE TABLE a stream without a schema does not: it can be adopted."""
    if _impossible(namespace, name):
        return False
    if TYPE_SIGN in name:
        return not creating and _part_exists(catalog, namespace, name)
    stream = stream_named(catalog, namespace, name)
    if not catalog.pravega.controller.stream_exists(stream):
        return False
    try:
        return not (creating and adopting.adoptable(load_table(catalog.pravega, stream)))
    except SchemaNotFoundError:
        return True  # it is a table, if one that cannot be read


def _part_exists(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Tell whether a stream has events of a type, or a changelog."""
    try:
        load(catalog, namespace, name)
    except (StreamNotFoundError, SchemaNotFoundError):
        return False
    return True


def create(
    catalog: Catalog,
    namespace: Sequence[str],
    name: str,
    schema: StructType,
    partitions: Sequence[str],
    properties: Mapping[str, str],
    adopt: bool,
    constraints: Sequence[Constraint] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> TableDescription:
    """Create a table as one unit: the stream, its schema group and its schema, or nothing.

    With `adopt` a stream that exists without a schema gets one and keeps its events and settings. `defaults` are those
    of columns, as text. Raises
    StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the
    column, IncompatibleSchemaError when a schema group of that name exists and refuses the schema.
    """
    if not name or len(name) > MAX_STREAM_NAME:
        check_new_stream(name)
    shown = catalog.named(*namespace, name)
    with errors_about("Table", shown):
        stream = stream_named(catalog, namespace, name)
    with errors_about("Table", with_stream(shown, (namespace[0], name), stream)):
        if is_internal(stream.scope):
            raise InvalidNameError("Its namespace belongs to Pravega. Create it in another one.")
        table_properties.check_reserved(shown, properties)
        table_properties.check_partitions(shown, partitions)
        if constraints:
            format = catalog.options(properties=properties).get(o.FORMAT)
            properties = with_primary_key(shown, properties, format, constraints)
        options = catalog.options(properties=properties)
        settings = declared_settings(options)
        if kind_with_format(settings.format).columns_in_events and not schema.fields and adopt:
            schema = adopting.columns_of_events(catalog, stream, settings)
        settings = _check_columns(schema, settings)
        schema = with_defaults(shown, schema, defaults, settings.format)
        bad_event_rule(options, stream)
        called = namespace[0], name
        return _create(catalog, stream, called, schema, settings, options, properties.get("comment"), adopt)


def _create(
    catalog: Catalog,
    stream: Stream,
    called: tuple[str, str],
    schema: StructType,
    settings: TableSettings,
    options: o.Options,
    comment: str | None,
    adopt: bool,
) -> TableDescription:
    format = find_format(settings.format)
    text = ""
    if schema.fields:
        text = format.schema_text(schema, stream.name, stream.scope, comment, settings.format_settings)
    found = adopting.existing(catalog, stream) if adopt or catalog.pravega.controller.stream_exists(stream) else None
    if found is not None and not (adopt and adopting.adoptable(found)):
        raise StreamExistsError(f"The stream {stream} exists and has a schema.")
    registered = found is not None and adopting.has_envelopes(found)
    if found is not None and registered:
        adopting.check_envelopes(found, settings)
    if settings.routing_key_of_all is None and found is None and not format_traits(format.name).changes:
        # All events come after the property, and what writes here keeps to it.
        settings = replace(settings, routing_key_of_all=settings.routing_key is not None)
    kept = table_properties.stored(settings, comment)
    if (format.registry_format is None or registered) and text:
        kept[SCHEMA_KEY] = text
    with undo_on_failure("CREATE TABLE") as undo:
        # A server carries out a request whose answer nobody waits for: each comes to its end before it is undone.
        with cancellation.shielded():
            if found is None:
                check_new_stream(stream.name)
                _create_stream(catalog, stream, table_properties.stream_configuration(settings, kept), undo)
            else:
                table_properties.check_adoption(options)
                _set_tags(catalog, stream, found, kept)
                undo.append(lambda: catalog.pravega.controller.update_stream(stream, found.configuration))
        cancellation.check()
        if format.registry_format is not None and not registered:
            with cancellation.shielded():
                register(catalog, stream, settings, text, undo)
        cancellation.check()
        return describe(catalog, stream, load_table(catalog.pravega, stream), called=called)


def _create_stream(
    catalog: Catalog, stream: Stream, configuration: StreamConfiguration, undo: list[Callable[[], None]]
) -> None:
    try:
        catalog.pravega.controller.create_stream(stream, configuration)
    except (ServerFailedError, ServerTimeoutError, ServerUnavailableError):
        # The server may have made it, or a part of it. After other errors a stream of this name is somebody else's.
        undo.append(lambda: delete_if_there(catalog, stream))
        raise
    undo.append(lambda: delete_stream(catalog, stream))


def _check_columns(schema: StructType, settings: TableSettings) -> TableSettings:
    """Check the columns; return the settings with the routing key spelled as its column."""
    names = schema.fieldNames()
    fixed = FIXED_COLUMNS.get(settings.format)
    if fixed is not None:
        if names and [(field.name, field.dataType) for field in schema] != [
            (field.name, field.dataType) for field in fixed
        ]:
            declared = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
            column = f"{fixed[0].name} {fixed[0].dataType.simpleString().upper()}"
            raise UnsupportedTypeError(
                f"It declares the columns {declared}, but one of 'format'='{settings.format}' has the one column "
                f"`{column}`. Declare no columns, or choose 'format'='avro' or 'json'."
            )
    elif not names:
        raise UnsupportedTypeError("It has no columns. Declare them, or set 'format'='raw'.")
    for name in _all_names(schema):
        if "\0" in name:
            raise InvalidNameError(
                f"The column name {name!a} has the character U+0000, which formats cannot hold. Leave it out."
            )
    for name in names:
        if not name:
            raise InvalidNameError("A column has an empty name. Give it one.")
        if name.lower() in METADATA_COLUMNS:
            raise InvalidNameError(
                f"The column name {name} is that of a hidden column which every table has. Give it another name."
            )
    settings = kind_with_format(settings.format).check_settings(schema, settings)
    return with_columns(settings, fixed or schema)


def _all_names(type: DataType) -> Iterator[str]:
    """Yield the names of all fields of a type, those inside others too."""
    match type:
        case StructType():
            for field in type:
                yield field.name
                yield from _all_names(field.dataType)
        case ArrayType():
            yield from _all_names(type.elementType)
        case MapType():
            yield from _all_names(type.keyType)
            yield from _all_names(type.valueType)


def _set_tags(catalog: Catalog, stream: Stream, found: LoadedTable, kept: Mapping[str, str]) -> None:
    tags = tags_for(kept, found.configuration.tags)
    if tags != tuple(found.configuration.tags):
        catalog.pravega.controller.update_stream(stream, replace(found.configuration, tags=tags))


@contextmanager
def undo_on_failure(statement: str) -> Iterator[list[Callable[[], None]]]:
    """Run the collected steps backwards when the body fails; the body's error is the one that counts."""
    steps: list[Callable[[], None]] = []
    try:
        yield steps
    except BaseException:
        with cancellation.shielded():
            for step in reversed(steps):
                try:
                    step()
                except PravegaError as error:
                    LOG.warning("Undoing a failed %s: %s", statement, error)
        raise


def drop(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Drop a table: its events, its stream, its schema group. False when there is none.

    Raises UnsupportedOperationError for one type of a stream's events, and for a changelog.
    """
    if _impossible(namespace, name):
        return False
    if TYPE_SIGN in name and _part_exists(catalog, namespace, name):
        stream = catalog.named(*namespace, name.partition(TYPE_SIGN)[0])
        raise UnsupportedOperationError(
            f"{catalog.named(*namespace, name)} is a part of {stream}, and cannot be dropped alone. Drop {stream}."
        )
    return drop_stream(catalog, stream_named(catalog, namespace, name))


__all__ = ["create", "describe", "drop", "exists", "list_tables", "load"]
