"""The changes of tables, for queries with CHANGES."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o

from ..protocol.replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.spelling import name_table, name_table_and_stream
from ..tables.named_table import NamedTable

SPARK_OPTIONS = {
    name.lower(): name
    for name in (
        "startingVersion",
        "endingVersion",
        "startingTimestamp",
        "endingTimestamp",
        "startingBoundInclusive",
        "endingBoundInclusive",
        "deduplicationMode",
        "computeUpdates",
    )
}
"""Options of `spark.read.changes` that Spark has read itself (ChangelogContextUtils) and passes on with the others."""


def drop_spark_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a query with CHANGES that are not Spark's own.

    Raises InvalidOptionError for a key that is almost one of Spark's, and not one of this package.
    """
    ours = {key: value for key, value in options.items() if key.lower() not in SPARK_OPTIONS}
    for key in ours:
        near = difflib.get_close_matches(key.lower(), SPARK_OPTIONS, 1, 0.8)
        if near and key.lower() not in o.OPTIONS:
            raise InvalidOptionError(f"There is no option '{key}'. Did you mean '{SPARK_OPTIONS[near[0]]}'?")
    return ours


@contextmanager
def open_changes(catalog: Catalog, table: StreamTable, options: Mapping[str, str]) -> Iterator[tuple[str, TableKind]]:
    """Open the table of a query with CHANGES, with its name for readers; errors in the body name its changes."""
    with prefix_errors("The", f"changes of {name_table_and_stream(catalog, table)}"):
        resolved = catalog.options(read=drop_spark_options(options), properties=table.scan_properties)
        yield f"changes of {name_table(catalog, table)}", open_table(catalog.pravega, table, resolved)


def load_changes(named: NamedTable, changes: ChangeRange, options: Mapping[str, str]) -> TableDescription:
    """Describe the changes of a table in a range, for a query with these options.

    Raises what `NamedTable.load_for` raises.
    """
    options = drop_spark_options(options)
    described = named.load_for("CHANGES", options)
    resolved = named.catalog.options(read=options, properties=described.table.scan_properties)
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
