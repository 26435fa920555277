"""Streams as tables: describe, load, truncate, and what of a stream can become a table."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import nullcontext

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.kinds.opening import load as load_part
from pyspark_pravega.datasource.positions.identity import identify, is_same_stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import SchemaNotFoundError, StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.formats.changes.debezium.avro import is_envelope
from pyspark_pravega.sql import options as o

from ..protocol.service_replies import TableDescription
from ..storage import table_properties
from ..storage.catalogs import Catalog
from ..storage.creation_mark import find_mark
from ..storage.dropping import drop_stream
from ..storage.reporting import prefix_errors
from ..storage.spelling import Address, name_table
from .description import describe_table

LOG = logging.getLogger(__name__)
_CREATION_SECONDS, _PAUSE = 1.0, 0.1
"""How long a stream may be there before its schema, and the pause between looks."""


def describe(catalog: Catalog, address: Address, loaded: LoadedTable, *, permissive: bool = False) -> TableDescription:
    """Describe a loaded table with all its properties. `permissive`: bad events are rows of nulls."""
    table, stream = address.note_spelling(loaded.table).as_asked(permissive=permissive), loaded.table.stream
    shown = table_properties.show_properties(loaded) | table_properties.make_place_properties(stream)
    return describe_table(catalog, table, identify(catalog.pravega, stream), properties=shown)


def load(catalog: Catalog, address: Address, options: Mapping[str, str], *, writing: bool) -> TableDescription:
    """Describe the table of a stream or of a part of it, for a query with the `options` that change columns.

    Raises the errors of `load_table`.
    """
    stream, part, read = address.stream, address.part, {} if writing else options
    with prefix_errors("Table", address.about) if read or part else nullcontext():
        version = catalog.options(read=read).get(o.SCHEMA_VERSION)
        loaded = wait_for_schema(catalog, stream, part, version)
        mode = resolve_read(catalog.options, loaded.table, read).get(o.MODE)
    try:
        return describe(catalog, address, loaded, permissive=mode == PERMISSIVE and not writing)
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
            mark = find_mark(catalog, stream)
            if mark is None or mark.is_over:
                return load_part(catalog.pravega, stream, part, schema_version=version)  # it may be made by now
        cancellation.sleep(_PAUSE)


def load_if_table(catalog: Catalog, stream: Stream) -> LoadedTable | None:
    """Load a table; None for a stream that is not one table."""
    try:
        return load_table(catalog.pravega, stream)
    except (SchemaNotFoundError, UnsupportedOperationError):
        return None


def is_adoptable(loaded: LoadedTable) -> bool:
    """Return whether a stream can become another table: it has no schema, or that of Debezium's envelopes."""
    return "format" not in loaded.stored and (loaded.table.schema_text is None or has_envelopes(loaded))


def has_envelopes(loaded: LoadedTable) -> bool:
    """Return whether others registered a schema of Debezium's envelopes for its events."""
    table = loaded.table
    return table.schema_text is not None and is_envelope(table.format, table.schema_text)


def find_complete(catalog: Catalog, stream: Stream) -> LoadedTable | None:
    """Load a stream as a table; return None if it has no schema, so that a new table can adopt it.

    The remains of an interrupted CREATE TABLE do not count as a table: the statement can be repeated to complete them.
    """
    try:
        loaded = load_table(catalog.pravega, stream)
    except SchemaNotFoundError:
        return None
    return None if is_adoptable(loaded) else loaded


def undo_creation(catalog: Catalog, stream: Stream, id: str | None) -> None:
    """Drop a stream that a failed statement has made, unless others have replaced it or written to it."""
    controller = catalog.pravega.controller
    try:
        if is_same_stream(identify(catalog.pravega, stream), id) and controller.head(stream) == measure_tail(
            catalog.pravega, stream
        ):
            drop_stream(catalog, stream)
        else:
            LOG.warning("A failed CREATE TABLE AS SELECT leaves %s: others have made it, or written to it.", stream)
    except StreamNotFoundError:
        LOG.debug("Stream %s, which a failed CREATE TABLE AS SELECT has made, is gone.", stream)


def truncate(catalog: Catalog, table: StreamTable) -> None:
    """Remove all events that a table has now; a commit at the same time is removed or kept as a whole.

    In a key-value table the entries are removed, one after the other. Raises UnsupportedOperationError for tables whose
    rows are not all the events of a stream, StreamSealedError.
    """
    kind = find_table_kind(table)  # where rows have keys, DELETE without WHERE deletes one by one
    refuse_to_truncate(catalog, table, "TRUNCATE TABLE", *(() if kind.row_key_of(table) else ("DELETE without WHERE",)))
    kind.truncate(catalog.pravega, table)


def refuse_to_truncate(catalog: Catalog, table: StreamTable, *statements: str) -> None:
    """Raise UnsupportedOperationError, which names the statements, if a table's events cannot be removed."""
    whole = catalog.named(*(table.asked.called or (table.stream.scope, table.stream.name)))
    refused = find_table_kind(table).refusal_to_truncate(name_table(catalog, table), whole)
    if refused is not None:
        raise UnsupportedOperationError(f"{' or '.join(statements)} is not possible on {refused}")
