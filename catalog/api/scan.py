"""Scans: rows of a table as Arrow data, read in the way of Spark's tasks."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.borders import count_events_by_log
from pyspark_pravega.datasource.scan.counts import find_counts
from pyspark_pravega.datasource.scan.planned_scan import PlannedReader, PlannedScan
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.tables.change_range import TIMESTAMP, VERSION, ChangeRange
from pyspark_pravega.datasource.tables.hidden_columns import map_fields_by_name
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest
from pyspark_pravega.sql.option_types import Option

from ..protocol import TimeTravel
from ..protocol.service_replies import TableDescription
from ..queries.scan_planning import open_changes
from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table
from .arrow_columns import to_arrow_columns
from .filters import find_columns, read_conditions
from .parallel import Numbered, read_in_threads

Bound: TypeAlias = int | datetime | str
"""Where a scan begins or ends: a version of the table, a time, or the text of a stream cut."""
_THREADS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class ScanTask:
    """A part of a scan that can be read anywhere, even in another process: tasks can be pickled.

    Tasks hold the credentials of the catalog. What a task reads is fixed, and all tasks together are the scan.

    Examples
    --------
    >>> from concurrent.futures import ProcessPoolExecutor
    >>> from pyspark_pravega.catalog import connect
    >>> def count(task):
    ...     return sum(batch.num_rows for batch in task.to_batches())
    >>> pravega = connect(controller_uri="tcp://localhost:9090")
    >>> with ProcessPoolExecutor() as processes:
    ...     print(sum(processes.map(count, pravega.load_table("iot.sensor").scan().tasks())))
    """

    reader: PlannedReader[Any, Any] = field(repr=False)
    partition: InputPartition = field(repr=False)
    counted: bool
    """Whether the reader's batches may be counts, which have no rows."""
    schema: pa.Schema
    condition: pc.Expression | None

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the task, batch by batch.

        Raises MalformedEventError with the event if one does not fit the table, and other PravegaErrors of the servers.
        """
        for batch in self.reader.batches(self.partition):
            if self.counted and find_counts(batch) is not None:
                continue
            if self.condition is not None:
                batch = batch.filter(self.condition)
            if batch.num_rows:
                columns = [batch.column(name) for name in self.schema.names]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema) if columns else batch.select([])


@dataclass(frozen=True)
class Scan:
    """Describes rows to read from a table; `Table.scan` and `Table.changes` return it.

    Making a scan reads nothing, and each call of a method reads the rows again. Other libraries take a scan as it is,
    through Arrow's C stream interface: `polars.DataFrame(scan)`.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from pyspark_pravega.catalog import connect
    >>> pravega = connect(controller_uri="tcp://localhost:9090")
    >>> scan = pravega.load_table("iot.sensor").scan(["id", "temp"], filter=pc.field("temp") > 30)
    >>> for batch in scan.to_batches():
    ...     print(batch.num_rows)
    """

    catalog: Catalog = field(repr=False)
    described: TableDescription = field(repr=False)
    columns: tuple[str, ...]
    condition: pc.Expression | None
    limit: int | None
    options: Mapping[str, str] = field(repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        fields = _find_fields(self.described)
        return to_arrow_columns(StructType([fields[name] for name in self.columns]))

    def to_arrow(self, *, threads: int = _THREADS) -> pa.Table:
        """Read all rows into memory.

        `threads`: the number of threads that read; by default one for each core, at most 8.

        Returns the rows in the order of the table's segments, oldest first.

        Raises MalformedEventError with the event if one does not fit the table, DataLossError if events were removed
        before they were read.
        """
        return _collect_in_order(self._read_batches(self.tasks(), threads), self.schema)

    def to_batches(self, *, threads: int = _THREADS) -> pa.RecordBatchReader:
        """Read the rows in bounded memory, up to the table's end at this moment.

        `threads`: the number of threads that read; by default one for each core, at most 8. Each needs about 32 MiB;
        see the option `read-window`.

        Returns the rows. Those of one segment come in their order, and those of several segments mixed unless `threads`
        is 1. The threads end with the last row, or when nothing refers to the reader any more. Reading raises the
        errors of `to_arrow`.
        """
        batches = self._read_batches(self.tasks(), threads)
        return pa.RecordBatchReader.from_batches(self.schema, _drop_numbers(batches))

    def count(self) -> int:
        """Count the rows.

        Raises MalformedEventError with the event if one does not fit the table, DataLossError if events were removed
        before they were read.
        """
        if self.condition is None and self.limit is None:
            planned = self._plan(StructType([]))
            count = count_events_by_log(self.catalog.pravega, self.described.table.stream, planned)
            if count is not None:
                return count
            tasks = _make_tasks(planned, pa.schema([]), None)
        else:
            tasks = self.tasks()
        return sum(batch.num_rows for batch in _drop_numbers(self._read_batches(tasks, _THREADS)))

    def tasks(self) -> list[ScanTask]:
        """Plan the scan as parts, to be read in other threads, processes or machines.

        Returns the parts. The scan's `limit` applies to each of them: a program that puts their rows together keeps
        only that many.
        """
        return _make_tasks(self.plan(), self.schema, self.condition)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as one stream, for libraries that take Arrow data."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def plan(self) -> PlannedScan:
        """Plan the columns of the scan, and those that its condition needs."""
        return self._plan(select_columns(self.described, self.columns, self.condition))

    def _plan(self, required: StructType) -> PlannedScan:
        """Plan what to read: only the segments, offsets and versions that can have rows which the condition keeps."""
        table = self.described.table
        fields = StructType(list(_find_fields(self.described).values()))
        condition = self.condition
        request = ScanRequest(
            required,
            every=fields,
            hints=[] if condition is None else read_conditions(condition, arrow_schema(fields)),
            filtered=condition is not None,
            limit=self.limit,
        )
        if table.asked.changes is not None:
            with open_changes(self.catalog, table, self.options) as (_, opened):
                return opened.plan_scan(request)
        with prefix_table(self.catalog, table):
            options = resolve_read(self.catalog.options, table, self.options)
            return open_table(self.catalog.pravega, table, options).plan_scan(request)

    def _read_batches(self, tasks: Sequence[ScanTask], threads: int) -> Generator[Numbered, None, None]:
        left = self.limit
        if left == 0:
            return
        # With a limit, tasks run one by one: the first ones mostly have enough rows, and the result is always the same.
        for number, batch in read_in_threads(tasks, ScanTask.to_batches, threads if left is None else 1):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield number, batch
            if left == 0:
                break


def make_scan(
    catalog: Catalog,
    described: TableDescription,
    columns: Sequence[str] | None,
    condition: pc.Expression | None,
    limit: int | None,
    options: Mapping[str, str],
) -> Scan:
    """Return a scan of a table. Raises InvalidOptionError, and InvalidSchemaError if there is no such column."""
    with prefix_table(catalog, described.table):
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidOptionError(f"'limit' is {limit!r}; give a number of rows, 0 or more.")
        names = described.schema.names if columns is None else columns
        _check_columns(described, names)
        scan = Scan(catalog, described, tuple(names), condition, limit, options)
        if condition is not None:
            select_columns(described, names, condition)
        return scan


def _check_columns(described: TableDescription, names: Sequence[str]) -> None:
    """Raise InvalidSchemaError for unknown columns, and for no columns if the table has some."""
    hidden = [column.name for column in described.metadata_columns]
    valid = [*described.schema.names, *hidden]
    nothing = not names and bool(described.schema.names)
    if isinstance(names, str) or nothing or len(set(names)) < len(names):
        raise InvalidSchemaError(
            f"'columns' is {names!r}; name one column or more, each once, for example columns=['{valid[0]}']."
        )
    unknown = [name for name in names if name not in valid]
    if unknown:
        hint = ask_did_you_mean(find_nearest(unknown[0], valid)) if len(unknown) == 1 else ""
        raise InvalidSchemaError(
            f"There is no column {', '.join(unknown)}.{hint} Its columns are {', '.join(described.schema.names)}"
            f"{', its hidden ones ' if hidden else ''}{', '.join(hidden)}."
        )


_BOUNDS: Mapping[str, Mapping[type, Option[Any]]] = {
    "start": {datetime: o.START_TIMESTAMP, str: o.START_STREAM_CUT, int: o.START_VERSION},
    "end": {datetime: o.END_TIMESTAMP, str: o.END_STREAM_CUT, int: o.END_VERSION},
}
"""The read options for bounds, by the types of these."""


def make_bound_options(start: Bound | None, end: Bound | None) -> dict[str, str]:
    """Return the read options for bounds. Raises InvalidOptionError for a bound of another type."""
    options = {}
    for name, bound in (("start", start), ("end", end)):
        if bound is not None:
            _check_bound(name, bound, "a version's number, a time with a zone, or a stream cut")
            option = next(option for type, option in _BOUNDS[name].items() if isinstance(bound, type))
            options[option.key] = bound.isoformat() if isinstance(bound, datetime) else str(bound)
    return options


def make_change_range(start: Bound | None, end: Bound | None) -> ChangeRange:
    """Return the range of changes between two versions or two times. Raises InvalidOptionError for other bounds."""
    expected = "a version's number, or a time with a zone"
    first = None if start is None else _read_point("start", start, expected)
    last = None if end is None else _read_point("end", end, expected)
    if first is not None and last is not None and first.unit != last.unit:
        raise InvalidOptionError("'start' and 'end' are a version and a time; give two versions, or two times.")
    either = first or last
    unit = VERSION if either is None else either.unit
    return ChangeRange(unit, None if first is None else first.text, None if last is None else last.text)


def make_time_travel(as_of: Bound) -> TimeTravel:
    """Return the point at which a table is read. Raises InvalidOptionError for one of another type."""
    return _read_point("as_of", as_of, "a version's number, a tag, a stream cut, or a time with a zone")


def _read_point(name: str, bound: Bound, expected: str) -> TimeTravel:
    _check_bound(name, bound, expected)
    if isinstance(bound, datetime):
        return TimeTravel(TIMESTAMP, str(round(bound.timestamp() * 1_000_000)))
    return TimeTravel(VERSION, str(bound))


def _check_bound(name: str, bound: object, expected: str) -> None:
    """Raise InvalidOptionError unless a value is a bound."""
    if isinstance(bound, datetime):
        if bound.tzinfo is None:
            raise InvalidOptionError(f"'{name}' is {bound}, a time without a zone. Give one with tzinfo.")
    elif isinstance(bound, bool) or not isinstance(bound, int | str):
        raise InvalidOptionError(f"'{name}' is a {type(bound).__name__}; give {expected}.")


def select_columns(described: TableDescription, columns: Sequence[str], condition: pc.Expression | None) -> StructType:
    """Return the columns of a scan, followed by those that only its condition needs."""
    fields = _find_fields(described)
    selected = list(columns)
    if condition is not None:
        every = arrow_schema(StructType(list(fields.values())))
        selected += [name for name in find_columns(condition, every, described.schema.names) if name not in selected]
    return StructType([fields[name] for name in selected])


def _find_fields(described: TableDescription) -> dict[str, StructField]:
    """Return the columns that a scan can name: the table's own, and the hidden ones that it has."""
    hidden = {column.name for column in described.metadata_columns}
    every = map_fields_by_name(described.schema)
    return {name: field for name, field in every.items() if name in described.schema.names or name in hidden}


def read_planned(scan: Scan, planned: PlannedScan) -> pa.Table:
    """Read what was planned for the `select_columns` of a scan into memory, in the order of its partitions."""
    tasks = _make_tasks(planned, scan.schema, scan.condition)
    return _collect_in_order(read_in_threads(tasks, ScanTask.to_batches, _THREADS), scan.schema)


def _make_tasks(planned: PlannedScan, schema: pa.Schema, condition: pc.Expression | None) -> list[ScanTask]:
    reader, counted = planned.reader, planned.source.counted
    return [ScanTask(reader, partition, counted, schema, condition) for partition in reader.planned]


def _collect_in_order(batches: Generator[Numbered, None, None], schema: pa.Schema) -> pa.Table:
    with closing(batches):
        ordered = sorted(batches, key=lambda numbered: numbered[0])
    return pa.Table.from_batches([batch for _, batch in ordered], schema)


def read_batches(scan: Scan, planned: PlannedScan) -> Iterator[pa.RecordBatch]:
    """Yield what was planned for the `select_columns` of a scan, batch by batch, in no special order."""
    tasks = _make_tasks(planned, scan.schema, scan.condition)
    return _drop_numbers(read_in_threads(tasks, ScanTask.to_batches, _THREADS))


def _drop_numbers(batches: Generator[Numbered, None, None]) -> Iterator[pa.RecordBatch]:
    with closing(batches):
        for _, batch in batches:
            yield batch
