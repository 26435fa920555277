"""What a catalog as a Python object says of those that read and write its tables: consumers and streaming queries."""

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
from pyspark_pravega.datasource.insert.ledger import read_ledgers
from pyspark_pravega.sql.identifiers import is_internal, quote_all, split_name

from ..protocol.table_requests import Identifier
from ..queries.relations import suggest_near_tables
from ..storage.catalogs import Catalog
from ..storage.spelling import resolve_scope, resolve_stream
from ..tables import namespaces
from .inspection import list_queries


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


@dataclass(frozen=True)
class TableWriter:
    """A streaming query or an application that writes a table exactly once, as `PravegaCatalog.writers` lists them.

    `writer`: "query" with Spark's id of the query, or "application" with its `txn-app-id`. `table`: the table that it
    writes. `batch`: the newest micro-batch with rows, or the newest `txn-version`. `rows`: the number of rows in it.
    `time`: when that was noted, in UTC.
    """

    writer: str
    table: str
    batch: int
    rows: int
    time: datetime


class WatchedCatalog:
    """The part of a `PravegaCatalog` that tells who reads and writes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def consumers(self, table: str | None = None, *, namespace: str | None = None) -> list[ConsumerLag]:
        """List the consumers of a table, or of all tables.

        `table`: the name of the table; by default all tables. `namespace`: the namespace whose tables are meant; by
        default those of all namespaces.

        Returns each consumer with the number of bytes that it is behind the end.

        Raises StreamNotFoundError if there is no such table.
        """
        pravega = self._catalog.pravega
        if table is not None:
            identifier = self._identify(table)
            with suggest_near_tables(self._catalog, identifier.namespace, identifier.name):
                stream = resolve_stream(self._catalog, identifier.namespace, identifier.name)
                return [_describe_lag(status) for status in list_consumers(pravega, stream)]
        if namespace is not None:
            scope = resolve_scope(self._catalog, self._split_namespace(namespace))
            return [_describe_lag(status) for status in list_consumers_of_scope(pravega, scope)]
        scopes = [scope for scope in pravega.controller.list_scopes() if not is_internal(scope)]
        return [_describe_lag(status) for status in list_consumers_of_scopes(pravega, scopes)]

    def queries(self) -> pa.Table:
        """List the streaming queries that SQL has started, as `SELECT * FROM pravega.system.queries` does.

        Returns a row for each query: its state, its last micro-batch, how far it is behind, and why it last failed.
        """
        return list_queries(self._catalog)

    def writers(self, namespace: str) -> list[TableWriter]:
        """List what writes tables of a namespace exactly once, by the micro-batches that the tables have noted.

        `namespace`: the name of the namespace.

        Returns them in order, with the one that wrote last first. Queries that write key-value tables, or at least
        once, are not noted.

        Raises PermissionDeniedError if this user may not read the commits of the namespace.
        """
        scope = resolve_scope(self._catalog, self._split_namespace(namespace))
        return sorted(self._read_writers(scope), key=lambda one: one.time, reverse=True)

    def _read_writers(self, scope: str) -> Iterator[TableWriter]:
        for stream, row in read_ledgers(self._catalog.pravega, scope):
            if row.epoch >= 0 and row.writer.startswith(("query ", "application ")):
                name = quote_all((stream.scope, stream.name))
                yield TableWriter(
                    row.writer, name, row.epoch, row.rows, datetime.fromtimestamp(row.written_ms / 1000, UTC)
                )

    def namespace_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a namespace, such as its `comment`.

        `name`: the name of the namespace.

        Returns the properties; `location` is the name of the scope in Pravega.

        Raises ScopeNotFoundError if there is no such namespace.
        """
        return namespaces.load_namespace(self._catalog, self._split_namespace(name))

    def _split_namespace(self, name: str) -> tuple[str, ...]:
        parts = split_name(name)
        return parts[1:] if len(parts) == 2 and parts[0] == self._catalog.name else parts

    def _identify(self, name: str) -> Identifier:
        parts = split_name(name)
        if len(parts) in (3, 4) and parts[0] == self._catalog.name:
            parts = parts[1:]
        return Identifier(parts[:-1], parts[-1] if parts else "")


def _describe_lag(status: ConsumerStatus) -> ConsumerLag:
    return ConsumerLag(
        consumer=quote_all((status.scope, status.name)),
        table=quote_all((status.stream.scope, status.stream.name)),
        bytes_behind=status.bytes_behind,
        position=None if status.position is None else status.position.to_text(),
    )
