"""Reads metadata tables as Arrow data: those of a table, and the list of streaming queries."""

from __future__ import annotations

import pyarrow as pa

from pyspark_pravega.datasource.tables.stream_table import TableName
from pyspark_pravega.errors import InvalidNameError, UnsupportedOperationError
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest, quote_all

from ..metadata import system
from ..metadata.tables_of_streams import TABLES, MetadataOfStream
from ..name_resolution import find_named
from ..protocol.table_requests import Identifier, LoadTable
from ..storage.catalogs import Catalog
from .arrow_columns import to_arrow_columns


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
