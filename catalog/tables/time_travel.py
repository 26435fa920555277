"""Changes a table by the options of a query: shows it as of a version or a time, and refuses other columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.positions.points_in_time import find_point_of_time, find_point_of_version, format_time
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.change_range import TIMESTAMP, AsOf
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..protocol import TimeTravel
from ..protocol.service_replies import TableDescription
from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table

_BY_OPTIONS = "With spark.read.format('pravega') it works in every version of Spark."


def travel_to(catalog: Catalog, described: TableDescription, travel: TimeTravel | None) -> TableDescription:
    """Describe a table at the position that a query asks for, with the columns of today; None means as it is now.

    Raises InvalidOptionError if the table has no such position.
    """
    if travel is None:
        return described
    stream = described.table.stream
    find_table_kind(described.table).check_supports("VERSION AS OF", described.name, described.table)
    with prefix_table(catalog, described.table):
        if travel.unit == TIMESTAMP:
            words = f"TIMESTAMP AS OF '{format_time(int(travel.text))}'"
            point = find_point_of_time(catalog.pravega, stream, int(travel.text), words)
        else:
            point = find_point_of_version(catalog.pravega, stream, travel.text)
            words = f"VERSION AS OF '{travel.text}'"
    return replace(described, table=described.table.as_asked(as_of=AsOf(words, point.cut.to_text(), point.about)))


def check_column_options(catalog: Catalog, table: StreamTable, settings: Mapping[str, str]) -> None:
    """Raise UnsupportedOperationError for an option of a query that the loaded columns do not reflect.

    Spark would otherwise take a column with nulls for NOT NULL, or show other columns than the query asked for.
    """
    checked = find_table_kind(table).options_of_columns
    if catalog.by_options or not checked or not {key.lower() for key in settings} & {o.MODE.key, o.SCHEMA_VERSION.key}:
        return
    with prefix_table(catalog, table):
        options = resolve_read(catalog.options, table, settings)
        if o.MODE in checked:
            _check_mode(table, options)
        if o.SCHEMA_VERSION in checked:
            _check_version(table, options.get(o.SCHEMA_VERSION))


def _check_mode(table: StreamTable, options: o.Options) -> None:
    demanded = [field.name for field in table.schema if not field.nullable]
    if options.get(o.MODE) == PERMISSIVE and demanded and not table.asked.permissive:
        raise UnsupportedOperationError(
            f"'{o.MODE.key}'='{PERMISSIVE}' reads bad events as nulls, but only from Spark 4.3 on can an option of a "
            f"query make NOT NULL columns ({', '.join(demanded)}) nullable. Set the table property '{o.MODE.key}'. "
            f"{_BY_OPTIONS}"
        )


def _check_version(table: StreamTable, version: int | None) -> None:
    loaded = None if table.schema_version is None else table.schema_version["version"]
    if version is None or version == loaded:
        return
    if loaded is None:
        raise UnsupportedOperationError(
            f"'{o.SCHEMA_VERSION.key}'='{version}' does not apply to a table without schemas in the schema registry. "
            "Leave it out."
        )
    raise UnsupportedOperationError(
        f"'{o.SCHEMA_VERSION.key}'='{version}' selects a table's columns only from Spark 4.3 on; this query has the "
        f"columns of version {loaded}. {_BY_OPTIONS}"
    )
