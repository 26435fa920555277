"""The INSERTs in flight of this service: begun, kept alive, committed or aborted by their handles."""

from __future__ import annotations

import base64
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import StructType

from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.insert.commit import Insert
from pyspark_pravega.datasource.insert.task import InsertMessage, InsertWriter
from pyspark_pravega.datasource.scan.planning import write_settings
from pyspark_pravega.datasource.spark_functions import PYTHON, pickled_write
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import TransactionMismatchError

from .connections import Catalog


class Inserts:
    """Thread-safe; a handle is enough to finish an INSERT that another service process began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, uuid.UUID], Insert] = {}

    def begin(
        self, catalog: Catalog, table: StreamTable, schema: StructType, tasks: int, options: Mapping[str, str]
    ) -> dict[str, Any]:
        """Begin one INSERT of some tasks with write options; return its handle and its tasks' pickled function."""
        insert = Insert.begin(catalog.pravega, table, write_settings(catalog.options(write=options)))
        try:
            function = pickled_write(InsertWriter(insert.spec(schema)))
        except BaseException:
            insert.abort()
            raise
        transaction = insert.transaction
        with self._lock:
            self._open[(str(table.stream), transaction.id)] = insert
        return {
            "insert": {"transaction": str(transaction.id), "tasks": tasks, "options": dict(options)},
            "function": function,
            "python": PYTHON,
        }

    def commit(
        self,
        catalog: Catalog,
        table: StreamTable,
        handle: Mapping[str, Any],
        messages: Sequence[str],
        again: bool,
    ) -> int:
        """Commit an INSERT; return the number of its rows. `again`: a service that ended may have done it already."""
        pickles = CPickleSerializer()
        reports = [pickles.loads(base64.b64decode(message)) for message in messages]
        insert = self._take(catalog, table, handle)
        if len(reports) != handle["tasks"] or not all(isinstance(report, InsertMessage) for report in reports):
            insert.abort()
            raise TransactionMismatchError(
                f"{len(reports)} of {handle['tasks']} tasks reported what they wrote; nothing was committed."
            )
        return insert.commit(reports, again=again)

    def abort(self, catalog: Catalog, table: StreamTable, handle: Mapping[str, Any]) -> None:
        """Abort an INSERT; nothing happens when it has ended."""
        self._take(catalog, table, handle).abort()

    def abort_all(self) -> None:
        """Abort what is open: the driver is gone."""
        with self._lock:
            left = list(self._open.values())
            self._open.clear()
        for insert in left:
            insert.abort()

    def _take(self, catalog: Catalog, table: StreamTable, handle: Mapping[str, Any]) -> Insert:
        transaction_id = uuid.UUID(handle["transaction"])
        with self._lock:
            insert = self._open.pop((str(table.stream), transaction_id), None)
        if insert is not None:
            return insert
        settings = write_settings(catalog.options(write=handle["options"]))
        transaction = Transaction.rejoin(
            catalog.pravega.controller, table.stream, transaction_id, round(settings.lease * 1000)
        )
        transaction.keep_alive()
        return Insert(catalog.pravega, table, transaction, settings)
