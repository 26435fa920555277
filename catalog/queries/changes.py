"""The changes of tables, for queries with CHANGES."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.read_options import drop_changes_options, resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.sql import options as o

from ..protocol.replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.spelling import name_table, name_table_and_stream
from ..tables.named_table import NamedTable


@contextmanager
def open_changes(catalog: Catalog, table: StreamTable, options: Mapping[str, str]) -> Iterator[tuple[str, TableKind]]:
    """Open the table of a query with CHANGES, with its name for readers; errors in the body name its changes."""
    with prefix_errors("The", f"changes of {name_table_and_stream(catalog, table)}"):
        resolved = resolve_read(catalog.options, table, options)
        yield f"changes of {name_table(catalog, table)}", open_table(catalog.pravega, table, resolved)


def load_changes(named: NamedTable, changes: ChangeRange, options: Mapping[str, str]) -> TableDescription:
    """Describe the changes of a table in a range, for a query with these options.

    Raises the errors of `NamedTable.load_for`.
    """
    options = drop_changes_options(options)
    described = named.load_for("CHANGES", options)
    resolved = resolve_read(named.catalog.options, described.table, options)
    with prefix_errors("Table", described.name):
        return describe_changes(described, changes, resolved)


def describe_changes(described: TableDescription, changes: ChangeRange, options: o.Options) -> TableDescription:
    """Describe the changes of a table in a range. Raises InvalidOptionError for a wrong range."""
    table = described.table
    schema = find_table_kind(table).changes_schema_of(table, permissive=options.get(o.MODE) == PERMISSIVE)
    changes.bounds()
    return replace(
        described, schema=schema, table=table.as_asked(changes=changes), of_changes=True, metadata_columns=()
    )
