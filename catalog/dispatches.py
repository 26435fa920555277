"""Begins and ends the writes into several streams of this service: each row goes to the stream that a column names."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.serializers import CPickleSerializer

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.datasource.insert.commit import CLEAN_UP_SECONDS
from pyspark_pravega.datasource.insert.dispatch import Dispatch
from pyspark_pravega.datasource.insert.dispatch_task import DispatchMessage, DispatchSpec, DispatchWriter
from pyspark_pravega.datasource.insert.ledger import Epoch, writer_of_query
from pyspark_pravega.datasource.insert.prepare import (
    epoch_of_application,
    find_stream_column,
    rows_to_write,
    write_settings,
)
from pyspark_pravega.datasource.insert.roster import Roster
from pyspark_pravega.datasource.insert.task import Unit
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import TransactionMismatchError

from .open_writes import InsertStart, OpenWrite, OpenWrites
from .protocol.replies import InsertBegun, InsertHandle
from .storage.connections import Catalog

_PREFIX = "dispatch "
"""Stands before the roster's row and the write's id in the handle of such a write."""


class Dispatches:
    """The open writes into several streams; thread-safe. A handle suffices to end one that another process began."""

    def __init__(self) -> None:
        self.open = OpenWrites[uuid.UUID, Dispatch]("A write into several streams")

    def begin(self, catalog: Catalog, prepared: TableKind, start: InsertStart) -> InsertBegun:
        """Begin a write into a table that `prepare_insert` returned; return its handle and the tasks' function.

        Raises PermissionDeniedError for a user who may not write the commit log of the scope.
        """
        pravega, table, options = prepared.pravega, prepared.table, prepared.options
        column, query = find_stream_column(start.schema, options), start.query
        assert column is not None
        epoch_of_application(options)
        settings = replace(write_settings(options), unit=Unit.INSERT if query is None else Unit.MICRO_BATCH)
        with cancellation.shield():
            roster = Roster.begin(pravega, table.stream, None if query is None else writer_of_query(query))
            dispatch = Dispatch(pravega, table, roster, settings)
            dispatch.keep_alive()
        self.open.add(roster.id, OpenWrite(dispatch, start.number, catalog.hold()))
        rows = rows_to_write(table, start.schema, options)
        spec = DispatchSpec(table, pravega.config, options, settings, column, rows, roster)
        handle = InsertHandle(f"{_PREFIX}{roster.number} {roster.id}", start.tasks, dict(start.given))
        return InsertBegun(handle, pickle_write(DispatchWriter(spec)), PYTHON)

    def commit(
        self,
        catalog: Catalog,
        table: StreamTable,
        handle: InsertHandle,
        messages: Sequence[str],
        again: bool,
        epoch: Epoch | None,
    ) -> int:
        """Commit a write; return the number of its rows. See `Inserts.commit` and `Dispatch.commit`."""
        pickles = CPickleSerializer()
        unit = Unit.INSERT if epoch is None else Unit.MICRO_BATCH
        with cancellation.shield(), self._take(catalog, table, handle, unit) as dispatch:
            reports = [pickles.loads(base64.b64decode(message)) for message in messages]
            if len(reports) != handle.tasks or not all(isinstance(report, DispatchMessage) for report in reports):
                dispatch.abort()
                raise TransactionMismatchError(
                    f"{len(reports)} of {handle.tasks} tasks reported what they wrote; nothing was committed."
                )
            if epoch is None:
                epoch = epoch_of_application(catalog.options(write=handle.options))
            return dispatch.commit(reports, epoch, again=again)

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
        number, id = handle.transaction.removeprefix(_PREFIX).split()
        found = self.open.take(uuid.UUID(id))
        if found is None:
            settings = replace(write_settings(catalog.options(write=handle.options)), unit=unit)
            roster = Roster(table.stream, int(number), uuid.UUID(id))
            yield Dispatch(catalog.pravega, table, roster, settings)
            return
        try:
            yield found.write
        finally:
            found.write.stop()
            found.release()


def is_dispatch(handle: InsertHandle) -> bool:
    """Return whether a handle is that of a write into several streams."""
    return handle.transaction.startswith(_PREFIX)
