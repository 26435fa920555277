"""Tables as they were, for queries with `VERSION AS OF` and `TIMESTAMP AS OF`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_pravega.datasource.kinds.dispatch import kind_of
from pyspark_pravega.datasource.scan.time_travel import point_of_time, point_of_version, shown_time
from pyspark_pravega.datasource.tables.as_of import AsOf
from pyspark_pravega.datasource.tables.change_range import TIMESTAMP
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import UnsupportedOperationError

from .connections import Catalog
from .naming import errors_about
from .replies import TableDescription
from .requests import TimeTravel
from .spelling import subject

_SPARKS = ("versionasof", "timestampasof")
"""Options of `spark.read` that Spark has read itself, and hands on with the others."""


def without_sparks(table: StreamTable, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a read of a table without those that said as of when it is read."""
    if table.as_of is None:
        return options
    return {key: text for key, text in options.items() if key.lower() not in _SPARKS}


def at(catalog: Catalog, described: TableDescription, asked: TimeTravel | None) -> TableDescription:
    """Describe a table at the position that a query asks for, with the columns of today; None: as it is now.

    Raises InvalidOptionError for a position that it does not have.
    """
    if asked is None:
        return described
    stream, kind = described.table.stream, kind_of(described.table)
    if not kind.of_stream:
        raise UnsupportedOperationError(kind.refusal("VERSION AS OF", described.name))
    with errors_about("Table", subject(catalog, described.table)):
        if asked.unit == TIMESTAMP:
            point = point_of_time(catalog.pravega, stream, int(asked.text))
            words = f"TIMESTAMP AS OF '{shown_time(int(asked.text))}'"
        else:
            point = point_of_version(catalog.pravega, stream, asked.text)
            words = f"VERSION AS OF '{asked.text}'"
    return replace(described, table=replace(described.table, as_of=AsOf(words, point.cut.to_text())))
