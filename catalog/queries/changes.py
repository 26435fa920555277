"""The changes of tables, for queries with CHANGES."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.scan.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..metadata import parts as metadata
from ..metadata.parts import belongs_to_stream
from ..protocol.replies import MetadataDescription, TableDescription
from ..storage.connections import Catalog
from ..storage.naming import errors_about
from ..storage.spelling import subject, table_name
from ..tables import stream_tables, views

SPARKS = {
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
"""Options of `spark.read.changes` that Spark has read itself (ChangelogContextUtils) and hands on with the others."""


def without_sparks(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a query with CHANGES that are not for Spark.

    Raises InvalidOptionError for one that is nearly Spark's, and none of this package.
    """
    ours = {key: value for key, value in options.items() if key.lower() not in SPARKS}
    for key in ours:
        near = difflib.get_close_matches(key.lower(), SPARKS, 1, 0.8)
        if near and key.lower() not in o.OPTIONS:
            raise InvalidOptionError(f"There is no option '{key}'. Did you mean '{SPARKS[near[0]]}'?")
    return ours


@contextmanager
def open_changes(catalog: Catalog, table: StreamTable, options: Mapping[str, str]) -> Iterator[tuple[str, TableKind]]:
    """Open the table of a query with CHANGES, with its name for a reader; errors in the body are about its changes."""
    with errors_about("The", f"changes of {subject(catalog, table)}"):
        resolved = catalog.options(read=without_sparks(options), properties=table.scan_properties)
        yield f"changes of {table_name(catalog, table)}", open_table(catalog.pravega, table, resolved)


def _loaded(catalog: Catalog, namespace: Sequence[str], name: str, options: Mapping[str, str]) -> TableDescription:
    if not belongs_to_stream(namespace):
        return stream_tables.load(catalog, namespace, name, options)
    described = metadata.load(catalog, namespace, name, options, writing=False)
    if isinstance(described, MetadataDescription):
        raise UnsupportedOperationError(f"{described.name} has no changes. Leave CHANGES out.")
    return described


def load_changes(
    catalog: Catalog, namespace: Sequence[str], name: str, changes: ChangeRange, options: Mapping[str, str]
) -> TableDescription:
    """Describe the changes of a table in a range, for a query with these options; raises what `load` does.

    Raises UnsupportedOperationError for a view, and for a metadata table.
    """
    options = without_sparks(options)
    with views.refused(catalog, namespace, name, "CHANGES"):
        described = _loaded(catalog, namespace, name, options)
    resolved = catalog.options(read=options, properties=described.table.scan_properties)
    with errors_about("Table", described.name):
        return described_changes(described, changes, resolved)


def described_changes(described: TableDescription, changes: ChangeRange, options: o.Options) -> TableDescription:
    """Describe the changes of a described table in a range. Raises InvalidOptionError for a wrong range."""
    table = described.table
    schema = find_table_kind(table).changes_schema_of(table, permissive=options.get(o.MODE) == PERMISSIVE)
    changes.bounds()
    table = replace(table, changes=changes)
    return replace(described, schema=schema, table=table, of_changes=True, metadata_columns=())
