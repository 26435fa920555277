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

_BY_OPTIONS = "With spark.read.format('pravega') it works in every version of Spark."


def check_column_options(catalog: Catalog, table: StreamTable, given: Mapping[str, str]) -> None:
    """Raise UnsupportedOperationError for an option of a query that the loaded columns do not follow.

    Spark would then take a column for NOT NULL that has nulls, or show other columns than those that were asked for.
    """
    if catalog.by_options or table.members or table.keys is not None:
        return
    if not {key.lower() for key in given} & {o.MODE.key, o.SCHEMA_VERSION.key}:
        return
    with errors_about("Table", subject(catalog, table)):
        read = time_travel.without_sparks(table, given)
        options = catalog.options(read=read, properties=table.scan_properties)
        if kind_of(table).events_are_rows:
            _check_mode(table, options)
        _check_version(table, options.get(o.SCHEMA_VERSION))


def _check_mode(table: StreamTable, options: o.Options) -> None:
    demanded = [field.name for field in table.schema if not field.nullable]
    if options.get(o.MODE) == PERMISSIVE and demanded and not table.permissive:
        raise UnsupportedOperationError(
            f"'{o.MODE.key}'='{PERMISSIVE}' makes nulls of bad events, but an option of a query makes NOT NULL columns "
            f"({', '.join(demanded)}) nullable from Spark 4.3 on. Set the table property '{o.MODE.key}'. {_BY_OPTIONS}"
        )


def _check_version(table: StreamTable, version: int | None) -> None:
    loaded = None if table.schema_version is None else table.schema_version["version"]
    if version is None or version == loaded:
        return
    if loaded is None:
        raise UnsupportedOperationError(
            f"'{o.SCHEMA_VERSION.key}'='{version}' has no meaning for a table without schemas in the schema registry. "
            "Leave it out."
        )
    raise UnsupportedOperationError(
        f"'{o.SCHEMA_VERSION.key}'='{version}' gives a table its columns from Spark 4.3 on; these are those of version "
        f"{loaded}. {_BY_OPTIONS}"
    )
