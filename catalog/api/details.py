"""Describes a table apart from its columns: its size, its versions, its schemas, and its consumers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from pyspark_pravega.client.consumers.consumer import (
    ConsumerStatus,
    list_consumers,
    list_consumers_of_scope,
    list_consumers_of_scopes,
)
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.positions.snapshot import take_snapshot
from pyspark_pravega.datasource.tables.stream_table import StreamTable, TableName
from pyspark_pravega.errors import InvalidNameError, InvalidOptionError, PravegaError, UnsupportedOperationError
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest, is_internal, quote_all

from ..metadata import system
from ..metadata.tables_of_streams import TABLES, MetadataOfStream
from ..name_resolution import find_named
from ..protocol.table_requests import Identifier, LoadTable
from ..storage.catalogs import Catalog
from ..storage.spelling import name_table
from .arrow_columns import to_arrow_columns


@dataclass(frozen=True)
class TableSize:
    """The size of a table, as `Table.size` measures it.

    `segments`: the number of segments that take appends now. `bytes`: the bytes of all events.
    """

    segments: int
    bytes: int


@dataclass(frozen=True)
class TableSchema:
    """A version of a table's schema, as `Table.schema_versions` lists them.

    `version`: its number, counted from 0 among the schemas of its type. `type`: the type of events in the schema
    registry. `columns`: the columns as Spark's types, or why there are none.
    """

    version: int
    type: str
    columns: str


@dataclass(frozen=True)
class TableVersion:
    """A version of a table, made by one commit, as `Table.history` lists them.

    `version`: its number, counted from 1. `time`: when it was published, in UTC. `operation`: what committed it, such
    as INSERT or STREAM. `rows`: the number of rows that it added. `position`: the text of the stream cut at which it
    ends.
    """

    version: int
    time: datetime
    operation: str
    rows: int
    position: str


@dataclass(frozen=True)
class ConsumerLag:
    """A consumer, or a reader group of another client, as `PravegaCatalog.consumers` lists them.

    `consumer`: its name, with its scope. `table`: the table that it reads. `bytes_behind`: the bytes from its position
    to the end; None where only its readers know the position. `position`: the text of the stream cut where it is, None
    where only its readers know it.
    """

    consumer: str
    table: str
    bytes_behind: int | None
    position: str | None


def measure_table(catalog: Catalog, table: StreamTable, start: str | None) -> TableSize:
    """Measure a table's stream, after a stream cut if one is given.

    Raises UnsupportedOperationError for a key-value table or several streams,
    InvalidOptionError for a cut that is not one of the stream.
    """
    find_table_kind(table).check_supports("size", name_table(catalog, table), table)
    pravega, stream = catalog.pravega, table.stream
    first = None if start is None else StreamCut.from_text(start)
    slices = take_snapshot(
        pravega, stream, start=first, end=None, fail_on_data_loss=False, measure_settled=lambda measure: measure(None)
    )
    return TableSize(len(pravega.controller.current_segments(stream)), sum(piece.end - piece.start for piece in slices))


def list_schemas(catalog: Catalog, table: StreamTable) -> list[TableSchema]:
    """Return the versions of a table's schema in the registry, the oldest first; none if the table has no schema there.

    Raises UnsupportedOperationError for a key-value table or several streams.
    """
    find_table_kind(table).check_supports("schema_versions", name_table(catalog, table), table)
    if table.schema_version is None:
        return []
    schemas = []
    for version in catalog.pravega.registry(table.stream.scope).versions(table.stream.name):
        if table.event_type in (None, version.version.type):
            try:
                columns = find_format(table.format).spark_schema(version.schema.text).simpleString()
                columns = columns.removeprefix("struct<").removesuffix(">")
            except PravegaError as error:
                columns = error.sentence
            schemas.append(TableSchema(version.version.version, version.version.type, columns))
    return schemas


def list_versions(catalog: Catalog, table: StreamTable, newest: int | None) -> list[TableVersion]:
    """Return the versions in a table's commit log, or only so many of the newest ones, the oldest first.

    Raises UnsupportedOperationError for a key-value table or several streams,
    InvalidOptionError for a number below 1.
    """
    find_table_kind(table).check_supports("history", name_table(catalog, table), table)
    if newest is not None and newest < 1:
        raise InvalidOptionError(f"'newest' is {newest}. Give the number of versions, at least 1, or leave it out.")
    log = CommitLog(catalog.pravega, table.stream)
    first = 1 if newest is None else max(1, log.newest() - newest + 1)
    return [
        TableVersion(
            version=version.number,
            time=datetime.fromtimestamp(version.timestamp / 1_000_000, UTC),
            operation=version.operation,
            rows=version.rows,
            position=version.cut.to_text(),
        )
        for version in log.versions(first)
    ]


def inspect_table(catalog: Catalog, identifier: Identifier, name: str) -> pa.Table:
    """Return the rows of a metadata table of a table, even of one that cannot be read.

    Raises StreamNotFoundError, and InvalidNameError if there is no such metadata table.
    """
    metadata_table = Identifier((*identifier.namespace, TableName.parse(identifier.name).stream), name)
    if len(metadata_table.namespace) != 2 or name.lower() not in TABLES:
        raise InvalidNameError(
            f"There is no metadata table {name}.{ask_did_you_mean(find_nearest(name, TABLES))} "
            f"A table has {', '.join(TABLES)}."
        )
    return _read_metadata(catalog, metadata_table)


def list_queries(catalog: Catalog) -> pa.Table:
    """Return the rows of the table `system.queries`."""
    return _read_metadata(catalog, Identifier((system.NAMESPACE,), system.QUERIES))


def _read_metadata(catalog: Catalog, identifier: Identifier) -> pa.Table:
    named = find_named(catalog, identifier)
    schema = to_arrow_columns(named.load(LoadTable(identifier.namespace, identifier.name, {}, writing=False)).schema)
    rows = named.read_rows({}).rows
    arrays = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def refuse_metadata_table(catalog: Catalog, identifier: Identifier) -> None:
    """Raise UnsupportedOperationError for the name of a metadata table; the message says how to read it."""
    if isinstance(find_named(catalog, identifier), MetadataOfStream):
        call = f"inspect('{quote_all(identifier.namespace)}', '{identifier.name.lower()}')"
        raise UnsupportedOperationError(
            f"{catalog.named(*identifier.parts)} is a metadata table, which cannot be loaded: {call} of the catalog "
            "returns its rows."
        )


def list_lags(catalog: Catalog, stream: Stream | None) -> Iterator[ConsumerLag]:
    """Yield the consumers of a stream, or all that the user may see."""
    pravega = catalog.pravega
    if stream is not None:
        yield from map(_describe_lag, list_consumers(pravega, stream))
        return
    scopes = (scope for scope in pravega.controller.list_scopes() if not is_internal(scope))
    yield from map(_describe_lag, list_consumers_of_scopes(pravega, scopes))


def list_lags_of_scope(catalog: Catalog, scope: str) -> Iterator[ConsumerLag]:
    """Yield the consumers of the streams of a scope. Raises ScopeNotFoundError."""
    yield from map(_describe_lag, list_consumers_of_scope(catalog.pravega, scope))


def _describe_lag(status: ConsumerStatus) -> ConsumerLag:
    return ConsumerLag(
        consumer=quote_all((status.scope, status.name)),
        table=quote_all((status.stream.scope, status.stream.name)),
        bytes_behind=status.bytes_behind,
        position=None if status.position is None else status.position.to_text(),
    )
