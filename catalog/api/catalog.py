"""A catalog as a Python object: its namespaces, the tables in them, and who reads and writes these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client import connect
from pyspark_pravega.client.closing import ClosedAtEnd
from pyspark_pravega.client.consumers.consumer import (
    ConsumerStatus,
    list_consumers,
    list_consumers_of_scope,
    list_consumers_of_scopes,
)
from pyspark_pravega.datasource.connecting import read_client_config, read_first_contact
from pyspark_pravega.datasource.insert.ledger import read_ledgers
from pyspark_pravega.errors import ScopeExistsError, StreamExistsError
from pyspark_pravega.sql.identifiers import check_catalog_name, is_internal, quote_all, split_name
from pyspark_pravega.sql.options import convert_keywords, resolve

from ..creation.making import create
from ..name_resolution import find_in_scope
from ..protocol.table_requests import CreateTable, Identifier
from ..queries.relations import suggest_near_tables
from ..storage.catalogs import CATALOG_NAME, OF_STATEMENT, Catalog
from ..storage.reporting import prefix_errors
from ..storage.spelling import resolve_scope, resolve_stream
from ..tables import namespaces
from .arrow_columns import to_spark_columns
from .inspection import inspect_table, list_queries, refuse_metadata_table
from .table import Table


def open_catalog(name: str, options: Mapping[str, str | int | bool | None]) -> PravegaCatalog:
    """Open the catalog of these options; see `pyspark_pravega.catalog.connect`."""
    check_catalog_name(name)
    with prefix_errors("Catalog", name):
        settings = convert_keywords(options)
        resolved = resolve(conf=settings, is_conf_of_driver=False)
        config = read_client_config(resolved)
    pravega = connect(config, first_contact=read_first_contact(resolved))
    return PravegaCatalog(Catalog({**settings, CATALOG_NAME: name, OF_STATEMENT: "true"}, pravega))


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


class PravegaCatalog(ClosedAtEnd):
    """The namespaces and tables of one Pravega cluster, as `connect` of `pyspark_pravega.catalog` returns them.

    A catalog may be used by several threads. As a context manager it closes its connections at the end.

    Names of tables are written as in SQL: `iot.sensor_raw`, with or without the catalog's name in front, and with
    backticks around parts that have `.` or other signs. `_` also means `-`. `stream$type` is the table of the events of
    one type, and `stream$changelog` that of the events of a table of changes.

    The examples of the methods use the names of this one.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pyspark_pravega.catalog import connect
    >>> with connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092") as pravega:
    ...     pravega.create_namespace("iot", if_not_exists=True)
    ...     table = pravega.create_table("iot.sensor", pa.schema([("id", pa.int64()), ("temp", pa.float64())]))
    ...     table.append(pa.table({"id": [1, 2], "temp": [20.5, 21.0]}))
    ...     print(pravega.list_tables("iot"))
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def close(self) -> None:
        """Close all connections. The tables and scans of this catalog cannot be used any more."""
        self._catalog.pravega.close()

    def list_namespaces(self) -> list[str]:
        """Return the names of the namespaces, which are Pravega's scopes, in order."""
        return namespaces.list_namespaces(self._catalog)

    def create_namespace(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a namespace.

        `if_not_exists`: whether a namespace of this name may exist already; nothing happens then.

        Raises ScopeExistsError if the namespace exists, unless `if_not_exists`; InvalidNameError for a wrong name.
        """
        try:
            namespaces.create_namespace(self._catalog, self._split_namespace(name), {})
        except ScopeExistsError:
            if not if_not_exists:
                raise

    def namespace_exists(self, name: str) -> bool:
        """Return whether a namespace exists."""
        return namespaces.has_namespace(self._catalog, self._split_namespace(name))

    def namespace_properties(self, name: str) -> dict[str, str]:
        """Return the properties of a namespace, such as its `comment`.

        `name`: the name of the namespace.

        Returns the properties; `location` is the name of the scope in Pravega.

        Raises ScopeNotFoundError if there is no such namespace.
        """
        return namespaces.load_namespace(self._catalog, self._split_namespace(name))

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drop a namespace.

        `cascade`: whether its tables are dropped too.

        Raises ScopeNotEmptyError if the namespace has tables or views, unless `cascade`; ScopeNotFoundError if there is
        no such namespace.
        """
        namespaces.load_namespace(self._catalog, self._split_namespace(name))
        namespaces.drop_namespace(self._catalog, self._split_namespace(name), cascade)

    def list_tables(self, namespace: str) -> list[str]:
        """Return the names of a namespace's tables, as `load_table` takes them, without views: only Spark reads those.

        Raises ScopeNotFoundError if there is no such namespace.
        """
        parts = self._split_namespace(namespace)
        with suggest_near_tables(self._catalog, parts):
            return [quote_all((*parts, name)) for name in namespaces.list_tables(self._catalog, parts)]

    def table_exists(self, name: str) -> bool:
        """Return whether a table exists, even if it cannot be read."""
        return find_in_scope(self._catalog, self._identify(name)).exists()

    def load_table(self, name: str) -> Table:
        """Return a table as it is now.

        Raises StreamNotFoundError if there is no such table, UnsupportedOperationError for a view and for a metadata
        table (`inspect` returns those), and other PravegaErrors for a table that cannot be read.

        Examples
        --------
        >>> pravega.load_table("iot.sensor").schema.names
        ['id', 'temp']
        """
        identifier = self._identify(name)
        refuse_metadata_table(self._catalog, identifier)
        with suggest_near_tables(self._catalog, identifier.namespace, identifier.name):
            return Table(self._catalog, identifier)

    def create_table(
        self,
        name: str,
        schema: pa.Schema | StructType | None = None,
        *,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table as one unit, with its stream and its schema, or nothing.

        A stream that has no schema becomes the table, and keeps its events.

        `schema`: its columns, as an Arrow schema with comments in the metadata of its fields under
        `comment`, or as Spark's type. Formats with fixed columns need none. `comment`: the comment of the table.
        `properties`: table properties of docs/options.md, such as `format`, `routing-key` or `scaling.min-segments`.
        `if_not_exists`: whether a table of this name may exist already; it is returned then.

        Raises StreamExistsError if the table exists, unless `if_not_exists`; ScopeNotFoundError if there is no such
        namespace; InvalidNameError if no table can have this name; InvalidOptionError if a property is wrong;
        UnsupportedTypeError with the column if a table cannot have one of such a type.

        Examples
        --------
        >>> columns = pa.schema([("id", pa.int64()), ("temp", pa.float64())])
        >>> pravega.create_table("iot.sensor", columns, properties={"format": "avro", "routing-key": "id"})
        Table(pravega.iot.sensor: id, temp)
        """
        identifier = self._identify(name)
        shown = self._catalog.named(*identifier.parts)
        if find_in_scope(self._catalog, identifier).confirm_existence():
            if if_not_exists:
                return self.load_table(name)
            raise StreamExistsError(f"The table {shown} exists.")
        with prefix_errors("Table", shown):
            columns = to_spark_columns(schema)
        texts = dict(properties or {}) if comment is None else {**(properties or {}), "comment": comment}
        try:
            request = CreateTable.of(identifier.namespace, identifier.name, columns, texts, adopt=True)
            create(self._catalog, request)
        except StreamExistsError:  # another program has just made it
            if not if_not_exists:
                raise
        return self.load_table(name)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a table: its events, its stream and its schemas.

        `if_exists`: whether the table may be missing; nothing happens then.

        Raises StreamNotFoundError if there is no such table, unless `if_exists`.
        """
        named = find_in_scope(self._catalog, self._identify(name))
        if not named.drop() and not if_exists:
            named.raise_not_found()

    def inspect(self, table: str, name: str) -> pa.Table:
        """Return the rows of a metadata table of a table, even of one that cannot be loaded.

        `name`: the name of the metadata table: "segments", "schemas", "history", ...

        Raises InvalidNameError with those that exist if there is no such metadata table, StreamNotFoundError if there
        is no such table.
        """
        identifier = self._identify(table)
        with suggest_near_tables(self._catalog, identifier.namespace, identifier.name):
            return inspect_table(self._catalog, identifier, name)

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

        Returns the one that wrote last first. Queries that write key-value tables, or at least once, are not noted.

        Raises PermissionDeniedError if this user may not read the commits of the namespace.
        """
        scope = resolve_scope(self._catalog, self._split_namespace(namespace))
        writers = [
            TableWriter(
                writer=row.writer,
                table=quote_all((stream.scope, stream.name)),
                batch=row.epoch,
                rows=row.rows,
                time=datetime.fromtimestamp(row.timestamp_ms / 1000, UTC),
            )
            for stream, row in read_ledgers(self._catalog.pravega, scope)
            if row.epoch >= 0 and row.writer.startswith(("query ", "application "))
        ]
        return sorted(writers, key=lambda one: one.time, reverse=True)

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
