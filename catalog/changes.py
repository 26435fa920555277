"""The changes of tables, for queries with CHANGES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark_pravega.catalog import tables
from pyspark_pravega.catalog.connections import Catalog
from pyspark_pravega.catalog.naming import about
from pyspark_pravega.datasource.bad_events import PERMISSIVE
from pyspark_pravega.datasource.change_range import ChangeRange
from pyspark_pravega.datasource.changes_planning import changes_schema, row_key
from pyspark_pravega.datasource.planning import nullable
from pyspark_pravega.datasource.stream_table import StreamTable
from pyspark_pravega.sql import options as o

_SPARKS = frozenset(
    (
        "startingversion",
        "endingversion",
        "startingtimestamp",
        "endingtimestamp",
        "startingboundinclusive",
        "endingboundinclusive",
        "deduplicationmode",
        "computeupdates",
    )
)
"""Options of `spark.read.changes` that Spark has read itself (ChangelogContextUtils) and hands on with the others."""


def without_sparks(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a query with CHANGES that are not for Spark."""
    return {key: value for key, value in options.items() if key.lower() not in _SPARKS}


def load_changes(
    catalog: Catalog, namespace: Sequence[str], name: str, changes: ChangeRange, options: Mapping[str, str]
) -> dict[str, Any]:
    """Describe the changes of a table in a range, for a query with these options; raises what `load` does."""
    options = without_sparks(options)
    described = tables.load(catalog, namespace, name, options)
    table = StreamTable.from_json(described["table"])
    with about("Table", described["name"]):
        schema = changes_schema(table)
        changes.bounds()
    permissive = catalog.options(read=options, properties=table.reading).get(o.MODE) == PERMISSIVE
    return {
        **described,
        "schema": (nullable(schema) if permissive and not table.of_changes else schema).json(),
        "table": replace(table, changes=changes).to_json(),
        "row_key": row_key(table),
    }
