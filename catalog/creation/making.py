"""CREATE TABLE: declares, judges, makes, registers and publishes a table, or leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.loading import SCHEMA_KEY, LoadedTable, load_table, tags_for
from pyspark_pravega.errors import (
    InvalidNameError,
    SchemaNotFoundError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
)
from pyspark_pravega.sql.identifiers import MAX_STREAM_NAME, check_new_stream, is_internal

from ..protocol import CreateTable
from ..protocol.replies import TableDescription
from ..storage import table_properties
from ..storage.connections import Catalog
from ..storage.creation_mark import (
    CreationMark,
    is_left_to,
    mark_of,
    remove_mark,
    seconds_to_make,
    seconds_to_undo,
)
from ..storage.dropping import Undo, delete_if_there, delete_stream, undo_on_failure
from ..storage.naming import prefix_errors
from ..storage.spelling import find_new_address
from ..tables import merged_tables, views
from ..tables.stream_tables import describe
from .declaration import declare
from .judging import New, Rest, describe_creation_in_progress, judge
from .key_value import check_name, create_entries, is_key_value_table
from .merged import create_merged, is_merged
from .registering import register


def create(catalog: Catalog, request: CreateTable) -> TableDescription:
    """Create a table as one unit: the stream, its schema group and its schema, or nothing.

    With `adopt` a stream that exists without a schema gets one and keeps its events and settings. Raises
    StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the
    column, IncompatibleSchemaError when a schema group of that name exists and refuses the schema.
    """
    identifier, properties = request.identifier, request.properties
    if not identifier.name or len(identifier.name) > MAX_STREAM_NAME:
        check_new_stream(identifier.name)
    with prefix_errors("Table", catalog.named(*identifier.parts)):
        address = find_new_address(catalog, identifier)
    stream, shown = address.stream, address.shown
    with prefix_errors("Table", address.about):
        if is_internal(stream.scope):
            raise InvalidNameError("Its namespace belongs to Pravega. Create it in another one.")
        table_properties.check_reserved(shown, properties)
        table_properties.check_partitions(shown, request.partitions)
        views.check_no_view(catalog, identifier)
        merged_tables.check_none(catalog, address)
        if is_merged(properties):
            return create_merged(catalog, address, request)
        check_name(catalog, stream, properties)
        if is_key_value_table(properties):
            return create_entries(catalog, address, request)
        judged = judge(catalog, declare(catalog, address, request))
        loaded = _make(catalog, judged) if isinstance(judged, New) else _make_rest(catalog, judged)
        return describe(catalog, address, loaded)


def _make(catalog: Catalog, new: New) -> LoadedTable:
    """Make the stream and the schema of a table, or nothing."""
    declared, found, pravega = new.declared, new.found, catalog.pravega
    stream, settings, text = declared.stream, declared.settings, declared.schema_text
    kept = table_properties.make_stored_properties(settings, declared.comment)
    registering = declared.format.registry_format is not None and not new.has_schema
    if not registering and text:
        kept[SCHEMA_KEY] = text
    mark = CreationMark.new(pravega.config, text) if registering else None
    with _undone_on_failure(catalog, stream, mark) as undo:
        # A server carries out a request whose answer nobody waits for: each comes to its end before it is undone.
        with cancellation.shield():
            begun = kept | (mark.stored if mark is not None else {})
            if found is None:
                check_new_stream(stream.name)
                _create_stream(catalog, stream, table_properties.make_stream_configuration(settings, begun), undo)
            else:
                table_properties.check_adoption(declared.options)
                _set_tags(catalog, stream, found.configuration, begun)
                undo.append(lambda: pravega.controller.update_stream(stream, found.configuration))
        cancellation.check()
        if registering:
            with cancellation.shield():
                register(catalog, declared, undo)
            cancellation.check()
    return _publish(catalog, stream)


def _make_rest(catalog: Catalog, rest: Rest) -> LoadedTable:
    """Complete a CREATE TABLE that was interrupted."""
    declared, stream, configuration = rest.declared, rest.declared.stream, rest.configuration
    mark = CreationMark.new(catalog.pravega.config, declared.schema_text)
    with _undone_on_failure(catalog, stream, mark) as undo, cancellation.shield():
        undo.append(lambda: catalog.pravega.controller.update_stream(stream, configuration))
        stored = table_properties.make_stored_properties(declared.settings, declared.comment)
        _set_tags(catalog, stream, configuration, stored | mark.stored)
        other = mark_of(catalog, stream)
        if other is not None and other != mark:
            raise SchemaNotFoundError(describe_creation_in_progress(stream, other))
        # What it makes is not undone: two statements that take over at the same time make the same.
        register(catalog, declared, [], begun=True)
    return _publish(catalog, stream)


def _publish(catalog: Catalog, stream: Stream) -> LoadedTable:
    """Load a table that others may use by now, and take its mark away. Nothing is undone any more."""
    with cancellation.shield():
        loaded = load_table(catalog.pravega, stream)
        remove_mark(catalog, loaded)
    return loaded


@contextmanager
def _undone_on_failure(catalog: Catalog, stream: Stream, mark: CreationMark | None) -> Iterator[list[Undo]]:
    """Undo what a CREATE TABLE has made when it fails, as long as the stream has its mark, and within its time."""
    config = catalog.pravega.config

    def is_ours() -> bool:
        return mark is None or is_left_to(catalog, stream, mark)

    with (
        undo_on_failure("CREATE TABLE", is_ours, seconds_to_undo(config)) as undo,
        limit_retries(seconds_to_make(config)),
    ):
        yield undo


def _create_stream(catalog: Catalog, stream: Stream, configuration: StreamConfiguration, undo: list[Undo]) -> None:
    try:
        catalog.pravega.controller.create_stream(stream, configuration)
    except (ServerFailedError, ServerTimeoutError, ServerUnavailableError):
        # The server may have made it, or a part of it. After other errors a stream of this name is somebody else's.
        undo.append(lambda: delete_if_there(catalog, stream))
        raise
    undo.append(lambda: delete_stream(catalog, stream))


def _set_tags(catalog: Catalog, stream: Stream, configuration: StreamConfiguration, kept: Mapping[str, str]) -> None:
    tags = tags_for(kept, configuration.tags)
    catalog.pravega.controller.update_stream(stream, replace(configuration, tags=tags))
