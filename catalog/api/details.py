"""What there is to tell of a table beside its columns: how large it is, its schemas, who reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark_pravega.client.consumers.consumer import ConsumerStatus, consumers_of_scope, list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.datasource.scan.snapshot import take_snapshot
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql.identifiers import is_internal, quote_all

from ..connections import Catalog


@dataclass(frozen=True)
class TableSize:
    """The segments of a table that take appends now, and the bytes of all its events."""

    segments: int
    bytes: int


@dataclass(frozen=True)
class SchemaVersion:
    """A version of the schema of a type of events: `columns` as Spark's types, or why they are none."""

    version: int
    type: str
    columns: str


@dataclass(frozen=True)
class Commit:
    """A version of a table: what a commit added. `position` is the text of the stream cut at which it ends."""

    version: int
    time: datetime
    operation: str
    rows: int
    position: str


@dataclass(frozen=True)
class ConsumerLag:
    """A consumer, or a reader group of others: None where only its readers know how far they are.

    `position` is the text of a stream cut.
    """

    consumer: str
    table: str
    bytes_behind: int | None
    position: str | None


def size_of(catalog: Catalog, table: StreamTable) -> TableSize:
    """Measure a table's stream, whatever kind of table it is."""
    pravega, stream = catalog.pravega, table.stream
    slices = take_snapshot(
        pravega, stream, start=None, end=None, fail_on_data_loss=False, settled=lambda measure: measure(None)
    )
    return TableSize(len(pravega.controller.current_segments(stream)), sum(piece.end - piece.start for piece in slices))


def schemas_of(catalog: Catalog, table: StreamTable) -> list[SchemaVersion]:
    """Return the versions of a table's schema in the registry, the oldest first; none of a table without any."""
    if table.schema_version is None:
        return []
    found = []
    for each in catalog.pravega.registry(table.stream.scope).versions(table.stream.name):
        if table.event_type in (None, each.version.type):
            try:
                columns = find_format(table.format).spark_schema(each.schema.text).simpleString()
                columns = columns.removeprefix("struct<").removesuffix(">")
            except PravegaError as error:
                columns = error.sentence
            found.append(SchemaVersion(each.version.version, each.version.type, columns))
    return found


def commits_of(catalog: Catalog, table: StreamTable) -> list[Commit]:
    """Return the versions of a table that its commit log has, the oldest first."""
    return [
        Commit(
            version=each.number,
            time=datetime.fromtimestamp(each.timestamp / 1_000_000, UTC),
            operation=each.operation,
            rows=each.rows,
            position=each.cut.to_text(),
        )
        for each in CommitLog(catalog.pravega, table.stream).versions()
    ]


def lags(catalog: Catalog, stream: Stream | None) -> Iterator[ConsumerLag]:
    """Yield the consumers of a stream, or of all that the user may see."""
    pravega = catalog.pravega
    if stream is not None:
        yield from map(_lag, list_consumers(pravega, stream))
        return
    for scope in pravega.controller.list_scopes():
        if not is_internal(scope):
            yield from map(_lag, consumers_of_scope(pravega, scope))


def _lag(found: ConsumerStatus) -> ConsumerLag:
    return ConsumerLag(
        consumer=quote_all((found.scope, found.name)),
        table=quote_all((found.stream.scope, found.stream.name)),
        bytes_behind=found.bytes_behind,
        position=None if found.position is None else found.position.to_text(),
    )
