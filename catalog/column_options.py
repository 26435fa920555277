"""The options of a query that change a table's columns: Spark loads the table again for them from 4.3 on."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_pravega.datasource.kinds.dispatch import kind_of
from pyspark_pravega.datasource.scan.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o

from . import time_travel
from .connections import Catalog
from .naming import errors_about
from .spelling import subject

_BY_OPTIONS = "It counts in every version with spark.read.format('pravega')."


def check_column_options(catalog: Catalog, table: StreamTable, given: Mapping[str, str]) -> None:
    """Raise UnsupportedOperationError for a query's option that the columns do not follow which Spark has loaded.

    Spark would then take a column for NOT NULL that has nulls, or show other columns than those that were asked for.
    """
    if catalog.by_options or table.members or not kind_of(table).events_are_rows:
        return
    if not {key.lower() for key in given} & {o.MODE.key, o.SCHEMA_VERSION.key}:
        return
    with errors_about("Table", subject(catalog, table)):
        read = time_travel.without_sparks(table, given)
        _check(table, catalog.options(read=read, properties=table.scan_properties))


def _check(table: StreamTable, options: o.Options) -> None:
    demanded = [field.name for field in table.schema if not field.nullable]
    if options.get(o.MODE) == PERMISSIVE and demanded and not table.permissive:
        raise UnsupportedOperationError(
            f"'{o.MODE.key}'='{PERMISSIVE}' makes nulls of bad events, but a query's option makes NOT NULL columns "
            f"({', '.join(demanded)}) nullable from Spark 4.3 on. Set the table property '{o.MODE.key}'. {_BY_OPTIONS}"
        )
    version, loaded = options.get(o.SCHEMA_VERSION), (table.schema_version or {}).get("version")
    if version is not None and version != loaded:
        raise UnsupportedOperationError(
            f"'{o.SCHEMA_VERSION.key}'='{version}' gives a table its columns from Spark 4.3 on; these are those of "
            f"version {loaded}. {_BY_OPTIONS}"
        )
