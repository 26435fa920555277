"""INSERTs in one transaction each, and micro-batches of streaming queries."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch, name_writer_of_query
from pyspark_pravega.datasource.insert.outcomes import CLEAN_UP_SECONDS, NO_ANSWER, Unit, make_outcome_unknown_error
from pyspark_pravega.datasource.insert.prepare import find_epoch_of_application, write_settings
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter, encoding_id
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from ..protocol.replies import InsertBegun, InsertHandle
from ..storage.catalogs import Catalog
from .insert import InsertEnd, InsertStart, WriteKind
from .open_writes import OpenWrite, OpenWrites
from .queries import WritingQueries


class TransactionalInserts:
    """The open INSERTs with a transaction; thread-safe. A handle is enough to end what another process began."""

    def __init__(self) -> None:
        self.open = OpenWrites[tuple[str, uuid.UUID], Insert]("An INSERT")
        self.queries = WritingQueries()

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin an INSERT; return its handle and the tasks' function."""
        pravega, table, options = prepared.pravega, prepared.table, prepared.options
        with cancellation.shield():  # a transaction that nobody knows of would stay open until its lease ends
            settings, seen = write_settings(options), None
            encoding = run_in_background(partial(encoding_id, pravega, table))
            if start.micro_batch is None:
                named = find_epoch_of_application(options)
                seen = None if named is None else read_seen_state(pravega, table, named)
                insert = Insert.begin(pravega, table, settings)
            else:
                key = table.stream, name_writer_of_query(start.micro_batch.query)
                insert = self.queries.begin(key, pravega, table, replace(settings, unit=Unit.MICRO_BATCH))
        transaction = insert.transaction
        self.open.add((str(table.stream), transaction.id), OpenWrite(insert, start.number, catalog.hold()))
        try:
            function = pickle_write(InsertWriter(insert.spec(start.schema, encoding)))
            cancellation.check()
        except BaseException:
            for thread in self.open.abort_in_threads(lambda opened: opened.write is insert):
                thread.join()
            raise
        return InsertBegun(start.make_handle(WriteKind.TRANSACTION, str(transaction.id), seen), function, PYTHON)

    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        """Commit an INSERT; return the number of its rows."""
        handle, epoch = end.handle, end.epoch
        may_be_committed = end.again and epoch is None
        with (
            cancellation.shield(),
            self._take(catalog, table, handle, end.unit, may_be_committed=may_be_committed) as insert,
        ):
            reports = end.load_complete(InsertMessage, insert.abort)
            if epoch is not None:
                return self._commit_micro_batch(catalog, insert, reports, epoch)
            named = find_epoch_of_application(catalog.options(write=handle.options))
            if named is not None:
                return commit_epoch(insert, reports, replace(named, seen=None if end.again else handle.seen))
            return insert.commit(reports, CommitRequest(again=end.again))

    def _commit_micro_batch(
        self, catalog: Catalog, insert: Insert, reports: Sequence[InsertMessage], epoch: Epoch
    ) -> int:
        key = insert.table.stream, epoch.writer
        if not any(report.rows for report in reports) and self.queries.is_continued_by(key, epoch):
            self.queries.keep(key, catalog, insert)
            return 0
        log = self.queries.find_log(key, catalog.pravega, insert)
        try:
            rows = commit_epoch(insert, reports, epoch, log)
        except BaseException:
            self.queries.forget(key)
            raise
        self.queries.note_commit(key, catalog, insert, epoch, log)
        return rows

    def abort(self, catalog: Catalog, table: StreamTable, handle: InsertHandle) -> None:
        """Abort an INSERT unless it has ended. If the servers do not answer, its lease ends it."""
        with (
            cancellation.shield(),
            limit_retries(CLEAN_UP_SECONDS),
            self._take(catalog, table, handle, Unit.INSERT) as insert,
        ):
            insert.abort()

    @contextmanager
    def _take(
        self, catalog: Catalog, table: StreamTable, handle: InsertHandle, unit: Unit, *, may_be_committed: bool = False
    ) -> Iterator[Insert]:
        """Take an INSERT out of the open ones, or take over an INSERT that another service began.

        The transaction is not kept alive after the body. Raises TransactionOutcomeUnknownError if the servers do not
        answer and that process may have committed it.
        """
        transaction_id = uuid.UUID(handle.id)
        found = self.open.take((str(table.stream), transaction_id))
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
                catalog.pravega.controller, table.stream, transaction_id, settings.lease_ms
            )
        except NO_ANSWER as error:
            if not may_be_committed:
                raise
            raise make_outcome_unknown_error(table.stream, transaction_id, error) from error
        transaction.keep_alive()
        try:
            yield Insert(catalog.pravega, table, transaction, settings)
        finally:
            transaction.stop()
