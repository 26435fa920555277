"""Begins and ends the writes into several streams of this service: each row goes to the stream that a column names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.datasource.dispatch.dispatch import Dispatch
from pyspark_pravega.datasource.dispatch.dispatch_task import DispatchMessage, DispatchSpec, DispatchWriter
from pyspark_pravega.datasource.dispatch.roster import QueryRun, Roster
from pyspark_pravega.datasource.insert.ledger import name_writer_of_query
from pyspark_pravega.datasource.insert.outcomes import CLEAN_UP_SECONDS, Unit
from pyspark_pravega.datasource.insert.prepare import (
    choose_rows_to_write,
    find_epoch_of_application,
    find_stream_column,
    write_settings,
)
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from ..protocol.replies import InsertBegun, InsertHandle
from ..storage.catalogs import Catalog
from .insert import InsertEnd, InsertStart, WriteKind
from .open_writes import OpenWrite, OpenWrites


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
