"""The replies of the catalog service to the Java adapter that are more than one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import DataType, StructType

from pyspark_pravega.datasource.scan.planned_scan import PlannedRows
from pyspark_pravega.datasource.tables.stream_table import StreamTable


class Reply:
    """The answer to a request, of more than one value."""


@dataclass(frozen=True)
class HiddenColumn:
    """A metadata column of a table."""

    name: str
    type: DataType
    nullable: bool
    comment: str


@dataclass(frozen=True)
class TableDescription(Reply):
    """A table as Spark shows it. `table` comes back with every request about it.

    `lineage` names it for OpenLineage's agent, see `name_dataset`. `id` distinguishes the stream from one
    recreated under its name; None if the user may not know it. `row_key`: the columns that identify the row, or the row
    that a change is about. `events_are_rows`: the table can be read as a stream. `takes_updates`: rows that are written
    replace those with the same keys. `writes_changes`: UPDATE, DELETE and MERGE write changes. `of_changes`: the rows
    are the changes of a table.
    """

    name: str
    schema: StructType
    properties: Mapping[str, str]
    lineage: Mapping[str, str]
    metadata_columns: tuple[HiddenColumn, ...]
    table: StreamTable
    id: str | None
    events_are_rows: bool
    row_key: tuple[str, ...] = ()
    takes_updates: bool = False
    writes_changes: bool = False
    of_changes: bool = False


@dataclass(frozen=True)
class ViewDefinition(Reply):
    """A view as Spark makes and shows it: its `text`, and what that was understood by.

    `catalog` and `namespace` were the current ones when it was made, `settings` Spark's own confs. `schema` has the
    view's columns, `query_columns` the names that those of the query had. `schema_mode` is Spark's word for what
    happens if the query's columns change.
    """

    text: str
    schema: StructType
    catalog: str | None
    namespace: tuple[str, ...]
    settings: Mapping[str, str]
    schema_mode: str | None
    query_columns: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Relations(Reply):
    """The names of the tables and of the views of a namespace. What is both is a table."""

    tables: tuple[str, ...]
    views: tuple[str, ...]


@dataclass(frozen=True)
class KeySpace(Reply):
    """The segments of a stream that take events now, in the order of their keys.

    `ends` are where in [0, 1] they end, as texts of numbers.
    """

    names: tuple[str, ...]
    ends: tuple[str, ...]


@dataclass(frozen=True)
class MetadataDescription(Reply):
    """A metadata table as Spark shows it."""

    name: str
    schema: StructType


@dataclass(frozen=True)
class PlannedTasks:
    """What tasks read: the pickled function and its pickled partitions in base64.

    `python` is the version of Python that they are for, such as 3.11.
    `schema` describes the rows, and `output` what the tasks return: rows, maybe with a count of bad events.
    """

    function: str
    python: str
    partitions: tuple[str, ...]
    schema: StructType
    output: StructType


@dataclass(frozen=True)
class DriverStep:
    """What only the driver does for a procedure: `kind` says what with the file or directory `subject`.

    The driver answers a `list` of names, a line each, the text that it has `read`, or how many files and bytes are in a
    `copy`. It can `write` a text to a new file, `copy` or `move` a directory to the new one in `text`, and `claim` a
    query, which fails if it runs there.
    """

    kind: str
    subject: str
    text: str = ""


@dataclass(frozen=True)
class MetadataRows(Reply):
    """All rows of a metadata table, with values in the order of its columns; times in microseconds since 1970.

    A procedure has none yet if it needs `tasks` to be run first, or `steps` of the driver. Then the call is repeated
    with what is `pending` and the texts that these return.
    """

    rows: tuple[tuple[Any, ...], ...]
    tasks: PlannedTasks | None = None
    pending: str | None = None
    steps: tuple[DriverStep, ...] | None = None


@dataclass(frozen=True)
class Parameter:
    """A parameter of a procedure. One that is `optional` is null unless it is given."""

    name: str
    type: DataType
    comment: str
    optional: bool


@dataclass(frozen=True)
class ProcedureDescription(Reply):
    """A procedure, with the columns of the rows that it returns.

    `starts_query`: its argument `query` is a query, and it gets the `QueryFacts` of that query.
    """

    name: str
    schema: StructType
    comment: str
    parameters: tuple[Parameter, ...]
    starts_query: bool


@dataclass(frozen=True)
class SourceDescription(Reply):
    """A table that options name. `connection` goes with every request about it, as the conf of a catalog.

    `identifier` has its scope and its name.
    """

    connection: Mapping[str, str] = field(repr=False)
    identifier: tuple[str, str]
    table: TableDescription


@dataclass(frozen=True)
class ScanEnd:
    """Where the scans of a query with these bounds end: pairs of a segment and an offset."""

    start: str
    end: str
    tail: tuple[tuple[int, int], ...]
    newest: int


@dataclass(frozen=True)
class ScanEnds:
    """One end for each pair of bounds that a query's scans of a table have."""

    ends: tuple[ScanEnd, ...] = ()

    def find(self, start: str, end: str) -> ScanEnd | None:
        """Return the end of the scans with these bounds, None for the first of them."""
        return next((scan_end for scan_end in self.ends if (scan_end.start, scan_end.end) == (start, end)), None)

    def with_end(self, start: str, end: str, tail: Mapping[int, int], newest: int = 0) -> ScanEnds:
        """Return these ends with the end of a scan that was the first with its bounds."""
        return ScanEnds((*self.ends, ScanEnd(start, end, tuple(tail.items()), newest)))


@dataclass(frozen=True)
class PlannedRead(Reply):
    """A planned scan, and what Spark shows of it.

    `tasks` are None where the scan must be planned again to be run. The tasks of `search`, if there, are to be run
    before that: each of their rows is a text that the next request has in `found`.
    `affinities` has a number for each partition, or none: the same executor should read those of the same number.
    `bytes` are those of the events. `columnar`: Spark gets columns, not rows. `ends`: for the next scan of the table in
    the same query. `known` is the number of rows where only that is asked for and nothing has to be read to find it.
    """

    tasks: PlannedTasks | None
    search: PlannedTasks | None
    schema: StructType
    affinities: tuple[int, ...]
    bytes: int
    description: str
    ends: ScanEnds | None
    rows: PlannedRows | None
    columnar: bool = True
    known: int | None = None


@dataclass(frozen=True)
class InsertHandle:
    """What finishes an INSERT: the kind of its write, by which parts of its id, the number of its tasks, its options.

    The id of a write into one stream is that of its transaction; a write into several streams has the number and the
    id of its roster. `seen` is that of `Epoch`.
    """

    kind: str
    id: str
    tasks: int
    options: Mapping[str, str]
    seen: str | None = None


@dataclass(frozen=True)
class InsertBegun(Reply):
    """An INSERT's handle, and the pickled function of its tasks in base64 for Python of a version such as 3.11.

    Tasks that change rows by key write as they go, so that no handle ends them.
    """

    insert: InsertHandle | None
    function: str
    python: str


@dataclass(frozen=True)
class QueryStart:
    """A streaming query that the server should start; `epoch` is the number of its lease.

    `into` is the table in SQL. `interval` is in milliseconds, 0 for none. `options` are those of the write. If it
    `repeats`, the query is a CALL about the table, which is repeated at the interval.
    """

    scope: str
    name: str
    epoch: int
    query: str
    into: str
    checkpoint: str
    output_mode: str
    available_now: bool
    interval: int
    options: Mapping[str, str]
    settings: Mapping[str, str]
    catalog: str
    namespace: tuple[str, ...]
    repeats: bool


@dataclass(frozen=True)
class QueryStop:
    """A run of a streaming query that the server should stop and forget. `at_once`: without its micro-batch."""

    scope: str
    name: str
    epoch: int
    at_once: bool


@dataclass(frozen=True)
class QueryCommands(Reply):
    """What a server should do with its queries."""

    start: tuple[QueryStart, ...]
    stop: tuple[QueryStop, ...]
