"""Runs one INSERT in the driver: begins its transaction, or has its only task do so, describes it, and ends it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.single_append import SingleAppend
from pyspark_pravega.client.stream import Access, SegmentRange
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import SegmentSealedError, TransactionNotOpenError

from ..tables.stream_table import StreamTable
from .commit import Commit, CommitRequest, WriteSettings
from .outcomes import NO_ANSWER, make_outcome_unknown_error, make_sealed_error
from .reports import InsertMessage
from .task import InsertSpec, InsertWriter, find_encoding_id


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

    @classmethod
    def rejoin(
        cls, pravega: Pravega, table: StreamTable, settings: WriteSettings, transaction: uuid.UUID, *, again: bool
    ) -> Insert:
        """Take over a transaction that another process has begun, and keep it alive until commit or abort.

        Raises TransactionOutcomeUnknownError if the servers do not answer, and that process may have committed it
        (`again`).
        """
        try:
            rejoined = Transaction.rejoin(pravega.controller, table.stream, transaction, settings.lease_ms)
        except NO_ANSWER as error:
            if not again:
                raise
            raise make_outcome_unknown_error(table.stream, transaction, error) from error
        rejoined.keep_alive()
        return cls(pravega, table, rejoined, settings)

    def spec(self, schema: StructType, encoding: Callable[[], int | None] | None = None) -> InsertSpec:
        """Return what the tasks need. `schema` describes the rows that Spark will send.

        `encoding` waits for the `encoding_id`, if that is being looked up.
        """
        transaction = self.transaction
        before = DeferredInsert(self.pravega, self.table, self.settings, transaction.segments, transaction.token)
        return replace(before.spec(schema, encoding), transaction=transaction.id)

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


@dataclass(frozen=True, eq=False)
class DeferredInsert:
    """One INSERT with a single task, which begins a transaction unless it holds its few rows back."""

    pravega: Pravega
    table: StreamTable
    settings: WriteSettings
    segments: Sequence[SegmentRange] = ()
    token: str = field(default="", repr=False)

    @classmethod
    def begin(cls, pravega: Pravega, table: StreamTable, settings: WriteSettings) -> DeferredInsert:
        """Look at the stream's segments, and get a token to append with.

        Raises StreamNotFoundError, StreamSealedError, PermissionDeniedError naming the right to write.
        """
        segments = pravega.controller.current_segments(table.stream)
        if not segments:
            raise make_sealed_error(table.stream)
        return cls(pravega, table, settings, segments, pravega.tokens.token(table.stream, Access.WRITE))

    def spec(self, schema: StructType, encoding: Callable[[], int | None] | None = None) -> InsertSpec:
        """Return what the task needs, as `Insert.spec` does."""
        table, segments = self.table, tuple(self.segments)
        ids = [segment.segment_id for segment in segments]
        return InsertSpec(
            table=table,
            config=self.pravega.config,
            schema=schema,
            transaction=None,
            segments=segments,
            endpoints=self.pravega.segments.locations(table.stream, ids),
            token=self.token,
            settings=self.settings,
            encoding_id=find_encoding_id(self.pravega, table) if encoding is None else encoding(),
        )

    def commit(self, messages: Sequence[InsertMessage], request: CommitRequest | None = None) -> int:
        """Make all rows of the task's message visible at once and return their number, as `Insert.commit` does."""
        (message,) = messages
        request, transaction, held = request or CommitRequest(), message.transaction, message.held
        if transaction is None:
            return 0
        if held is None:
            insert = Insert.rejoin(self.pravega, self.table, self.settings, transaction, again=request.again)
            try:
                return insert.commit(messages, request)
            finally:
                insert.stop()
        stream = self.table.stream
        append = SingleAppend(self.pravega.segments, stream, transaction, self.segments, held.events, message.rows)
        try:
            Commit(self.pravega, append, self.settings, request).run(messages)
            return message.rows
        except (SegmentSealedError, TransactionNotOpenError) as error:
            if request.again:
                why = TransactionNotOpenError("its append is not stored, but its rows may have been written otherwise")
                raise make_outcome_unknown_error(stream, transaction, why) from error
            if isinstance(error, TransactionNotOpenError):
                raise
        insert = Insert.begin(self.pravega, held.table, self.settings)
        return write_here(insert, held.schema, iter(held.batches), lambda reports: insert.commit(reports, request))

    def abort(self) -> None:
        """Do nothing: a transaction that a task has begun ends with its lease."""

    def stop(self) -> None:
        """Do nothing: nothing is kept alive."""


def can_defer(table: StreamTable, writer: object) -> bool:
    """Return whether one task may write without a transaction: it only inserts rows, and notes no time of theirs."""
    return writer is InsertWriter and table.event_time is None


def write_here(
    insert: Insert | DeferredInsert,
    columns: StructType,
    rows: Iterator[pa.RecordBatch],
    commit: Callable[[Sequence[InsertMessage]], int],
    writer: type[InsertWriter] = InsertWriter,
) -> int:
    """Write rows in this process, without tasks, and commit them; return their number.

    Aborts the INSERT if they cannot be written.
    """
    try:
        try:
            report = writer(insert.spec(columns)).write(rows)
            assert isinstance(report, InsertMessage)
        except BaseException:
            insert.abort()
            raise
        return commit([report])
    finally:
        insert.stop()
