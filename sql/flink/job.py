"""Keep what a Flink script has declared so far: catalogs, tables, views, the runtime mode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from .declared_columns import Columns
from .declared_tables import DeclaredTable
from .expressions.inference import Output
from .expressions.zones import Zone
from .report import Untranslatable
from .table_options import CHANGES, TableOptions

DEFAULT_CATALOG, DEFAULT_DATABASE = "default_catalog", "default_database"

FlinkName = tuple[str, str, str]
"""Catalog, database and name of a table or view in Flink."""


@dataclass
class FlinkCatalog:
    """A catalog of type `pravega`: its default scope, and the format of the tables that it makes."""

    database: str
    format: str
    reading: dict[str, str] = field(default_factory=dict)


@dataclass
class View:
    """A view: its query in Flink SQL, whether it reads a stream, its columns and the event times it has."""

    name: str
    query: exp.Expr
    streaming: bool
    columns: list[str] = field(default_factory=list)
    output: Output = field(default_factory=list)
    times: set[str] = field(default_factory=set)


@dataclass
class Job:
    """The names of a script and their meanings."""

    spark_catalog: str
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    batch: bool = False
    catalogs: dict[str, FlinkCatalog] = field(default_factory=dict)
    tables: dict[FlinkName, DeclaredTable] = field(default_factory=dict)
    views: dict[FlinkName, View] = field(default_factory=dict)
    broken: dict[FlinkName, str] = field(default_factory=dict)
    controllers: dict[str, str] = field(default_factory=dict)
    """The Spark catalogs, by the URI of their controller, for tables that name one."""
    connected: dict[str, dict[str, str]] = field(default_factory=dict)
    """How Spark catalogs connect, as far as the script has said."""
    written_options: dict[int, dict[str, str]] = field(default_factory=dict)
    """The options of a table as its CREATE TABLE has them, by its identity, for LIKE."""
    writes: dict[str, int] = field(default_factory=dict)
    """The number of streaming statements that write to a table."""
    several: dict[str, list[str]] = field(default_factory=dict)
    """The streams of each table of several streams, by its full name in Spark."""
    zone: Zone = field(default_factory=Zone)
    """The time zone of the session."""
    local_event_time: bool = False
    """Whether a stream has event time without a time zone, which needs the zone UTC."""
    has_checkpoint: bool = False

    def complete_name(self, parts: Sequence[str]) -> FlinkName:
        """Complete a name by the current catalog and database."""
        if len(parts) > 3:
            raise Untranslatable(f"{'.'.join(parts)} has more than three parts")
        if len(parts) == 2 and parts[0] in self.catalogs:
            raise Untranslatable(f"{'.'.join(parts)}: write catalog, database and table")
        defaults = (self.catalog, self.database)[: 3 - len(parts)]
        catalog, database, table = (*defaults, *parts)
        return catalog, database, table

    def find_table(self, name: FlinkName) -> DeclaredTable:
        """Return a table. Raises Untranslatable for one that is unknown or was not translated."""
        if (why := self.broken.get(name)) is not None:
            raise Untranslatable(f"It uses {name[2]}, which was not translated: {why}")
        if (table := self.tables.get(name)) is not None:
            return table
        catalog = self.catalogs.get(name[0])
        if catalog is None:
            raise Untranslatable(
                f"The table {name[2]} is not declared in the script; put its CREATE TABLE before this statement"
            )
        # It exists already, and its columns are in the registry.
        options = TableOptions(scope=name[1], sources=[name[2]], sink=name[2], reading=dict(catalog.reading))
        return DeclaredTable(name[2], name[0], Columns(), options)

    def name_several(self, table: DeclaredTable) -> str | None:
        """Return the name for a table of all sources of a table; None if they are to be read one by one.

        That is so for sources with stream cuts, for changes, and if the table's name cannot be that of another table,
        because it is that of a stream which this table or an earlier one has.
        """
        options, name = table.options, table.name.replace("_", "-")
        if len(options.sources) < 2 or options.starts or options.ends or options.format in CHANGES:
            return None
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", name) or name in table.streams:
            return None
        if table.full_name(name) in {other.full_name(one) for other in self.tables.values() for one in other.streams}:
            return None
        sources = self.several.setdefault(table.full_name(name), options.sources)
        return table.name if sources == options.sources else None

    def check_streams(self, table: DeclaredTable) -> None:
        """Raise Untranslatable for a stream whose name an earlier table of several streams has."""
        for stream in table.streams:
            if table.full_name(stream) in self.several:
                raise Untranslatable(
                    f"The stream {stream} has the name of a table of several streams that the script declares earlier: "
                    "put the CREATE TABLE of this stream first, and the streams are read one by one"
                )

    def is_pravega(self, catalog: str) -> bool:
        return catalog in self.catalogs

    def choose_catalog(self, controller: str | None) -> str:
        """Return a controller's Spark catalog: for the first that of `pyspark-pravega run`, for others their own."""
        if controller is None:
            return self.spark_catalog
        if controller not in self.controllers:
            number = len(self.controllers) + 1
            self.controllers[controller] = self.spark_catalog if number == 1 else f"{self.spark_catalog}_{number}"
        return self.controllers[controller]
