"""Runs one INSERT in the driver: begins its transaction, describes it to tasks, and ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.transaction import Transaction

from ..tables.stream_table import StreamTable
from .commit import Commit, CommitRequest, WriteSettings
from .reports import InsertMessage
from .task import InsertSpec, find_encoding_id


@dataclass(frozen=True, eq=False)
class Insert:
    """One INSERT, from the beginning of the transaction that its tasks share to its commit or abort."""

    pravega: Pravega
    table: StreamTable
    transaction: Transaction
    settings: WriteSettings

    @classmethod
    def begin(cls, pravega: Pravega, table: StreamTable, settings: WriteSettings) -> Insert:
        """Begin the transaction; it is kept alive until commit or abort.

        Raises StreamNotFoundError, StreamSealedError, PermissionDeniedError naming the right to write.
        """
        transaction = Transaction.begin(pravega.controller, table.stream, settings.lease_ms)
        transaction.keep_alive()
        return cls(pravega, table, transaction, settings)

    def spec(self, schema: StructType, encoding: Callable[[], int | None] | None = None) -> InsertSpec:
        """Return what the tasks need. `schema` describes the rows that Spark will send.

        `encoding` waits for the `encoding_id`, if that is being looked up.
        """
        table, transaction = self.table, self.transaction
        ids = [segment.segment_id for segment in transaction.segments]
        endpoints = self.pravega.segments.locations(table.stream, ids)
        return InsertSpec(
            table=table,
            config=self.pravega.config,
            schema=schema,
            transaction=transaction.id,
            segments=tuple(transaction.segments),
            endpoints=endpoints,
            token=transaction.token,
            settings=self.settings,
            encoding_id=find_encoding_id(self.pravega, table) if encoding is None else encoding(),
        )

    def commit(self, messages: Sequence[InsertMessage], request: CommitRequest | None = None) -> int:
        """Make all rows of the messages visible at once and return their number.

        Raises TransactionNotOpenError if the transaction was aborted or ran out, TransactionMismatchError if it holds
        bytes that no report explains (in both cases nothing is visible and the transaction is gone), and
        TransactionOutcomeUnknownError if neither the servers nor the other process say what happened to it.
        """
        rows = sum(message.rows for message in messages)
        if rows == 0:
            self.abort()
        else:
            Commit(self.pravega, self.transaction, self.settings, request or CommitRequest()).run(messages)
        return rows

    def publish(self, rows: int, request: CommitRequest) -> None:
        """Commit a transaction that another process found complete, however far that process came with the commit.

        Its segments are sealed, and each of its `rows` is one event. The companion row is recorded.
        """
        Commit(self.pravega, self.transaction, self.settings, request).complete(rows)

    def abort(self) -> None:
        """Give the transaction up; none of its rows is visible. Does nothing if it has ended."""
        self.transaction.abort()

    def stop(self) -> None:
        """Leave the transaction as it is, and keep it alive no longer."""
        self.transaction.stop()
