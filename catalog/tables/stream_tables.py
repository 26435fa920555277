"""Streams as tables: list, load, create, adopt, drop."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType

from pyspark.sql.types import StructType

from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.stream import Stream, segment_name
from pyspark_pravega.datasource.commit_log.table import origin_of
from pyspark_pravega.datasource.kinds.opening import kind_of, kind_with_format
from pyspark_pravega.datasource.positions.snapshot import tail_cut
from pyspark_pravega.datasource.scan.bad_events import PERMISSIVE, bad_event_rule
from pyspark_pravega.datasource.scan.event_planning import nullable
from pyspark_pravega.datasource.tables.hidden_columns import METADATA_COLUMNS
from pyspark_pravega.datasource.tables.loading import TYPE_SIGN, LoadedTable, declared_settings, load_table
from pyspark_pravega.datasource.tables.named_columns import all_names, with_columns
from pyspark_pravega.datasource.tables.stream_table import FIXED_COLUMNS, StreamTable
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    PermissionDeniedError,
    SchemaNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from pyspark_pravega.formats.core.format import format_names
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import MAX_STREAM_NAME, check_new_stream, is_internal
from pyspark_pravega.sql.table_settings import TableSettings

from ..creation.adopting import adoptable, columns_of_events
from ..creation.declaration import with_defaults, with_primary_key
from ..creation.making import make_table, wait_for_schema
from ..creation.mark import remove_mark
from ..protocol import Constraint
from ..protocol.replies import HiddenColumn, KeySpace, TableDescription
from ..storage import table_properties
from ..storage.connections import Catalog
from ..storage.dropping import drop_stream
from ..storage.naming import errors_about
from ..storage.spelling import listed, scope_named, stream_named, table_name, with_stream
from . import key_value_tables, views

LOG = logging.getLogger(__name__)


def _impossible(namespace: Sequence[str], name: str) -> bool:
    """Tell that no table can have this identifier: internal scopes and streams are none."""
    if len(namespace) != 1 or not name or len(name) > MAX_STREAM_NAME:
        return True
    return is_internal(name) or is_internal(namespace[0])


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the streams of a scope, with or without a schema, and its key-value tables; internal ones are hidden."""
    scope = scope_named(catalog, namespace)
    others = run_in_background(lambda: key_value_tables.names(catalog, scope))
    return listed(catalog, {*catalog.pravega.controller.list_streams(scope), *others()})


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
    if permissive:
        table = replace(table, permissive=True)
    return TableDescription(
        name=table_name(catalog, table),
        schema=nullable(table.schema) if permissive else table.schema,
        properties=table_properties.shown(loaded) | table_properties.place(stream),
        metadata_columns=hidden_columns(table, table.schema),
        table=table,
        id=identity(catalog, stream),
        events_are_rows=kind.events_are_rows,
        row_key=tuple(kind.row_key_of(table)),
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
    changes. A key-value table is found by its name where there is no stream of it, and as `name$kvtable`. Raises
    StreamNotFoundError and the errors of `load_table`.
    """
    stream_name, sign, part = name.partition(TYPE_SIGN)
    stream = stream_named(catalog, namespace, stream_name)
    shown = catalog.named(*namespace, name)
    if _impossible(namespace, stream_name) or (sign and not part):
        raise StreamNotFoundError(f"There is no table {shown}.")
    if part == key_value_tables.PART:
        if (entries := key_value_tables.load(catalog, stream, (namespace[0], stream_name))) is not None:
            return entries
        raise StreamNotFoundError(f"There is no key-value table {catalog.named(*namespace, stream_name)}.")
    try:
        return _load_stream(catalog, namespace, name, options, writing)
    except (StreamNotFoundError, PermissionDeniedError):
        entries = None if sign else key_value_tables.load(catalog, stream, (namespace[0], stream_name))
        if entries is None:
            raise
        return entries


def _load_stream(
    catalog: Catalog, namespace: Sequence[str], name: str, options: Mapping[str, str] | None, writing: bool
) -> TableDescription:
    stream_name, sign, part = name.partition(TYPE_SIGN)
    stream, shown = stream_named(catalog, namespace, stream_name), catalog.named(*namespace, name)
    read, called = {} if writing else options or {}, (namespace[0], stream_name)
    with errors_about("Table", with_stream(shown, called, stream)) if read or sign else nullcontext():
        version = catalog.options(read=read).get(o.SCHEMA_VERSION)
        loaded = wait_for_schema(catalog, stream, part, version)
        mode = catalog.options(read=read, properties=loaded.table.scan_properties).get(o.MODE)
    try:
        return describe(catalog, stream, loaded, permissive=mode == PERMISSIVE and not writing, called=called)
    except StreamNotFoundError:
        catalog.pravega.controller.current_segments(stream)  # which says so when the stream was not made to its end
        raise


def _stream_exists(catalog: Catalog, stream: Stream) -> bool:
    """Tell whether there is a stream. To a user who may not know, a key-value table of the name is what there is."""
    try:
        return catalog.pravega.controller.stream_exists(stream)
    except PermissionDeniedError:
        if key_value_tables.exists(catalog, stream):
            return False
        raise


def is_stream(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Tell whether a table is a whole stream."""
    return not _impossible(namespace, name) and catalog.pravega.controller.stream_exists(
        stream_named(catalog, namespace, name)
    )


def exists(catalog: Catalog, namespace: Sequence[str], name: str, creating: bool) -> bool:
    """Tell whether a table exists. To CREATE TABLE a stream without a schema does not: it can be adopted.

    Nor does what a CREATE TABLE has left that was cut off: the rest can be done. If it has left the mark alone, that is
    removed.
    """
    if _impossible(namespace, name):
        return False
    if TYPE_SIGN in name:
        return not creating and _part_exists(catalog, namespace, name)
    stream = stream_named(catalog, namespace, name)
    if not _stream_exists(catalog, stream):
        is_there = key_value_tables.is_declared if creating else key_value_tables.exists
        return is_there(catalog, stream)
    if not creating:
        return True  # it is a table, if one that cannot be read
    try:
        loaded = load_table(catalog.pravega, stream)
    except SchemaNotFoundError:
        return False
    if adoptable(loaded):
        return False
    # Who is told that it exists may go on to write: a statement that is still making it must not undo it.
    remove_mark(catalog, loaded)
    return True


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
        views.check_no_view(catalog, namespace, name)
        key_value_tables.check_name(catalog, stream, properties)
        if key_value_tables.is_asked_for(properties):
            return key_value_tables.create(
                catalog, stream, (namespace[0], name), schema, properties, constraints, defaults, adopt
            )
        if constraints:
            format = catalog.options(properties=properties).get(o.FORMAT)
            properties = with_primary_key(shown, properties, format, constraints)
        options = catalog.options(properties=properties)
        if (format := options.get(o.FORMAT)) not in format_names():
            names = ", ".join(sorted((*format_names(), o.KEY_VALUE_FORMAT)))
            raise InvalidOptionError(f"'{format}' of 'format' is unknown; expected one of {names}.")
        settings = declared_settings(options)
        if kind_with_format(settings.format).columns_in_events and not schema.fields and adopt:
            schema = columns_of_events(catalog, stream, settings)
        settings = _check_columns(schema, settings)
        schema = with_defaults(shown, schema, defaults, settings.format)
        bad_event_rule(options, stream)
        loaded = make_table(catalog, stream, schema, settings, options, properties.get("comment"), adopt)
        return describe(catalog, stream, loaded, called=(namespace[0], name))


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
    for name in all_names(schema):
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


def drop(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Drop a table: its events, its stream, its schema group; or its entries. False when there is none.

    Raises UnsupportedOperationError for one type of a stream's events, and for a changelog.
    """
    if _impossible(namespace, name):
        return False
    whole, sign, part = name.partition(TYPE_SIGN)
    if part == key_value_tables.PART:
        return key_value_tables.drop(catalog, stream_named(catalog, namespace, whole))
    if sign and _part_exists(catalog, namespace, name):
        shown = catalog.named(*namespace, whole)
        raise UnsupportedOperationError(
            f"{catalog.named(*namespace, name)} is a part of {shown}, and cannot be dropped alone. Drop {shown}."
        )
    stream = stream_named(catalog, namespace, name)
    try:
        if drop_stream(catalog, stream):
            return True
    except PermissionDeniedError:
        if _stream_exists(catalog, stream):
            raise
    return not sign and key_value_tables.drop(catalog, stream)


def undo_creation(catalog: Catalog, table: StreamTable, id: str | None) -> None:
    """Drop the table that a failed statement has made, unless others have made it anew or have written to it.

    `id` is that of the table that was made. Whether a key-value table has rows of others cannot be told.
    """
    stream, controller = table.stream, catalog.pravega.controller
    if not kind_of(table).of_stream:
        key_value_tables.drop(catalog, stream, table.first_segment)
        return
    try:
        if identity(catalog, stream) == id and controller.head(stream) == tail_cut(catalog.pravega, stream):
            drop_stream(catalog, stream)
        else:
            LOG.warning("A failed CREATE TABLE AS SELECT leaves %s: others have made it, or written to it.", stream)
    except StreamNotFoundError:
        LOG.debug("Stream %s, which a failed CREATE TABLE AS SELECT has made, is gone.", stream)


def key_space(catalog: Catalog, stream: Stream) -> KeySpace:
    """Return which segment takes the events of which part of the key space. Raises StreamNotFoundError."""
    segments = sorted(catalog.pravega.controller.current_segments(stream), key=lambda segment: segment.max_key)
    names = tuple(segment_name(stream, segment.segment_id) for segment in segments)
    return KeySpace(names, tuple(repr(segment.max_key) for segment in segments))
