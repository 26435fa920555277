"""Begins and ends the INSERTs of this service, each by the class for its kind of write."""

from __future__ import annotations

import logging
import threading

from pyspark_pravega.datasource.insert.noted_times import note_stored
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.sql import options as o

from ..protocol.service_replies import InsertBegun, InsertHandle
from ..storage.catalogs import Catalog
from .entry_epochs import begin_epoch_of_entries
from .insert_start import InsertEnd, InsertStart, WriteKind
from .open_writes import Dispatches, TransactionalInserts

LOG = logging.getLogger(__name__)


class Inserts:
    """The INSERTs of this service; thread-safe. A handle is enough to end what another process began."""

    def __init__(self) -> None:
        self._transactional = TransactionalInserts()
        self._dispatches = Dispatches()

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin an INSERT into a table that `prepare_insert` returned; return its handle and the tasks' function."""
        if prepared.options.get(o.STREAM_COLUMN) is not None:
            return self._dispatches.begin(catalog, prepared, start)
        epoch = begin_epoch_of_entries(catalog, prepared.table, start)
        plain = prepared.make_plain_writer(start.schema, epoch)
        if plain is not None:
            return InsertBegun(start.make_handle(WriteKind.WITHOUT_TRANSACTION, ""), pickle_write(plain), PYTHON)
        return self._transactional.begin(catalog, prepared, start)

    def commit(self, catalog: Catalog, table: StreamTable, end: InsertEnd) -> int:
        """Commit an INSERT; return the number of its rows."""
        match WriteKind(end.handle.kind):
            case WriteKind.WITHOUT_TRANSACTION:
                return _note_stored_rows(catalog, table, end)
            case WriteKind.TRANSACTION:
                return self._transactional.commit(catalog, table, end)
            case WriteKind.SEVERAL_STREAMS:
                return self._dispatches.commit(catalog, table, end)

    def abort(self, catalog: Catalog, table: StreamTable, handle: InsertHandle) -> None:
        """Abort an INSERT unless it has ended. If the servers do not answer, leases end its transactions."""
        match WriteKind(handle.kind):
            case WriteKind.TRANSACTION:
                self._transactional.abort(catalog, table, handle)
            case WriteKind.SEVERAL_STREAMS:
                self._dispatches.abort(catalog, table, handle)

    def abort_begun_by(self, number: int) -> None:
        """Abort the INSERT that this call began, if it began one, because nobody has read its answer."""
        self._transactional.open.abort_in_threads(lambda opened: opened.begun_by == number)
        self._dispatches.open.abort_in_threads(lambda opened: opened.begun_by == number)

    def abort_all(self) -> list[threading.Thread]:
        """Abort all open INSERTs, because the driver is gone; return the threads that do it."""
        left = self._transactional.open.abort_in_threads(lambda opened: True)
        left += self._dispatches.open.abort_in_threads(lambda opened: True)
        return [*left, *self._transactional.queries.end()]


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
