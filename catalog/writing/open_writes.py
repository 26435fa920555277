"""Begins, keeps and ends the open writes of this service, so that writes that nobody waits for can be aborted.

INSERTs have one transaction each, and so have the micro-batches of streaming queries; the few rows of an INSERT need
none. A write into several streams has one for each stream, because each row goes to the stream that a column names.
"""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.dispatch.dispatch import Dispatch
from pyspark_pravega.datasource.dispatch.dispatch_task import DispatchMessage, DispatchSpec, DispatchWriter
from pyspark_pravega.datasource.dispatch.roster import QueryRun, Roster
from pyspark_pravega.datasource.insert.change_task import ChangesWriter, KeyedRowsWriter
from pyspark_pravega.datasource.insert.commit import CommitRequest, WriteSettings
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, read_seen_state
from pyspark_pravega.datasource.insert.insert import DeferredInsert, Insert, can_defer
from pyspark_pravega.datasource.insert.ledger import name_writer_of_query
from pyspark_pravega.datasource.insert.noted_times import note_stored
from pyspark_pravega.datasource.insert.outcomes import CLEAN_UP_SECONDS, Unit
from pyspark_pravega.datasource.insert.prepare import (
    choose_rows_to_write,
    find_epoch_of_application,
    find_marking_column,
    write_settings,
)
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import find_encoding_id
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, PravegaError
from pyspark_pravega.sql import options as o

from ..protocol.service_replies import InsertBegun, InsertHandle
from ..storage.catalogs import Catalog
from .entry_epochs import begin_epoch_of_entries
from .insert_start import InsertEnd, InsertStart, WriteKind
from .writing_queries import WritingQueries

LOG = logging.getLogger(__name__)
_ABANDONED_SECONDS = 30.0
"""How long it may take to abort a write that nobody waits for: the service should end soon after its driver."""


AnyWrite = TypeVar("AnyWrite", bound=Insert | DeferredInsert | Dispatch)


@dataclass(frozen=True)
class OpenWrite(Generic[AnyWrite]):
    """An open write, the number of the call that began it, and a function that gives its connection back."""

    write: AnyWrite
    begun_by: int
    release: Callable[[], None]


class OpenWrites(ABC, Generic[AnyWrite]):
    """The open writes of one kind; thread-safe. A handle is enough to end what another process began."""

    kind: ClassVar[str]
    """What the log calls such a write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[Stream, str], OpenWrite[AnyWrite]] = {}
        """By the stream of the table, and the id of the handle."""

    @abstractmethod
    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin a write into a table that `prepare_insert` returned; return its handle and the tasks' function."""

    @abstractmethod
    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        """Commit a write; return the number of its rows."""

    def abort(self, catalog: Catalog, table: StreamTable, handle: InsertHandle) -> None:
        """Abort a write unless it has ended. If the servers do not answer, leases end its transactions."""
        with (
            cancellation.shield(),
            limit_retries(CLEAN_UP_SECONDS),
            self._take(catalog, table, InsertEnd(handle, (), again=False)) as write,
        ):
            write.abort()

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
            LOG.warning("%s that nobody waits for could not be aborted: %s", self.kind, error)
        finally:
            opened.release()

    def _add(self, table: StreamTable, id: str, opened: OpenWrite[AnyWrite]) -> None:
        with self._lock:
            self._open[table.stream, id] = opened

    @contextmanager
    def _take(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> Iterator[AnyWrite]:
        """Take a write out of the open ones, or take over one that another service began.

        Its transactions are not kept alive after the body. Raises the errors of `_rejoin`.
        """
        with self._lock:
            opened = self._open.pop((table.stream, end.handle.id), None)
        if opened is None:
            settings = replace(write_settings(catalog.options(write=end.handle.options)), unit=end.unit)
            write = self._rejoin(catalog, table, end, settings)
        else:
            write = opened.write
        try:
            yield write
        finally:
            write.stop()
            if opened is not None:
                opened.release()

    @abstractmethod
    def _rejoin(self, catalog: Catalog, table: StreamTable, end: InsertEnd, settings: WriteSettings) -> AnyWrite:
        """Return a write that another service began."""


class TransactionalInserts(OpenWrites[Insert | DeferredInsert]):
    """The open INSERTs with a transaction, or with a single task that begins one if it has to."""

    kind = "An INSERT"

    def __init__(self) -> None:
        super().__init__()
        self.queries = WritingQueries()

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        pravega, table, options = prepared.pravega, prepared.table, prepared.options
        with cancellation.shield():  # a transaction that nobody knows of would stay open until its lease ends
            settings, seen = replace(write_settings(options), unit=start.unit), None
            encoding = run_in_background(partial(find_encoding_id, pravega, table))
            if start.micro_batch is None:
                named = find_epoch_of_application(options)
                if named is not None and start.writer is KeyedRowsWriter:
                    raise InvalidOptionError(
                        f"'{o.TXN_APP_ID.key}' is for rows that do not depend on the table that they go into, "
                        f"{table.stream}. Leave it out, and run a MERGE whose conditions say what was written before."
                    )
                seen = None if named is None else read_seen_state(pravega, table, named)
                is_deferred = start.tasks == 1 and named is None and can_defer(table, start.writer)
                insert = (DeferredInsert if is_deferred else Insert).begin(pravega, table, settings)
            else:
                key = table.stream, name_writer_of_query(start.micro_batch.query)
                insert = self.queries.begin(key, pravega, table, settings)
        if isinstance(insert, DeferredInsert):
            handle = start.make_handle(WriteKind.SINGLE_TASK, str(uuid.uuid4()))
        else:
            handle = start.make_handle(WriteKind.TRANSACTION, str(insert.transaction.id), seen)
        self._add(table, handle.id, OpenWrite(insert, start.number, catalog.hold()))
        try:
            function = pickle_write(start.writer(insert.spec(start.schema, encoding)))
            cancellation.check()
        except BaseException:
            for thread in self.abort_in_threads(lambda opened: opened.write is insert):
                thread.join()
            raise
        return InsertBegun(handle, function, PYTHON)

    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        handle, epoch = end.handle, end.epoch
        # Who cancels an INSERT that waits in line gives it up; a query that stops ends its micro-batch.
        guard = cancellation.postpone() if epoch is None and not end.again else cancellation.shield()
        with guard, self._take(catalog, table, end) as insert:
            reports = end.load_complete(InsertMessage, insert.abort)
            if isinstance(insert, DeferredInsert):
                return insert.commit(reports, end.statement or CommitRequest(again=end.again))
            if epoch is not None:
                return self._commit_micro_batch(catalog, insert, reports, end)
            named = find_epoch_of_application(catalog.options(write=handle.options))
            if named is not None:
                named = replace(named, seen=None if end.again else handle.seen)
                return commit_epoch(insert, reports, named, checked=end.statement)
            return insert.commit(reports, end.statement or CommitRequest(again=end.again))

    def _commit_micro_batch(
        self, catalog: Catalog, insert: Insert, reports: Sequence[InsertMessage], end: InsertEnd
    ) -> int:
        epoch = end.epoch
        assert epoch is not None
        key = insert.table.stream, epoch.writer
        if not any(report.rows for report in reports) and self.queries.is_continued_by(key, epoch):
            self.queries.keep(key, catalog, insert)
            return 0
        log = self.queries.find_log(key, catalog.pravega, insert, epoch)
        checked = end.statement if any(report.ends is not None for report in reports) else None
        try:
            rows = commit_epoch(insert, reports, epoch, log, checked)
        except BaseException:
            self.queries.forget(key)
            raise
        self.queries.note_commit(key, catalog, insert, epoch, log)
        return rows

    def _rejoin(
        self, catalog: Catalog, table: StreamTable, end: InsertEnd, settings: WriteSettings
    ) -> Insert | DeferredInsert:
        """Take over an INSERT that another service began; raises the errors of `Insert.rejoin`."""
        if end.handle.kind == WriteKind.SINGLE_TASK:
            return DeferredInsert(catalog.pravega, table, settings)
        id, again = uuid.UUID(end.handle.id), end.again and end.epoch is None
        return Insert.rejoin(catalog.pravega, table, settings, id, again=again)


class Dispatches(OpenWrites[Dispatch]):
    """The open writes into several streams."""

    kind = "A write into several streams"

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin a write, see `OpenWrites.begin`.

        Raises PermissionDeniedError for a user who may not write the commit log of the scope.
        """
        pravega, table, options = prepared.pravega, prepared.table, prepared.options
        column, micro_batch = find_marking_column(start.schema, options, o.STREAM_COLUMN), start.micro_batch
        assert column is not None
        find_epoch_of_application(options)
        settings = replace(write_settings(options), unit=Unit.INSERT if micro_batch is None else Unit.MICRO_BATCH)
        run = None if micro_batch is None else QueryRun(name_writer_of_query(micro_batch.query), micro_batch.run)
        with cancellation.shield():
            roster = Roster.begin(pravega, table.stream, run)
            dispatch = Dispatch(pravega, table, roster, settings)
            dispatch.keep_alive()
        handle = start.make_handle(WriteKind.SEVERAL_STREAMS, f"{roster.number} {roster.id}")
        self._add(table, handle.id, OpenWrite(dispatch, start.number, catalog.hold()))
        rows = choose_rows_to_write(table, start.schema, options)
        spec = DispatchSpec(table, pravega.config, options.without_secrets(), settings, column, rows, roster)
        return InsertBegun(handle, pickle_write(DispatchWriter(spec)), PYTHON)

    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        with cancellation.shield(), self._take(catalog, table, end) as dispatch:
            reports = end.load_complete(DispatchMessage, dispatch.abort)
            epoch = end.epoch or find_epoch_of_application(catalog.options(write=end.handle.options))
            return dispatch.commit(reports, epoch, again=end.again)

    def _rejoin(self, catalog: Catalog, table: StreamTable, end: InsertEnd, settings: WriteSettings) -> Dispatch:
        number, id = end.handle.id.split()
        return Dispatch(catalog.pravega, table, Roster(table.stream, int(number), uuid.UUID(id)), settings)


class Inserts:
    """Begins and ends the INSERTs of this service, each by its kind; thread-safe."""

    def __init__(self) -> None:
        self._transactional = TransactionalInserts()
        self._open: Mapping[WriteKind, OpenWrites[Any]] = {
            WriteKind.TRANSACTION: self._transactional,
            WriteKind.SINGLE_TASK: self._transactional,
            WriteKind.SEVERAL_STREAMS: Dispatches(),
        }
        """What keeps the writes of a kind open; nothing does for those without a transaction."""

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin an INSERT into a table that `prepare_insert` returned; return its handle and the tasks' function."""
        if prepared.options.get(o.STREAM_COLUMN) is not None:
            return self._open[WriteKind.SEVERAL_STREAMS].begin(catalog, prepared, start)
        epoch = begin_epoch_of_entries(catalog, prepared.table, start)
        plain = None if start.writer is ChangesWriter else prepared.make_plain_writer(start.schema, epoch)
        if plain is not None:
            return InsertBegun(start.make_handle(WriteKind.WITHOUT_TRANSACTION, ""), pickle_write(plain), PYTHON)
        return self._transactional.begin(catalog, prepared, start)

    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        """Commit an INSERT; return the number of its rows."""
        kind = WriteKind(end.handle.kind)
        if kind is WriteKind.WITHOUT_TRANSACTION:
            return _note_stored_rows(catalog, table, end)
        return self._open[kind].commit(catalog, table, end)

    def abort(self, catalog: Catalog, table: StreamTable, handle: InsertHandle) -> None:
        """Abort an INSERT unless it has ended. If the servers do not answer, leases end its transactions."""
        kind = WriteKind(handle.kind)
        if kind is not WriteKind.WITHOUT_TRANSACTION:
            self._open[kind].abort(catalog, table, handle)

    def abort_begun_by(self, number: int) -> None:
        """Abort the INSERT that this call began, if it began one, because nobody has read its answer."""
        self._abort_in_threads(lambda opened: opened.begun_by == number)

    def abort_all(self) -> list[threading.Thread]:
        """Abort all open INSERTs, because the driver is gone; return the threads that do it."""
        return [*self._abort_in_threads(lambda opened: True), *self._transactional.queries.end()]

    def _abort_in_threads(self, which: Callable[[OpenWrite[Any]], bool]) -> list[threading.Thread]:
        return [thread for writes in self._open.values() for thread in writes.abort_in_threads(which)]


def _note_stored_rows(catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
    """Note the event times of a write without a transaction, whose rows are visible already; return their number.

    Warns of rows that may be lost.
    """
    reports: list[InsertMessage] = end.load_all()
    note_stored(catalog.pravega, table.stream, (report.reached for report in reports), end.epoch)
    lost = sum(report.lost for report in reports)
    if lost:
        LOG.warning("Stream %s: %d rows of a best-effort write may be lost.", table.stream, lost)
    return sum(report.rows for report in reports)
