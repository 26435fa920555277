"""Streams as tables: list, describe, load, drop."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.stream import Stream, segment_name
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.kinds.opening import load as load_part
from pyspark_pravega.datasource.positions.snapshot import tail_cut
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table
from pyspark_pravega.datasource.tables.read_options import resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.datasource.tables.table_name import TableName
from pyspark_pravega.errors import (
    PermissionDeniedError,
    SchemaNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.formats.changes.debezium.avro import is_envelope
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import MAX_STREAM_NAME, is_internal

from ..protocol.replies import KeySpace, TableDescription
from ..storage import table_properties
from ..storage.connections import Catalog
from ..storage.creation_mark import mark_of, remove_mark
from ..storage.dropping import drop_stream
from ..storage.naming import prefix_errors
from ..storage.spelling import add_stream_name, name_table, resolve_scope, resolve_stream, spell_for_sql
from . import key_value_tables, merged_tables
from .description import describe_columns, identity

LOG = logging.getLogger(__name__)
_CREATION_SECONDS, _PAUSE = 1.0, 0.1
"""How long a stream may be there before its schema, and the pause between looks."""


def _is_impossible(namespace: Sequence[str], name: str) -> bool:
    """Return whether no table can have this name, because it is that of an internal scope or stream."""
    if len(namespace) != 1 or not name or len(name) > MAX_STREAM_NAME:
        return True
    return is_internal(name) or is_internal(namespace[0])


def list_tables(catalog: Catalog, namespace: Sequence[str]) -> list[str]:
    """Return the tables of a scope; internal ones are hidden.

    They are its streams, with or without a schema, its key-value tables and its tables of several streams.
    """
    scope = resolve_scope(catalog, namespace)
    others = run_in_background(lambda: key_value_tables.names(catalog, scope))
    merged = run_in_background(lambda: merged_tables.names(catalog, scope))
    return spell_for_sql(catalog, {*catalog.pravega.controller.list_streams(scope), *others(), *merged()})


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
    table = loaded.table
    if called is not None and called != (stream.scope, stream.name):
        table = replace(table, called=called)
    if permissive:
        table = replace(table, permissive=True)
    columns = make_nullable(table.schema) if permissive else table.schema
    described = describe_columns(catalog, table, columns, name=name_table(catalog, table), id=identity(catalog, stream))
    shown = table_properties.show_properties(loaded) | table_properties.make_place_properties(stream)
    return replace(described, properties=shown)


def load(
    catalog: Catalog,
    namespace: Sequence[str],
    name: str,
    options: Mapping[str, str] | None = None,
    writing: bool = False,
) -> TableDescription:
    """Describe a table, for a query with these options of those that change its columns.

    `stream$type` is the table of the events of one type, and `stream$changelog` that of the events of a table of
    changes. A key-value table is found by its name where there is no stream of it, and as `name$kvtable`; a table of
    several streams where there is neither. Raises StreamNotFoundError and the errors of `load_table` and of
    `merged_tables.load`.
    """
    asked = TableName.parse(name)
    stream = resolve_stream(catalog, namespace, asked.stream)
    if _is_impossible(namespace, asked.stream) or asked.part == "":
        raise StreamNotFoundError(f"There is no table {catalog.named(*namespace, name)}.")
    called = namespace[0], asked.stream
    if asked.is_key_value_table:
        if (entries := key_value_tables.load(catalog, stream, called)) is not None:
            return entries
        raise StreamNotFoundError(f"There is no key-value table {catalog.named(*namespace, asked.stream)}.")
    try:
        return _load_stream(catalog, namespace, asked, options, writing)
    except (StreamNotFoundError, PermissionDeniedError):
        other = None
        if not asked.part:
            other = key_value_tables.load(catalog, stream, called) or merged_tables.load(
                catalog, stream, called, options or {}, writing=writing
            )
        if other is None:
            raise
        return other


def _load_stream(
    catalog: Catalog, namespace: Sequence[str], asked: TableName, options: Mapping[str, str] | None, writing: bool
) -> TableDescription:
    stream, shown = resolve_stream(catalog, namespace, asked.stream), catalog.named(*namespace, str(asked))
    read, called = {} if writing else options or {}, (namespace[0], asked.stream)
    with prefix_errors("Table", add_stream_name(shown, called, stream)) if read or asked.part else nullcontext():
        version = catalog.options(read=read).get(o.SCHEMA_VERSION)
        loaded = wait_for_schema(catalog, stream, asked.part, version)
        mode = resolve_read(catalog.options, loaded.table, read).get(o.MODE)
    try:
        return describe(catalog, stream, loaded, permissive=mode == PERMISSIVE and not writing, called=called)
    except StreamNotFoundError:
        catalog.pravega.controller.current_segments(stream)  # which says so when the stream was not made to its end
        raise


def wait_for_schema(
    catalog: Catalog, stream: Stream, part: str | None = None, version: int | None = None
) -> LoadedTable:
    """Load a table; one without its schema is waited for, while somebody may be creating it just now."""
    until = time.monotonic() + _CREATION_SECONDS
    while True:
        try:
            return load_part(catalog.pravega, stream, part, schema_version=version)
        except SchemaNotFoundError:
            if part or catalog.pravega.config.registry_uri is None or time.monotonic() > until:
                raise
            mark = mark_of(catalog, stream)
            if mark is None or mark.is_over:
                return load_part(catalog.pravega, stream, part, schema_version=version)  # it may be made by now
        cancellation.sleep(_PAUSE)


def is_adoptable(found: LoadedTable) -> bool:
    """Return whether a stream can become another table: it has no schema, or that of Debezium's envelopes."""
    return "format" not in found.stored and (found.table.format == "raw" or has_envelopes(found))


def has_envelopes(found: LoadedTable) -> bool:
    """Return whether others registered a schema of Debezium's envelopes for its events."""
    table = found.table
    return table.format == "avro" and table.schema_text is not None and is_envelope(table.schema_text)


def _stream_exists(catalog: Catalog, stream: Stream) -> bool:
    """Return whether there is a stream. For a user who may not know, another table of the name counts."""
    try:
        return catalog.pravega.controller.stream_exists(stream)
    except PermissionDeniedError:
        if key_value_tables.exists(catalog, stream) or merged_tables.exists(catalog, stream):
            return False
        raise


def is_stream(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Return whether a table is a whole stream."""
    return not _is_impossible(namespace, name) and catalog.pravega.controller.stream_exists(
        resolve_stream(catalog, namespace, name)
    )


def exists(catalog: Catalog, namespace: Sequence[str], name: str, creating: bool) -> bool:
    """Return whether a table exists. To CREATE TABLE a stream without a schema does not: it can be adopted.

    Neither do the remains of an interrupted CREATE TABLE, which can be completed. If only the mark is left, it is
    removed.
    """
    if _is_impossible(namespace, name):
        return False
    if TableName.parse(name).part is not None:
        return not creating and _part_exists(catalog, namespace, name)
    stream = resolve_stream(catalog, namespace, name)
    if not _stream_exists(catalog, stream):
        is_there = key_value_tables.is_declared if creating else key_value_tables.exists
        return is_there(catalog, stream) or merged_tables.exists(catalog, stream)
    if not creating:
        return True  # it is a table, if one that cannot be read
    try:
        loaded = load_table(catalog.pravega, stream)
    except SchemaNotFoundError:
        return False
    if is_adoptable(loaded):
        return False
    # Callers may write as soon as they know that it exists, so a statement that is still making it must not undo it.
    remove_mark(catalog, loaded)
    return True


def _part_exists(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Return whether a stream has events of a type, or a changelog."""
    try:
        load(catalog, namespace, name)
    except (StreamNotFoundError, SchemaNotFoundError):
        return False
    return True


def drop(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Drop a table: its events, its stream, its schema group; or its entries. False when there is none.

    Of a table of several streams only the name is dropped. Raises UnsupportedOperationError for one type of a stream's
    events, and for a changelog.
    """
    if _is_impossible(namespace, name):
        return False
    asked = TableName.parse(name)
    if asked.is_key_value_table:
        return key_value_tables.drop(catalog, resolve_stream(catalog, namespace, asked.stream))
    if asked.part is not None and _part_exists(catalog, namespace, name):
        shown = catalog.named(*namespace, asked.stream)
        raise UnsupportedOperationError(
            f"{catalog.named(*namespace, name)} is a part of {shown}, and cannot be dropped alone. Drop {shown}."
        )
    stream = resolve_stream(catalog, namespace, name)
    try:
        if drop_stream(catalog, stream):
            return True
    except PermissionDeniedError:
        if _stream_exists(catalog, stream):
            raise
    if asked.part is not None:
        return False
    return key_value_tables.drop(catalog, stream) or merged_tables.drop(catalog, stream)


def undo_creation(catalog: Catalog, table: StreamTable, id: str | None) -> None:
    """Drop the table that a failed statement has made, unless others have replaced it or written to it.

    `id` is that of the table that was made. It is unknown whether a key-value table has rows from other programs.
    """
    stream, controller, kind = table.stream, catalog.pravega.controller, find_table_kind(table)
    if kind.is_merged:
        merged_tables.drop(catalog, stream, id)
        return
    if not kind.of_stream:
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
