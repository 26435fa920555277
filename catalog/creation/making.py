"""Makes the stream and the schema of a new table, or nothing; or the rest of what was cut off before."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.kinds.opening import load as load_part
from pyspark_pravega.datasource.tables.loading import SCHEMA_KEY, LoadedTable, format_traits, load_table, tags_for
from pyspark_pravega.errors import (
    PravegaError,
    SchemaNotFoundError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamExistsError,
)
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import check_new_stream
from pyspark_pravega.sql.table_settings import TableSettings

from ..storage import table_properties
from ..storage.connections import Catalog
from ..storage.dropping import delete_if_there, delete_stream
from .adopting import adoptable, being_made, check_envelopes, continued, existing, has_envelopes
from .mark import CreationMark, is_left_to, mark_of, remove_mark, seconds_to_make, seconds_to_undo
from .registering import register

LOG = logging.getLogger(__name__)
Undo: TypeAlias = Callable[[], None]
_CREATION_SECONDS, _PAUSE = 1.0, 0.1
"""How long a stream may be there before its schema, and the pause between looks."""


def make_table(
    catalog: Catalog,
    stream: Stream,
    schema: StructType,
    settings: TableSettings,
    options: o.Options,
    comment: str | None,
    adopt: bool,
) -> LoadedTable:
    """Make a table as one unit: the stream, its schema group and its schema, or nothing.

    With `adopt` a stream that exists without a schema gets one. Raises StreamExistsError, and what `register` does.
    """
    format = find_format(settings.format)
    text = ""
    if schema.fields:
        text = format.schema_text(schema, stream.name, stream.scope, comment, settings.format_settings)
    try:
        found = existing(catalog, stream) if adopt or catalog.pravega.controller.stream_exists(stream) else None
    except SchemaNotFoundError:
        return _continue(catalog, stream, settings, options, comment, text)
    if found is not None and not (adopt and adoptable(found)):
        raise StreamExistsError(f"The stream {stream} exists and has a schema.")
    registered = found is not None and has_envelopes(found)
    if found is not None and registered:
        check_envelopes(found, settings)
    if settings.routing_key_of_all is None and found is None and not format_traits(format.name).changes:
        # All events come after the property, and what writes here keeps to it.
        settings = replace(settings, routing_key_of_all=settings.routing_key is not None)
    kept = table_properties.stored(settings, comment)
    registering = format.registry_format is not None and not registered
    if not registering and text:
        kept[SCHEMA_KEY] = text
    mark = CreationMark.new(catalog.pravega.config, text) if registering else None
    with _undone_on_failure(catalog, stream, mark) as undo:
        # A server carries out a request whose answer nobody waits for: each comes to its end before it is undone.
        with cancellation.shield():
            begun = kept | (mark.stored if mark is not None else {})
            if found is None:
                check_new_stream(stream.name)
                _create_stream(catalog, stream, table_properties.stream_configuration(settings, begun), undo)
            else:
                table_properties.check_adoption(options)
                _set_tags(catalog, stream, found.configuration, begun)
                undo.append(lambda: catalog.pravega.controller.update_stream(stream, found.configuration))
        cancellation.check()
        if registering:
            with cancellation.shield():
                register(catalog, stream, settings, text, undo)
            cancellation.check()
    return _finished(catalog, stream)


def _continue(
    catalog: Catalog,
    stream: Stream,
    settings: TableSettings,
    options: o.Options,
    comment: str | None,
    text: str,
) -> LoadedTable:
    """Do the rest of a CREATE TABLE that was cut off, unless somebody else comes to its end in time."""
    try:
        wait_for_schema(catalog, stream, "", None)
    except SchemaNotFoundError:
        if catalog.pravega.config.registry_uri is None:
            raise
    else:
        raise StreamExistsError(f"The stream {stream} exists and has a schema.")
    settings, configuration = continued(catalog, stream, settings, comment, options, text)
    mark = CreationMark.new(catalog.pravega.config, text)
    with _undone_on_failure(catalog, stream, mark) as undo, cancellation.shield():
        undo.append(lambda: catalog.pravega.controller.update_stream(stream, configuration))
        _set_tags(catalog, stream, configuration, table_properties.stored(settings, comment) | mark.stored)
        other = mark_of(catalog, stream)
        if other is not None and other != mark:
            raise SchemaNotFoundError(being_made(stream, other))
        # What it makes is not undone: two statements that take over at the same time make the same.
        register(catalog, stream, settings, text, [], begun=True)
    return _finished(catalog, stream)


def _finished(catalog: Catalog, stream: Stream) -> LoadedTable:
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


def wait_for_schema(catalog: Catalog, stream: Stream, part: str, version: int | None) -> LoadedTable:
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


@contextmanager
def undo_on_failure(
    statement: str, is_ours: Callable[[], bool] = lambda: True, seconds: float = float("inf")
) -> Iterator[list[Undo]]:
    """Run the collected steps backwards when the body fails; the body's error is the one that counts.

    Each only while `is_ours` says that what it undoes is the statement's own. All together take `seconds` at most.
    """
    steps: list[Undo] = []
    try:
        yield steps
    except BaseException:
        with cancellation.shield(), limit_retries(seconds):
            for step in reversed(steps):
                try:
                    if not is_ours():
                        LOG.warning("A failed %s is not undone: the stream is not its own, or not any more.", statement)
                        break
                    step()
                except PravegaError as error:
                    LOG.warning("Undoing a failed %s: %s", statement, error)
        raise
