"""Begins, keeps and ends the open writes of this service, so that writes that nobody waits for can be aborted.

INSERTs have one transaction each, and so have the micro-batches of streaming queries. A write into several streams has
one for each stream, because each row goes to the stream that a column names.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.dispatch.dispatch import Dispatch
from pyspark_pravega.datasource.dispatch.dispatch_task import DispatchMessage, DispatchSpec, DispatchWriter
from pyspark_pravega.datasource.dispatch.roster import QueryRun, Roster
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch, name_writer_of_query
from pyspark_pravega.datasource.insert.outcomes import CLEAN_UP_SECONDS, NO_ANSWER, Unit, make_outcome_unknown_error
from pyspark_pravega.datasource.insert.prepare import (
    choose_rows_to_write,
    find_epoch_of_application,
    find_stream_column,
    write_settings,
)
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import find_encoding_id
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import PravegaError

from ..protocol.service_replies import InsertBegun, InsertHandle
from ..storage.catalogs import Catalog
from .insert_start import InsertEnd, InsertStart, WriteKind
from .writing_queries import WritingQueries

LOG = logging.getLogger(__name__)
_ABANDONED_SECONDS = 30.0
"""How long it may take to abort a write that nobody waits for: the service should end soon after its driver."""


class Write(Protocol):
    """An INSERT, or a write into several streams."""

    def abort(self) -> None:
        """Abort it. Raises PravegaError."""


Key = TypeVar("Key", bound=Hashable)
AnyWrite = TypeVar("AnyWrite", bound=Write)


@dataclass(frozen=True)
class OpenWrite(Generic[AnyWrite]):
    """An open write, the number of the call that began it, and a function that gives its connection back."""

    write: AnyWrite
    begun_by: int
    release: Callable[[], None]


class OpenWrites(Generic[Key, AnyWrite]):
    """The open writes of one kind, by a key; thread-safe. `kind` is what the log calls such a write."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._open: dict[Key, OpenWrite[AnyWrite]] = {}

    def add(self, key: Key, opened: OpenWrite[AnyWrite]) -> None:
        """Note a write that has begun."""
        with self._lock:
            self._open[key] = opened

    def take(self, key: Key) -> OpenWrite[AnyWrite] | None:
        """Remove a write and return it; None if another service process began it."""
        with self._lock:
            return self._open.pop(key, None)

    def abort_in_threads(self, which: Callable[[OpenWrite[AnyWrite]], bool]) -> list[threading.Thread]:
        """Abort some writes, each in its own thread, because its cluster may not answer; return the threads."""
        with self._lock:
            keys = [key for key, opened in self._open.items() if which(opened)]
            left = [self._open.pop(key) for key in keys]
        threads = [threading.Thread(target=self._abort, args=(opened,), name="abort", daemon=True) for opened in left]
        for thread in threads:
            thread.start()
        return threads

    def _abort(self, opened: OpenWrite[AnyWrite]) -> None:
        """Abort a write if the servers can be reached; otherwise its lease ends it."""
        try:
            with limit_retries(_ABANDONED_SECONDS):
                opened.write.abort()
        except PravegaError as error:
            LOG.warning("%s that nobody waits for could not be aborted: %s", self._kind, error)
        finally:
            opened.release()


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
            encoding = run_in_background(partial(find_encoding_id, pravega, table))
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
            function = pickle_write(start.writer(insert.spec(start.schema, encoding)))
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
            if end.describe is not None:
                return insert.commit(reports, self._describe(insert, end.describe, reports))
            if epoch is not None:
                return self._commit_micro_batch(catalog, insert, reports, epoch)
            named = find_epoch_of_application(catalog.options(write=handle.options))
            if named is not None:
                return commit_epoch(insert, reports, replace(named, seen=None if end.again else handle.seen))
            return insert.commit(reports, CommitRequest(again=end.again))

    @staticmethod
    def _describe(
        insert: Insert, describe: Callable[[Sequence[InsertMessage]], CommitRequest], reports: Sequence[InsertMessage]
    ) -> CommitRequest:
        try:
            return describe(reports)
        except PravegaError:
            insert.abort()
            raise

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
        insert = self.open.take((str(table.stream), transaction_id))
        if insert is not None:
            try:
                yield insert.write
            finally:
                insert.write.transaction.stop()
                insert.release()
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


class Dispatches:
    """The open writes into several streams; thread-safe. A handle is enough to end what another process began."""

    def __init__(self) -> None:
        self.open = OpenWrites[uuid.UUID, Dispatch]("A write into several streams")

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin a write into a table that `prepare_insert` returned; return its handle and the tasks' function.

        Raises PermissionDeniedError for a user who may not write the commit log of the scope.
        """
        pravega, table, options = prepared.pravega, prepared.table, prepared.options
        column, micro_batch = find_stream_column(start.schema, options), start.micro_batch
        assert column is not None
        find_epoch_of_application(options)
        settings = replace(write_settings(options), unit=Unit.INSERT if micro_batch is None else Unit.MICRO_BATCH)
        run = None if micro_batch is None else QueryRun(name_writer_of_query(micro_batch.query), micro_batch.run)
        with cancellation.shield():
            roster = Roster.begin(pravega, table.stream, run)
            dispatch = Dispatch(pravega, table, roster, settings)
            dispatch.keep_alive()
        self.open.add(roster.id, OpenWrite(dispatch, start.number, catalog.hold()))
        rows = choose_rows_to_write(table, start.schema, options)
        spec = DispatchSpec(table, pravega.config, options, settings, column, rows, roster)
        handle = start.make_handle(WriteKind.SEVERAL_STREAMS, f"{roster.number} {roster.id}")
        return InsertBegun(handle, pickle_write(DispatchWriter(spec)), PYTHON)

    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        """Commit a write; return the number of its rows. See `Dispatch.commit`."""
        with cancellation.shield(), self._take(catalog, table, end.handle, end.unit) as dispatch:
            reports = end.load_complete(DispatchMessage, dispatch.abort)
            epoch = end.epoch
            if epoch is None:
                epoch = find_epoch_of_application(catalog.options(write=end.handle.options))
            return dispatch.commit(reports, epoch, again=end.again)

    def abort(self, catalog: Catalog, table: StreamTable, handle: InsertHandle) -> None:
        """Abort a write unless it has ended. If the servers do not answer, leases end its transactions."""
        with (
            cancellation.shield(),
            limit_retries(CLEAN_UP_SECONDS),
            self._take(catalog, table, handle, Unit.INSERT) as dispatch,
        ):
            dispatch.abort()

    @contextmanager
    def _take(self, catalog: Catalog, table: StreamTable, handle: InsertHandle, unit: Unit) -> Iterator[Dispatch]:
        number, id = handle.id.split()
        dispatch = self.open.take(uuid.UUID(id))
        if dispatch is None:
            settings = replace(write_settings(catalog.options(write=handle.options)), unit=unit)
            roster = Roster(table.stream, int(number), uuid.UUID(id))
            yield Dispatch(catalog.pravega, table, roster, settings)
            return
        try:
            yield dispatch.write
        finally:
            dispatch.write.stop()
            dispatch.release()
