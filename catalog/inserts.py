"""Begins and ends the writes of this service: INSERTs, in one transaction each, and DELETE, UPDATE and MERGE by key."""

from __future__ import annotations

import base64
import logging
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pyspark.serializers import CPickleSerializer

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.insert.commit import CLEAN_UP_SECONDS, NO_ANSWER, CommitRequest, outcome_unknown_error
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch, writer_of_query
from pyspark_pravega.datasource.insert.noted_times import note_stored
from pyspark_pravega.datasource.insert.prepare import epoch_of_application, write_settings
from pyspark_pravega.datasource.insert.task import InsertMessage, InsertWriter, Unit, encoding_id
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import TransactionMismatchError
from pyspark_pravega.sql import options as o

from .dispatches import Dispatches, is_dispatch
from .open_writes import InsertStart, OpenWrite, OpenWrites
from .protocol import BeginKeyedWrite
from .protocol.replies import InsertBegun, InsertHandle, KeyedWriteBegun
from .storage.connections import Catalog
from .storage.naming import prefix_errors
from .storage.spelling import name_table_and_stream
from .streaming.entry_epochs import begin_epoch_of_entries
from .streaming.writing_queries import WritingQueries

LOG = logging.getLogger(__name__)
_NONE = ""
"""Stands for the transaction in the handle of a write without one."""


class Inserts:
    """The open INSERTs of this service; thread-safe. A handle suffices to end one that another process began."""

    def __init__(self) -> None:
        self._open = OpenWrites[tuple[str, uuid.UUID], Insert]("An INSERT")
        self._queries = WritingQueries()
        self._dispatches = Dispatches()

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin an INSERT into a table that `prepare_insert` returned; return its handle and the tasks' function."""
        pravega, table, options = prepared.pravega, prepared.table, prepared.options
        if options.get(o.STREAM_COLUMN) is not None:
            return self._dispatches.begin(catalog, prepared, start)
        tasks, given, query = start.tasks, dict(start.given), start.query
        plain = prepared.plain_writer(start.schema, begin_epoch_of_entries(catalog, table, start))
        if plain is not None:
            return InsertBegun(InsertHandle(_NONE, tasks, given), pickle_write(plain), PYTHON)
        with cancellation.shield():  # a transaction that nobody knows of would stay open until its lease ends
            settings, seen = write_settings(options), None
            encoding = run_in_background(partial(encoding_id, pravega, table))
            if query is None:
                named = epoch_of_application(options)
                seen = None if named is None else read_seen_state(pravega, table, named)
                insert = Insert.begin(pravega, table, settings)
            else:
                key = table.stream, writer_of_query(query)
                insert = self._queries.begin(key, pravega, table, replace(settings, unit=Unit.MICRO_BATCH))
        transaction = insert.transaction
        self._open.add((str(table.stream), transaction.id), OpenWrite(insert, start.number, catalog.hold()))
        try:
            function = pickle_write(InsertWriter(insert.spec(start.schema, encoding)))
            cancellation.check()
        except BaseException:
            for thread in self._open.abort_in_threads(lambda opened: opened.write is insert):
                thread.join()
            raise
        return InsertBegun(InsertHandle(str(transaction.id), tasks, given, seen), function, PYTHON)

    def commit(
        self,
        catalog: Catalog,
        table: StreamTable,
        handle: InsertHandle,
        messages: Sequence[str],
        again: bool,
        epoch: Epoch | None = None,
    ) -> int:
        """Commit an INSERT; return the number of its rows.

        `again` says that an earlier service process may have committed it already. An `epoch` is committed once,
        however often it is written.
        """
        if is_dispatch(handle):
            return self._dispatches.commit(catalog, table, handle, messages, again, epoch)
        pickles = CPickleSerializer()
        if handle.transaction == _NONE:
            stored = [pickles.loads(base64.b64decode(message)) for message in messages]
            note_stored(catalog.pravega, table.stream, (report.reached for report in stored), epoch)
            return _count_stored_rows(table, stored)
        unit = Unit.INSERT if epoch is None else Unit.MICRO_BATCH
        with (
            cancellation.shield(),
            self._take(catalog, table, handle, unit, again=again and epoch is None) as insert,
        ):
            reports = [pickles.loads(base64.b64decode(message)) for message in messages]
            if len(reports) != handle.tasks or not all(isinstance(report, InsertMessage) for report in reports):
                insert.abort()
                raise TransactionMismatchError(
                    f"{len(reports)} of {handle.tasks} tasks reported what they wrote; nothing was committed."
                )
            if epoch is not None:
                return self._commit_epoch(catalog, table, insert, reports, epoch)
            named = epoch_of_application(catalog.options(write=handle.options))
            if named is not None:
                named = replace(named, seen=None if again else handle.seen)
                return commit_epoch(catalog.pravega, table, insert, reports, named)
            return insert.commit(reports, CommitRequest(again=again))

    def _commit_epoch(
        self, catalog: Catalog, table: StreamTable, insert: Insert, reports: Sequence[InsertMessage], epoch: Epoch
    ) -> int:
        """Commit a micro-batch of a streaming query."""
        key = table.stream, epoch.writer
        if not any(report.rows for report in reports) and self._queries.is_continued_by(key, epoch):
            self._queries.keep(key, catalog, insert)
            return 0
        log = self._queries.find_log(key, catalog.pravega, insert)
        try:
            rows = commit_epoch(catalog.pravega, table, insert, reports, epoch, log)
        except BaseException:
            self._queries.forget(key)
            raise
        self._queries.note_commit(key, catalog, insert, epoch, log)
        return rows

    def abort(self, catalog: Catalog, table: StreamTable, handle: InsertHandle) -> None:
        """Abort an INSERT unless it has ended. If the servers do not answer, its lease ends it."""
        if is_dispatch(handle):
            return self._dispatches.abort(catalog, table, handle)
        if handle.transaction == _NONE:
            return
        with cancellation.shield(), limit_retries(CLEAN_UP_SECONDS), self._take(catalog, table, handle) as insert:
            insert.abort()

    def abort_begun_by(self, number: int) -> None:
        """Abort the INSERT that this call began, if it began one, because nobody has read its answer."""
        self._open.abort_in_threads(lambda opened: opened.begun_by == number)
        self._dispatches.open.abort_in_threads(lambda opened: opened.begun_by == number)

    def abort_all(self) -> list[threading.Thread]:
        """Abort all open INSERTs, because the driver is gone; return the threads that do it."""
        left = self._open.abort_in_threads(lambda opened: True)
        return [*left, *self._dispatches.open.abort_in_threads(lambda opened: True), *self._queries.end()]

    @contextmanager
    def _take(
        self,
        catalog: Catalog,
        table: StreamTable,
        handle: InsertHandle,
        unit: Unit = Unit.INSERT,
        *,
        again: bool = False,
    ) -> Iterator[Insert]:
        """Take an INSERT out of the open ones, or take over one that another service process began.

        The transaction is not kept alive after the body. Raises TransactionOutcomeUnknownError if the servers do not
        answer and, as `again` says, that process may have committed it.
        """
        transaction_id = uuid.UUID(handle.transaction)
        found = self._open.take((str(table.stream), transaction_id))
        if found is not None:
            try:
                yield found.write
            finally:
                found.write.transaction.stop()
                found.release()
            return
        settings = replace(write_settings(catalog.options(write=handle.options)), unit=unit)
        try:
            transaction = Transaction.rejoin(
                catalog.pravega.controller, table.stream, transaction_id, round(settings.lease * 1000)
            )
        except NO_ANSWER as error:
            if not again:
                raise
            raise outcome_unknown_error(table.stream, transaction_id, error) from error
        transaction.keep_alive()
        try:
            yield Insert(catalog.pravega, table, transaction, settings)
        finally:
            transaction.stop()


def _count_stored_rows(table: StreamTable, reports: Sequence[InsertMessage]) -> int:
    """Return the number of rows that were written without a transaction; warn of those that may be lost."""
    lost = sum(report.lost for report in reports)
    if lost:
        LOG.warning("Stream %s: %d rows of a best-effort write may be lost.", table.stream, lost)
    return sum(report.rows for report in reports)


def begin_keyed_write(catalog: Catalog, request: BeginKeyedWrite) -> KeyedWriteBegun:
    """Begin a DELETE, UPDATE or MERGE by key: return its tasks' function.

    Raises UnsupportedOperationError, InvalidOptionError.
    """
    table = request.table
    with prefix_errors("Table", name_table_and_stream(catalog, table)):
        options = catalog.options(write=request.options)
        writer = open_table(catalog.pravega, table, options).keyed_writer(request.schema)
    return KeyedWriteBegun(pickle_write(writer), PYTHON)
