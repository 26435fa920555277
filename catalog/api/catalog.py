"""A catalog as a Python object: its namespaces, and the tables in them."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client import connect
from pyspark_pravega.datasource.workers.connections import client_config, first_contact
from pyspark_pravega.errors import ScopeExistsError, ScopeNotFoundError, StreamExistsError, StreamNotFoundError
from pyspark_pravega.sql.connection_settings import convert_keywords
from pyspark_pravega.sql.identifiers import check_catalog_name, quote_all, split_name
from pyspark_pravega.sql.options import resolve

from ..creation.making import create
from ..protocol.tables import CreateTable
from ..queries.relations import suggest_near_tables
from ..storage.connections import Catalog
from ..storage.naming import prefix_errors
from ..storage.spelling import resolve_stream
from ..tables import namespaces, stream_tables
from .arrow_columns import to_spark_columns
from .details import ConsumerLag, inspect_table, list_lags, refuse_metadata_table
from .table import Table


def open_catalog(name: str, options: Mapping[str, str | int | bool | None]) -> PravegaCatalog:
    """Return the catalog of these options; see `pyspark_pravega.catalog.connect`."""
    check_catalog_name(name)
    with prefix_errors("Catalog", name):
        settings = convert_keywords(options)
        resolved = resolve(conf=settings)
        config = client_config(resolved)
    pravega = connect(config, first_contact=first_contact(resolved))
    return PravegaCatalog(Catalog({**settings, "catalog-name": name}, pravega))


class PravegaCatalog:
    """The namespaces and tables of one Pravega cluster. Thread-safe; a context manager that closes its connections.

    Names of tables are written as in SQL: `iot.sensor_raw`, with the catalog's name before it or not, and parts with
    `.` or other signs in backticks. `_` also means `-`. `stream$type` is the table of the events of one type, and
    `stream$changelog` that of the events of a table of changes.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def __enter__(self) -> PravegaCatalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. Tables and scans of this catalog cannot be used any more."""
        self._catalog.pravega.close()

    def list_namespaces(self) -> list[str]:
        """Return the names of the namespaces, which are scopes, in order."""
        return namespaces.list_namespaces(self._catalog)

    def create_namespace(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a namespace. Raises ScopeExistsError, InvalidNameError."""
        try:
            namespaces.create_namespace(self._catalog, self._split_namespace(name), {})
        except ScopeExistsError:
            if not if_not_exists:
                raise

    def namespace_exists(self, name: str) -> bool:
        """Tell whether there is a namespace of this name."""
        try:
            namespaces.load_namespace(self._catalog, self._split_namespace(name))
        except ScopeNotFoundError:
            return False
        return True

    def drop_namespace(self, name: str, *, cascade: bool = False) -> None:
        """Drop a namespace, with `cascade` its tables too. Raises ScopeNotEmptyError, ScopeNotFoundError."""
        namespaces.load_namespace(self._catalog, self._split_namespace(name))
        namespaces.drop_namespace(self._catalog, self._split_namespace(name), cascade)

    def list_tables(self, namespace: str) -> list[str]:
        """Return the names of the tables of a namespace, as `load_table` takes them. Raises ScopeNotFoundError.

        Views are not among them: Spark alone can read one.
        """
        parts = self._split_namespace(namespace)
        with suggest_near_tables(self._catalog, parts):
            return [quote_all((*parts, name)) for name in stream_tables.list_tables(self._catalog, parts)]

    def table_exists(self, name: str) -> bool:
        """Tell whether there is a table of this name."""
        namespace, table = self._split_name(name)
        return stream_tables.exists(self._catalog, namespace, table, creating=False)

    def load_table(self, name: str) -> Table:
        """Return a table.

        Raises StreamNotFoundError, UnsupportedOperationError for a view and for a metadata table, which `inspect`
        returns, and the errors of a table that cannot be read.
        """
        namespace, table = self._split_name(name)
        refuse_metadata_table(self._catalog, namespace, table)
        with suggest_near_tables(self._catalog, namespace, table):
            return Table(self._catalog, namespace, table)

    def create_table(
        self,
        name: str,
        schema: pa.Schema | StructType | None = None,
        *,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table as one unit, stream and schema, or nothing; return it.

        `schema` is Arrow's, with comments in the metadata of its fields under `comment`, or Spark's; formats with fixed
        columns need none. `properties` are those of docs/options.md: `format`, `routing-key`, `scaling.min-segments`.
        A stream that has no schema becomes the table, and keeps its events. Raises StreamExistsError,
        ScopeNotFoundError, InvalidNameError, InvalidOptionError, UnsupportedTypeError naming the column.
        """
        namespace, table = self._split_name(name)
        if stream_tables.exists(self._catalog, namespace, table, creating=True):
            if if_not_exists:
                return self.load_table(name)
            raise StreamExistsError(f"The table {self._catalog.named(*namespace, table)} exists.")
        with prefix_errors("Table", self._catalog.named(*namespace, table)):
            columns = to_spark_columns(schema)
        given = dict(properties or {}) if comment is None else {**(properties or {}), "comment": comment}
        try:
            create(self._catalog, CreateTable.of(namespace, table, columns, given, adopt=True))
        except StreamExistsError:  # another program has made it just now
            if not if_not_exists:
                raise
        return self.load_table(name)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a table: its events, its stream and its schemas. Raises StreamNotFoundError."""
        namespace, table = self._split_name(name)
        if not stream_tables.drop(self._catalog, namespace, table) and not if_exists:
            raise StreamNotFoundError(f"There is no table {self._catalog.named(*namespace, table)}.")

    def inspect(self, table: str, name: str) -> pa.Table:
        """Return the rows of a metadata table of a table, also of one that cannot be loaded: "segments", "schemas".

        Raises InvalidNameError naming those that there are, StreamNotFoundError.
        """
        parts, table_name = self._split_name(table)
        with suggest_near_tables(self._catalog, parts, table_name):
            return inspect_table(self._catalog, parts, table_name, name)

    def consumers(self, table: str | None = None) -> list[ConsumerLag]:
        """Return the consumers of a table, or of all, and how many bytes each is behind the end."""
        if table is None:
            return list(list_lags(self._catalog, None))
        parts, name = self._split_name(table)
        with suggest_near_tables(self._catalog, parts, name):
            return list(list_lags(self._catalog, resolve_stream(self._catalog, parts, name)))

    def _split_namespace(self, name: str) -> tuple[str, ...]:
        parts = split_name(name)
        return parts[1:] if len(parts) == 2 and parts[0] == self._catalog.name else parts

    def _split_name(self, name: str) -> tuple[tuple[str, ...], str]:
        parts = split_name(name)
        if len(parts) in (3, 4) and parts[0] == self._catalog.name:
            parts = parts[1:]
        return parts[:-1], parts[-1] if parts else ""
