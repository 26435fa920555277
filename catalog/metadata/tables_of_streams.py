"""Finds the tables whose namespace is a stream: its metadata tables, and its parts that are tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_pravega.datasource.tables.table_name import TableName
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    PravegaError,
    SchemaNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql.names_elsewhere import METADATA_TABLES

from ..protocol import TimeTravel
from ..protocol.replies import MetadataDescription, MetadataRows, TableDescription
from ..storage.connections import Catalog
from ..storage.spelling import resolve_stream
from ..tables import merged_tables, stream_tables
from ..tables.time_travel import travel_to
from .history import CONSUMERS, HISTORY, STREAM_CUTS, TAGS, TRANSACTIONS
from .schemas import ENCODINGS, PROPERTIES, SCHEMAS
from .segments import SCALE_EVENTS, SEGMENTS
from .table import MetadataTable

TABLES: Mapping[str, MetadataTable] = {
    table.name: table
    for table in (
        HISTORY,
        SEGMENTS,
        SCHEMAS,
        ENCODINGS,
        STREAM_CUTS,
        TAGS,
        SCALE_EVENTS,
        TRANSACTIONS,
        CONSUMERS,
        PROPERTIES,
    )
}


def is_stream_namespace(namespace: Sequence[str]) -> bool:
    """Return whether a namespace is a stream in its scope, so that its tables describe that stream."""
    return len(namespace) == 2


def load(
    catalog: Catalog,
    namespace: Sequence[str],
    name: str,
    options: Mapping[str, str],
    writing: bool,
    asked: TimeTravel | None = None,
) -> TableDescription | MetadataDescription:
    """Describe a metadata table, or the changelog or one type of the events of a stream.

    Raises StreamNotFoundError if there is no such stream, InvalidNameError if it has no table of this name,
    UnsupportedOperationError if a metadata table is to be written, and the errors of `stream_tables.load`.
    """
    scope, stream = namespace
    found = TABLES.get(name.lower())
    if found is None:
        return travel_to(catalog, _load_part(catalog, scope, stream, name, options, writing), asked)
    _check_stream(catalog, scope, stream)
    shown = catalog.named(*namespace, found.name)
    if writing:
        raise UnsupportedOperationError(_describe_refusal(shown, scope, stream, catalog))
    if asked is not None:
        raise UnsupportedOperationError(f"{shown} has no versions. Leave VERSION AS OF and TIMESTAMP AS OF out.")
    return MetadataDescription(shown, found.columns)


def read_rows(catalog: Catalog, namespace: Sequence[str], name: str, options: Mapping[str, str]) -> MetadataRows:
    """Return the rows of a metadata table, as they are now. Raises InvalidOptionError if the query has options."""
    if options:
        shown = catalog.named(*namespace, name)
        given = ", ".join(f"'{key}'" for key in sorted(options))
        raise InvalidOptionError(f"{shown} takes no options, but got {given}. Leave them out, and use WHERE.")
    stream = resolve_stream(catalog, namespace[:1], namespace[1])
    made = TABLES[name.lower()].rows(catalog.pravega, stream)
    return MetadataRows(tuple(tuple(row) for row in made))


def exists(catalog: Catalog, namespace: Sequence[str], name: str) -> bool:
    """Return whether a stream has a table of this name."""
    try:
        load(catalog, namespace, name, {}, writing=False)
    except (StreamNotFoundError, InvalidNameError):
        return False
    except PravegaError:
        return True  # it exists, even if it cannot be loaded
    return True


def refuse_change(catalog: Catalog, namespace: Sequence[str], name: str) -> None:
    """Raise UnsupportedOperationError if the table exists, because only its stream can be changed."""
    if exists(catalog, namespace, name):
        scope, stream = namespace
        raise UnsupportedOperationError(_describe_refusal(catalog.named(*namespace, name), scope, stream, catalog))


def _load_part(
    catalog: Catalog, scope: str, stream: str, name: str, options: Mapping[str, str], writing: bool
) -> TableDescription:
    _check_stream(catalog, scope, stream)
    try:
        return stream_tables.load(catalog, (scope,), str(TableName(stream, name)), options, writing)
    except SchemaNotFoundError as error:
        like = METADATA_TABLES.get(name.lower())
        hint = f" Did you mean {catalog.named(scope, stream, like)}?" if like is not None else ""
        raise InvalidNameError(
            f"{catalog.named(scope, stream)} has no table {name}.{hint} Its metadata tables are {', '.join(TABLES)}. "
            f"Its events are tables too if they have several types, or are changes of rows (changelog). {error.message}"
        ) from None


def _check_stream(catalog: Catalog, scope: str, stream: str) -> None:
    if stream_tables.is_stream(catalog, (scope,), stream):
        return
    found = resolve_stream(catalog, (scope,), stream)
    if (row := merged_tables.find(catalog, found)) is not None:
        raise InvalidNameError(
            f"{catalog.named(scope, stream)} is {merged_tables.describe_members(catalog, found, row)}, and has no "
            "metadata tables. Read those of its streams."
        )
    if stream_tables.exists(catalog, (scope,), stream, creating=False):
        raise InvalidNameError(f"{catalog.named(scope, stream)} is not a stream, and has no metadata tables.")
    raise StreamNotFoundError(f"There is no table {catalog.named(scope, stream)}.")


def _describe_refusal(shown: str, scope: str, stream: str, catalog: Catalog) -> str:
    whole = catalog.named(scope, stream)
    return f"{shown} describes {whole}, and can only be read. Change {whole} itself."
