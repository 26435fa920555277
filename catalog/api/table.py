"""A table as a Python object, with its rows as Arrow data: scans, appends, what follows; its history and size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.registry.registry_types import SchemaVersion
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.positions.snapshot import take_snapshot
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, PravegaError
from pyspark_pravega.formats.core.format import find_format

from ..queries.scan_planning import load_changes
from ..storage.spelling import name_table
from ..tables.time_travel import travel_to
from .alterable_table import AlterableTable
from .following import NewRows, follow
from .inspection import inspect_table
from .row_writes import append, delete, upsert
from .scan import Bound, Scan, make_bound_options, make_change_range, make_scan, make_time_travel


@dataclass(frozen=True)
class TableSize:
    """The size of a table, as `Table.size` measures it.

    `segments`: the number of segments that take appends now. `bytes`: the bytes of all events.
    """

    segments: int
    bytes: int


@dataclass(frozen=True)
class TableSchema:
    """A version of a table's schema, as `Table.schema_versions` lists them.

    `version`: its number, counted from 0 among the schemas of its type. `type`: the type of events in the schema
    registry. `columns`: the columns as Spark's types, or why there are none.
    """

    version: int
    type: str
    columns: str


@dataclass(frozen=True)
class TableVersion:
    """A version of a table, made by one commit, as `Table.history` lists them.

    `version`: its number, counted from 1. `time`: when it was published, in UTC. `operation`: what committed it, such
    as INSERT or STREAM. `rows`: the number of rows that it added, of which some are `inserted`, `updated` and
    `deleted` ones in a table of changes. `position`: the text of the stream cut at which it ends.
    """

    version: int
    time: datetime
    operation: str
    rows: int
    position: str
    inserted: int
    updated: int
    deleted: int


class Table(AlterableTable):
    """A table of a catalog, as it was when it was loaded; `refresh` loads it again.

    In the examples of the methods, `table` is the one loaded here, and `customers` is a table of changes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> from pyspark_pravega.catalog import connect
    >>> pravega = connect(controller_uri="tcp://localhost:9090", schema_registry_uri="http://localhost:9092")
    >>> table = pravega.load_table("iot.sensor")
    >>> table.append(pa.table({"id": [1, 2], "temp": [20.5, 31.0]}))
    2
    >>> table.scan(["id"], filter=pc.field("temp") > 30).to_arrow().to_pylist()
    [{'id': 2}]
    """

    def scan(  # noqa: PLR0913  (by keyword)
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        limit: int | None = None,
        *,
        as_of: Bound | None = None,
        start: Bound | None = None,
        end: Bound | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Describe a scan of the table; nothing is read yet.

        `columns`: the names of the columns; by default all but the hidden ones. `filter`: the condition that the rows
        fulfil: `pyarrow.compute.field("temp") > 30`. `limit`: the largest number of rows. `as_of`: a version, a tag, a
        stream cut or a time with a zone: the table is read as it was then, as with VERSION AS OF and TIMESTAMP AS OF.
        `start`, `end`: the bounds of what is read, both included: versions, texts of stream cuts or times with a zone.
        By default everything is read. `options`: read options of docs/options.md, such as `{"mode": "permissive"}`.

        Raises InvalidOptionError for a wrong filter, limit, bound or option; InvalidSchemaError for an unknown column.

        Examples
        --------
        >>> hot = table.scan(["id", "temp"], filter=pc.field("temp") > 30).to_arrow()
        >>> before = table.scan(as_of=1).count()
        """
        settings = {**(options or {}), **make_bound_options(start, end)}
        described = self._load(settings) if settings else self._described
        if as_of is not None:
            described = travel_to(self._catalog, described, make_time_travel(as_of))
        return make_scan(self._catalog, described, columns, filter, limit, settings)

    def changes(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        limit: int | None = None,
        *,
        start: Bound | None = None,
        end: Bound | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Scan:
        """Describe a scan of the table's changes: rows, what happened to them and when, as CHANGES shows them.

        The columns are those of the table, followed by `_change_type`, `_commit_version` and `_commit_timestamp`; there
        are no hidden ones. A filter on `_commit_version` reads only the events of those versions.

        `columns`: the names of the columns; by default all. `filter`: the condition that the rows fulfil. `limit`: the
        largest number of rows. `start`, `end`: two versions, or two times with a zone; both are included. By default
        all changes are read. `options`: read options of docs/options.md.

        Raises InvalidOptionError if the filter, the limit, a bound or an option is wrong; InvalidSchemaError if there
        is no such column; DataLossError if events were removed.

        Examples
        --------
        >>> table.changes(start=2).to_arrow().column("_change_type").to_pylist()
        ['insert', 'insert']
        """
        settings = dict(options or {})
        described = load_changes(self._named, make_change_range(start, end), settings)
        return make_scan(self._catalog, replace(described, metadata_columns=()), columns, filter, limit, settings)

    def inspect(self, name: str) -> pa.Table:
        """Return the rows of a metadata table of this table: history, segments, schemas, tags and others.

        Raises InvalidNameError with those that exist if there is no such metadata table.

        Examples
        --------
        >>> table.inspect("segments").column("number").to_pylist()
        [0]
        """
        return inspect_table(self._catalog, self._identifier, name)

    def head(self, rows: int = 10) -> pa.Table:
        """Read the first rows, and no more events than they need.

        `rows`: the largest number of rows.

        Raises MalformedEventError with the event if one does not fit the table, DataLossError if events were removed
        before they were read.
        """
        return self.scan(limit=rows).to_arrow()

    def append(self, rows: object, *, options: Mapping[str, str] | None = None) -> int:
        """Append rows in one transaction, exactly like an INSERT: all become visible at once, or none.

        A key-value table has no transactions: each row replaces the one with its key, and is visible once written.

        In a table of changes each row replaces the one with its key, if there is one; with the table property
        `insert.conflict` = `fail` it may not.

        Columns are found by name, and a missing column is null. A value of another type is cast if the cast keeps it
        exactly. Only floating-point numbers are rounded, to DECIMAL and FLOAT, as an INSERT does. Rows with the same
        routing key keep their order.

        `rows`: the rows. `options`: write options of docs/options.md. With `txn-app-id` and `txn-version`, a write that
        is repeated is done once.

        Returns the number of rows.

        Raises InvalidSchemaError if the columns do not fit, InvalidRowError with the row if a value does not,
        DuplicateKeyError for a row that may not replace another, StreamSealedError if the stream is sealed,
        PermissionDeniedError if the user may not write, TransactionOutcomeUnknownError if the servers do not say
        whether the commit succeeded.

        Examples
        --------
        >>> table.append(pa.table({"id": [1, 2], "temp": [20.5, 31.0]}))
        2
        """
        described = self._named.load_table({}, writing=True)
        return append(self._catalog, described, rows, options or {})

    def upsert(self, rows: object, *, options: Mapping[str, str] | None = None) -> int:
        """Write rows of a table of changes in one transaction: each replaces the one with its key, if there is one.

        They replace rows even if the table property `insert.conflict` is `fail`. `rows` and their columns are those of
        `append`. `options`: write options of docs/options.md.

        Returns the number of rows.

        Raises UnsupportedOperationError for a table whose rows cannot be changed, InvalidRowError if two rows have one
        key, PermissionDeniedError if the user may not write the table or the commit log, and the errors of `append`.

        Examples
        --------
        >>> customers.upsert(pa.table({"id": [1], "name": ["Ada"]}))
        1
        """
        return upsert(self._catalog, self._named.load_table({}, writing=True), rows, options or {})

    def delete(self, filter: pc.Expression | None = None, *, options: Mapping[str, str] | None = None) -> int:
        """Delete rows of a table of changes in one transaction, exactly like a DELETE: one version, or none.

        `filter`: the condition that the rows fulfil: `pyarrow.compute.field("credit") < 0`; by default all are deleted.
        `options`: write options of docs/options.md.

        Returns the number of rows.

        Raises UnsupportedOperationError for a table whose rows cannot be changed, ConcurrentChangeError if others have
        changed rows that it depends on, PermissionDeniedError if the user may not write the table or the commit log,
        TransactionOutcomeUnknownError if the servers do not say whether the commit succeeded.

        Examples
        --------
        >>> customers.delete(pc.field("credit") < 0)
        1
        """
        described = self._named.load_table({}, writing=True)
        return delete(make_scan(self._catalog, described, None, filter, None, {}), options or {})

    def follow(  # noqa: PLR0913  (by keyword)
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,
        *,
        position: str | None = None,
        start: Bound | None = None,
        available_now: bool = False,
        timeout: float | None = None,
        options: Mapping[str, str] | None = None,
    ) -> Iterator[NewRows]:
        """Read the rows of the table and those that come to it, a batch at a time.

        Every event comes once, and those with the same routing key in their order, even when the stream is scaled. A
        batch holds at most 64 MiB of events, or what the options `max-bytes-per-trigger` and `max-rows-per-trigger`
        say. It may have no rows if `filter` keeps none, or if one of several streams is new.

        `columns`: the names of the columns; by default all but the hidden ones. `filter`: the condition that the rows
        fulfil. `position`: the position of an earlier batch, after which reading continues. `start`: where reading
        begins without a position: by default at the oldest event, with "latest" after what exists now. `available_now`:
        whether reading ends with what exists now. `timeout`: the seconds without new rows after which reading ends; by
        default it never does. `options`: read options of docs/options.md. With `consumer`, retention waits for the
        program, which is done with rows when it asks for the next ones.

        Yields rows, with the position after them.

        Raises DataLossError if events were removed unread, CheckpointError if the position belongs to another stream.

        Examples
        --------
        >>> for new in table.follow(timeout=10):
        ...     print(new.rows.num_rows, new.position)
        """
        settings = {**(options or {}), **make_bound_options(start, None)}
        scan = make_scan(self._catalog, self._load(settings), columns, filter, None, settings)
        return follow(scan, position, available_now=available_now, timeout=timeout)

    def history(self, newest: int | None = None) -> list[TableVersion]:
        """List the versions of the table, one for each commit of an INSERT, of `append` or of a streaming query.

        `newest`: how many of the newest versions to list; by default all.

        Returns the versions, the oldest first.

        Raises InvalidOptionError if `newest` is less than 1; UnsupportedOperationError for a key-value table and for
        several streams, which have no versions.

        Examples
        --------
        >>> for version in table.history(newest=2):
        ...     print(version.version, version.operation, version.rows)
        """
        table = self._check_supports("history")
        if newest is not None and newest < 1:
            raise InvalidOptionError(f"'newest' is {newest}. Give the number of versions, at least 1, or leave it out.")
        log = CommitLog(self._catalog.pravega, table.stream)
        first = 1 if newest is None else max(1, log.newest() - newest + 1)
        return [
            TableVersion(
                version=version.number,
                time=datetime.fromtimestamp(version.timestamp / 1_000_000, UTC),
                operation=version.operation,
                rows=version.rows,
                position=version.cut.to_text(),
                **version.counts._asdict(),
            )
            for version in log.versions(first)
        ]

    def size(self, start: str | None = None) -> TableSize:
        """Measure the table.

        `start`: the text of a stream cut, after which events count; by default all events count.

        Returns the number of segments that take appends, and the bytes of the events.

        Raises InvalidOptionError if `start` is not a stream cut of the table's stream, UnsupportedOperationError for a
        key-value table and for several streams.
        """
        pravega, stream = self._catalog.pravega, self._check_supports("size").stream
        first = None if start is None else StreamCut.from_text(start)
        slices = take_snapshot(pravega, stream, (first, None), fail_on_data_loss=False)
        segments = len(pravega.controller.current_segments(stream))
        return TableSize(segments, sum(piece.end - piece.start for piece in slices))

    def schema_versions(self) -> list[TableSchema]:
        """List the versions of the schema in the registry.

        Returns the versions, the oldest first; none without a registry.

        Raises UnsupportedOperationError for a key-value table and for several streams.
        """
        table = self._check_supports("schema_versions")
        if table.schema_version is None:
            return []
        versions = self._catalog.pravega.registry(table.stream.scope).versions(table.stream.name)
        return [
            _describe_schema(table, version) for version in versions if table.event_type in (None, version.version.type)
        ]

    def _check_supports(self, statement: str) -> StreamTable:
        """Return the table. Raises UnsupportedOperationError for a key-value table or several streams."""
        table = self._described.table
        find_table_kind(table).check_supports(statement, name_table(self._catalog, table), table)
        return table


def _describe_schema(table: StreamTable, version: SchemaVersion) -> TableSchema:
    try:
        columns = find_format(table.format).spark_schema(version.schema.text).simpleString()
        columns = columns.removeprefix("struct<").removesuffix(">")
    except PravegaError as error:
        columns = error.sentence
    return TableSchema(version.version.version, version.version.type, columns)
