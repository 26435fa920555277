"""The task's side of a write into several streams: each row goes to the stream that a column names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import shorten
from pyspark_pravega.sql.identifiers import check_new_stream, hyphenate
from pyspark_pravega.sql.options import Options

from ..insert.commit import WriteSettings
from ..insert.insert import Insert
from ..insert.outcomes import AWAY
from ..insert.prepare import apply_write_options, fit_to_rows
from ..insert.reports import InsertMessage, SegmentWrite
from ..insert.task import TaskRows
from ..insert.task_output import TaskOutput
from ..tables.loading import load_table
from ..tables.open_table import OpenTable
from ..tables.stream_table import StreamTable
from ..workers.connections import borrow_connection
from ..workers.user_errors import shorten_errors
from .roster import Roster, check_number


@dataclass(frozen=True)
class DispatchSpec:
    """The plan that all tasks share.

    `table` is the one that is written to; `rows` are the columns that are written.
    """

    table: StreamTable
    config: ClientConfig
    options: Options
    settings: WriteSettings
    column: str
    rows: StructType
    roster: Roster


@dataclass(frozen=True)
class StreamReport:
    """What a task wrote into one stream."""

    transaction: uuid.UUID
    message: InsertMessage


@dataclass
class DispatchMessage(WriterCommitMessage):
    """A task's report: by the name of each stream, what it wrote there."""

    partition: int
    streams: Mapping[str, StreamReport]

    @property
    def rows(self) -> int:
        return sum(report.message.rows for report in self.streams.values())

    @property
    def bytes(self) -> int:
        """Return the bytes of the events, with their headers."""
        return sum(report.message.bytes for report in self.streams.values())

    @property
    def retries(self) -> int:
        """Return the number of connections that were lost in the meantime."""
        return sum(report.message.retries for report in self.streams.values())


@dataclass(frozen=True)
class _Target:
    """A stream that has rows in this task."""

    transaction: Transaction
    rows: TaskRows


class DispatchWriter(DataSourceArrowWriter):
    """Spark's writer for tasks. The driver commits or aborts the transactions that tasks begin."""

    def __init__(self, spec: DispatchSpec) -> None:
        self._spec = spec

    @shorten_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition.

        Raises InvalidRowError for a row whose column names no stream of the scope, StreamNotFoundError for one that
        does not exist, InvalidSchemaError for one with other columns, and the errors of `InsertWriter.write`.
        """
        spec = self._spec
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        with (
            borrow_connection(spec.config) as pravega,
            closing(TaskOutput(pravega.segments, spec.settings.spool_memory, partition)) as output,
        ):
            targets = _Targets(pravega, spec, partition, output)
            try:
                for batch in iterator:
                    targets.take(batch)
                return DispatchMessage(partition, targets.reports(output.finish()))
            except errors.TransactionNotOpenError as error:
                raise targets.explain_end(error) from None
            except AWAY as error:
                raise type(error)(f"{error.message}. {spec.settings.unit.write_again}") from None
            finally:
                targets.stop()


class _Targets:
    """The streams that have rows in this task."""

    def __init__(self, pravega: Pravega, spec: DispatchSpec, partition: int, output: TaskOutput) -> None:
        self._pravega, self._spec = pravega, spec
        self._partition, self._output = partition, output
        self._found: dict[str, _Target] = {}

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows for their streams, in their order. Raises InvalidRowError, and the errors for a wrong stream."""
        spec = self._spec
        if not batch.num_rows:
            return
        names = batch.column(spec.column)
        if names.null_count:
            raise errors.InvalidRowError(
                f"Table {spec.table.stream}: '{spec.column}', which names the stream of each row, is NULL in a row. "
                f"{spec.settings.unit.nothing_visible}. Leave such rows out by a condition, or name a stream for them."
            )
        coded = pc.dictionary_encode(names.cast(pa.string()))
        streams = [_find_stream_name(spec, name) for name in coded.dictionary.to_pylist()]
        unique = sorted(set(streams))
        self._join([name for name in unique if name not in self._found])
        places = np.array([unique.index(name) for name in streams], np.int64)[coded.indices.to_numpy()]
        order = np.argsort(places, kind="stable")
        ends = np.cumsum(np.bincount(places, minlength=len(unique)))
        rows = batch.select(spec.rows.names)
        for name, part in zip(unique, np.split(order, ends[:-1]), strict=True):
            self._found[name].rows.take([rows.take(pa.array(part))])

    def reports(self, finished: Mapping[SegmentAddress, SegmentWrite]) -> Mapping[str, StreamReport]:
        """Return the reports by stream, of all that the output has stored."""
        return {
            name: StreamReport(target.transaction.id, target.rows.report(finished))
            for name, target in self._found.items()
        }

    def explain_end(self, error: errors.TransactionNotOpenError) -> errors.TransactionNotOpenError:
        """Return the error for the transaction that takes no more events."""
        at = self._output.at
        ended = [
            one.transaction for one in self._found.values() if at is not None and one.transaction.stream == at.stream
        ]
        return ended[0].explain_end() if ended else error

    def stop(self) -> None:
        """Leave the transactions to the driver."""
        for target in self._found.values():
            target.transaction.stop()

    def _join(self, names: Sequence[str]) -> None:
        """Find the tables and transactions of streams that this task has no rows for yet."""
        if not names:
            return
        spec, pravega = self._spec, self._pravega
        transactions = spec.roster.transactions(pravega)
        check_number({*transactions, *names})
        tables = {name: _find_table(pravega, spec, name) for name in names}
        lease = spec.settings.lease_ms
        begun = {
            name: Transaction.begin(pravega.controller, table.stream, lease)
            for name, table in tables.items()
            if name not in transactions
        }
        try:
            joined = spec.roster.join(pravega, {name: one.id for name, one in begun.items()})
        except BaseException:
            _abort(list(begun.values()))
            raise
        _abort([one for name, one in begun.items() if joined[name] != one.id])
        for name, table in tables.items():
            transaction = begun.get(name)
            if transaction is None or transaction.id != joined[name]:
                transaction = Transaction.rejoin(pravega.controller, table.stream, joined[name], lease)
            else:  # the driver does it too, unless its service is started again; one task suffices for that
                transaction.keep_alive()
            insert = Insert(pravega, table, transaction, spec.settings)
            if transaction.token:
                pravega.segments.seed_token(table.stream, transaction.token)
            rows = TaskRows(insert.spec(spec.rows), self._partition, self._output)
            self._found[name] = _Target(transaction, rows)


def _abort(transactions: Sequence[Transaction]) -> None:
    for transaction in transactions:
        with suppress(errors.PravegaError):  # nobody has appended to it, and its lease ends it
            transaction.abort()


def _find_stream_name(spec: DispatchSpec, name: str) -> str:
    """Return Pravega's name of the stream that a row names. Raises InvalidRowError."""
    stream_name = hyphenate(name)
    try:
        check_new_stream(stream_name)
    except errors.InvalidNameError:
        scope = spec.table.stream.scope
        raise errors.InvalidRowError(
            f"Table {spec.table.stream}: '{spec.column}' is '{shorten(name)}' in a row, but it must be the name of a "
            f"stream of the scope {scope}, without the scope and without quotes. {spec.settings.unit.nothing_visible}."
        ) from None
    return stream_name


def _find_table(pravega: Pravega, spec: DispatchSpec, name: str) -> StreamTable:
    """Return the table of a stream for this write. Raises StreamNotFoundError, InvalidSchemaError."""
    base, stream = spec.table, Stream(spec.table.stream.scope, name)
    unit = spec.settings.unit
    if stream == base.stream:
        return base
    try:
        table = load_table(pravega, stream).table
    except errors.StreamNotFoundError:
        raise errors.StreamNotFoundError(
            f"There is no stream {stream}, which '{spec.column}' names in a row. {unit.nothing_visible}. A name means "
            f"a stream of the scope {stream.scope}. Create it, for example by CREATE TABLE ... LIKE the table of "
            f"{base.stream}, and {unit.next_step}."
        ) from None
    if _describe_layout(table) != _describe_layout(base):
        raise errors.InvalidSchemaError(
            f"Stream {stream}, which '{spec.column}' names in a row, is not a table like {base.stream}: all streams of "
            f"one write need its columns and format. {base.stream} has {_describe(base)}; {stream} has "
            f"{_describe(table)}. {unit.nothing_visible}."
        )
    return fit_to_rows(apply_write_options(OpenTable(pravega, table, spec.options)), spec.rows)


def _describe_layout(table: StreamTable) -> tuple[object, ...]:
    # Comments and defaults may differ, and so may what is NOT NULL: each stream's rows are checked for that.
    columns = [(field.name, field.dataType.simpleString()) for field in table.schema]
    return table.kind, table.format, table.framing, columns


def _describe(table: StreamTable) -> str:
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)
    return f"the format {table.format} and the columns {columns}"
