"""The driver's side of an INSERT: begin one transaction, check what the tasks put into it, commit and publish.

Only what the winning tasks reported may become visible. The transaction's segments are sealed first, so that a
task left over from a failed attempt cannot append any more; then their lengths are compared with the reports. Bytes
of failed attempts are left behind by copying what the winners wrote into a second transaction.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transactions import TransactionStatus
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.stream import Stream, transaction_segment_id
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import (
    PravegaError,
    ServerTimeoutError,
    ServerUnavailableError,
    TransactionMismatchError,
    TransactionNotOpenError,
    TransactionOutcomeUnknownError,
)

from ..commit_log.commit_log import CommitLog
from ..commit_log.table import Beside, Content
from ..positions.snapshot import tail_cut
from ..tables.stream_table import StreamTable
from .task import InsertMessage, InsertSpec, Unit, encoding_id

LOG = logging.getLogger(__name__)

CLEAN_UP_SECONDS = 5.0
"""How long cleaning up tries again: whoever waits for the outcome knows it, or has waited for the servers already."""

INSERTS = "pyspark-pravega"
"""The writer that notes the event times of INSERTs, and is removed again after each."""

_LOOKED_AT = 8
"""Segments that are looked at together while the server merges them."""

NO_ANSWER = (ServerUnavailableError, ServerTimeoutError)
"""Errors that do not tell what another process has made of a transaction."""


@dataclass(frozen=True)
class WriteSettings:
    """Times in seconds, `spool_memory` in bytes."""

    lease: float
    commit_timeout: float
    spool_memory: int
    unit: Unit = Unit.INSERT


class Insert:
    """One INSERT from its transaction's begin to its commit or abort."""

    def __init__(self, pravega: Pravega, table: StreamTable, transaction: Transaction, settings: WriteSettings) -> None:
        self._pravega = pravega
        self._table = table
        self._transaction = transaction
        self._settings = settings
        self._noted: tuple[str, int] | None = None
        self._asked = False  # whether the server may have begun to commit

    @classmethod
    def begin(cls, pravega: Pravega, table: StreamTable, settings: WriteSettings) -> Insert:
        """Begin the transaction; it is kept alive until commit or abort.

        Raises StreamNotFoundError, StreamSealedError, PermissionDeniedError naming the right to write.
        """
        transaction = Transaction.begin(pravega.controller, table.stream, round(settings.lease * 1000))
        transaction.keep_alive()
        return cls(pravega, table, transaction, settings)

    @property
    def transaction(self) -> Transaction:
        """Return the shared transaction."""
        return self._transaction

    def spec(self, schema: StructType, encoding: Callable[[], int | None] | None = None) -> InsertSpec:
        """Return what the tasks need. `schema` is that of the rows Spark will send.

        `encoding` waits for the `encoding_id` if it was asked for before.
        """
        table, transaction = self._table, self._transaction
        ids = [segment.segment_id for segment in transaction.segments]
        endpoints = self._pravega.segments.locations(table.stream, ids)
        return InsertSpec(
            table=table,
            config=self._pravega.config,
            schema=schema,
            transaction=transaction.id,
            segments=tuple(transaction.segments),
            endpoints=endpoints,
            token=transaction.token,
            lease_ms=round(self._settings.lease * 1000),
            spool_memory=self._settings.spool_memory,
            encoding_id=encoding_id(self._pravega, table) if encoding is None else encoding(),
            unit=self._settings.unit,
        )

    @property
    def table(self) -> StreamTable:
        """Return the table that is written to."""
        return self._table

    @property
    def settings(self) -> WriteSettings:
        """Return how it is written."""
        return self._settings

    def commit(
        self,
        messages: Sequence[InsertMessage],
        operation: str = "INSERT",
        *,
        again: bool = False,
        log: CommitLog | None = None,
        beside: Beside | None = None,
        writer: str | None = None,
    ) -> int:
        """Make all rows of the messages visible at once and return their number.

        `writer` is who notes the latest event time of the rows, and will note later ones; None: this INSERT alone.

        `beside` is a row that is written in one step with the transaction's place in the queue of the commit log. Only
        a user who may write the log can commit with one.

        `again`: another process may have done so, in part or wholly, and died before it said so. Raises
        TransactionNotOpenError when the transaction was aborted or ran out, TransactionMismatchError when it holds
        bytes that no report explains (either way nothing is visible and the transaction is gone),
        TransactionOutcomeUnknownError when servers, or the other process, leave it open what has become of it.
        """
        rows = sum(message.rows for message in messages)
        if rows == 0:
            self.abort()
            return 0
        transaction, lost = self._transaction, None
        self._noted = noted_time(messages, writer)
        try:
            if transaction.failure is not None:
                raise transaction.failure
            expected = self._expected(messages)
            if again and transaction.status() in (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED):
                pass  # all that is missing is its version
            elif self._sealed_lengths(transaction) != expected:
                if again:
                    raise (lost := self._lost_track())
                transaction = self._copy_winners(messages, expected)
            self._publish(transaction, rows, operation, again, log, beside, content=content_of(messages))
        except PravegaError as failed:
            unknown = again and not self._asked and isinstance(failed, NO_ANSWER)
            error = outcome_unknown(self._table.stream, self._transaction.id, failed) if unknown else failed
            if error is lost or transaction is not self._transaction:
                clean_up(self._transaction.abort)
            if error is lost or not self._committed_all_the_same(transaction, error):
                if isinstance(error, NO_ANSWER) and not (again or self._asked):
                    raise type(error)(f"{error.message}. {self._settings.unit.write_again}") from None
                raise error from error.__cause__
        if transaction is not self._transaction:
            clean_up(self._transaction.abort)
        return rows

    def abort(self) -> None:
        """Give the transaction up; nothing of it is visible. Does nothing when it has ended."""
        self._transaction.abort()

    def _committed_all_the_same(self, transaction: Transaction, error: PravegaError) -> bool:
        """Abort what a failed commit leaves; True if that shows that it was committed, and only the answer was lost."""
        try:
            with limit_retries(CLEAN_UP_SECONDS):
                transaction.abort()
        except TransactionNotOpenError:
            if isinstance(error, TransactionOutcomeUnknownError):
                LOG.warning("Transaction %s turned out to be committed after: %s", transaction.id, error)
                return True
        except PravegaError as failed:
            LOG.warning("Cleaning up after an INSERT: %s", failed)
            return False
        if isinstance(error, TransactionOutcomeUnknownError):
            raise TransactionNotOpenError(
                f"Transaction {transaction.id} on stream {self._table.stream} could not be committed and was aborted: "
                f"{error.__cause__ or error}. {self._settings.unit.write_again}."
            ) from error
        return False

    def _lost_track(self) -> PravegaError:
        """Make the error for a process that died while bytes of failed attempts were being left behind."""
        return TransactionOutcomeUnknownError(
            f"The catalog service ended while it committed to stream {self._table.stream} without the bytes of failed "
            "attempts. All rows of this INSERT are visible, or none: look at the table before you run it again."
        )

    def _expected(self, messages: Iterable[InsertMessage]) -> dict[int, int]:
        transaction = self._transaction.id
        lengths = {transaction_segment_id(segment.segment_id, transaction): 0 for segment in self._transaction.segments}
        for message in messages:
            for segment_id, written in message.segments.items():
                lengths[transaction_segment_id(segment_id, transaction)] += written.bytes
        return lengths

    def _sealed_lengths(self, transaction: Transaction) -> dict[int, int]:
        stream, ids = self._table.stream, [segment.segment_id for segment in transaction.segments]
        try:
            self._pravega.segments.seal_segments(stream, ids, transaction.id)
        except TransactionNotOpenError:
            raise self._ended(transaction) from None
        infos = self._pravega.segments.segment_infos(stream, ids, transaction.id)
        missing = [segment_id for segment_id in ids if segment_id not in infos]
        if missing:
            raise self._ended(transaction)
        return {transaction_segment_id(one, transaction.id): infos[one].write_offset for one in ids}

    def _ended(self, transaction: Transaction) -> TransactionNotOpenError:
        """Make the error for a transaction that ended before it was committed."""
        return TransactionNotOpenError(
            f"{transaction.explain_end().message}. {self._settings.unit.next_step.capitalize()}."
        )

    def _copy_winners(self, messages: Sequence[InsertMessage], expected: dict[int, int]) -> Transaction:
        """Copy what the winning tasks wrote, without the bytes of other attempts, into a fresh transaction."""
        stream, old = self._table.stream, self._transaction
        if any(written.resumed for message in messages for written in message.segments.values()):
            raise TransactionMismatchError(
                f"Transaction {old.id} on stream {stream} mixes bytes of failed attempts with those of the tasks "
                f"that succeeded. It was aborted. {self._settings.unit.write_again}."
            )
        fresh = Transaction.begin(self._pravega.controller, stream, round(self._settings.lease * 1000))
        fresh.keep_alive()
        try:
            if list(fresh.segments) != list(old.segments):
                raise TransactionMismatchError(
                    f"Stream {stream} was scaled while transaction {old.id} held bytes of failed attempts. It was "
                    f"aborted. {self._settings.unit.write_again}."
                )
            for message in messages:
                for segment_id, written in message.segments.items():
                    self._copy(segment_id, written.ranges, fresh.id)
            if self._sealed_lengths(fresh) != expected:
                raise TransactionMismatchError(
                    f"Transaction {old.id} on stream {stream} does not hold what its tasks wrote. It was aborted. "
                    f"{self._settings.unit.write_again}."
                )
        except PravegaError:
            fresh.abort()
            raise
        return fresh

    def _copy(self, segment_id: int, ranges: Iterable[tuple[int, int]], target: uuid.UUID) -> None:
        store, stream = self._pravega.segments, self._table.stream
        with SegmentAppender(store, stream, segment_id, uuid.uuid4(), target) as appender:
            for start, end in ranges:
                windows = SegmentRangeReader(
                    store,
                    stream,
                    segment_id,
                    start,
                    end,
                    transaction=self._transaction.id,
                    window_bytes=1 << 20,
                )
                for window in windows:
                    first = int(window.starts[0]) - HEADER_BYTES
                    last = int(window.starts[-1] + window.lengths[-1])
                    appender.append(memoryview(window.data)[first:last], len(window.starts))
            appender.flush()

    def publish(self, rows: int, operation: str, log: CommitLog, beside: Beside | None) -> None:
        """Commit a transaction that was found complete by another process, whatever that has done of the commit.

        Its segments are sealed, and each of its `rows` is one event.
        """
        transaction = self._transaction
        ids = [segment.segment_id for segment in transaction.segments]
        infos = self._pravega.segments.segment_infos(self._table.stream, ids, transaction.id)
        # Where one is gone, the commit has begun, and whoever asked for that has told the log what it holds.
        content = Content(rows, sum(each.write_offset for each in infos.values())) if len(infos) == len(ids) else None
        self._publish(transaction, rows, operation, True, log, beside, content=content, recorded=True)

    def _publish(
        self,
        transaction: Transaction,
        rows: int,
        operation: str,
        again: bool,
        log: CommitLog | None,
        beside: Beside | None,
        *,
        content: Content | None = None,
        recorded: bool = False,
    ) -> None:
        """Commit between two entries of the commit log, so that a scan sees all of it or nothing."""
        stream, deadline = self._table.stream, time.monotonic() + self._settings.commit_timeout
        log = log or CommitLog(self._pravega, stream, timeout=self._settings.commit_timeout)
        segments = [segment.segment_id for segment in transaction.segments]

        def tail() -> StreamCut:
            return tail_cut(self._pravega, stream, segments)

        unmerged = list(segments)

        def merged() -> bool:
            while unmerged and not self._pravega.segments.segment_infos(stream, unmerged[:_LOOKED_AT], transaction.id):
                del unmerged[:_LOOKED_AT]
            return not unmerged

        asked_for = again and transaction.status() in (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED)
        entered = asked_for or log.enter(
            transaction.id, rows=rows, operation=operation, content=content, beside=None if recorded else beside
        )
        try:
            if entered and not asked_for:
                log.wait_for_turn(transaction.id, tail)
        except PravegaError:
            clean_up(lambda: log.withdraw(transaction.id))
            raise
        self._asked = True
        try:
            transaction.commit(max(0.0, deadline - time.monotonic()), self._noted, merged)
        except TransactionNotOpenError:
            if entered:
                clean_up(lambda: log.withdraw(transaction.id))
            raise
        if self._noted is not None and self._noted[0] == INSERTS:
            clean_up(lambda: self._note_no_more(stream))
        if not entered:
            LOG.warning("No right to write the commit log of %s: no version was recorded.", stream)
            return
        try:
            log.publish(transaction.id, tail, beside)
        except PravegaError as error:
            # The rows are committed and visible, and the next INSERT records their version.
            LOG.warning("Stream %s: the commit was not recorded as a version yet: %s", stream, error)

    def _note_no_more(self, stream: Stream) -> None:
        """End the writer of INSERTs: the time that it has noted counts, and no watermark waits for a later one."""
        self._pravega.controller.remove_writer(INSERTS, stream)


def content_of(messages: Iterable[InsertMessage]) -> Content:
    """Return what the tasks wrote, all segments together."""
    written = [each for message in messages for each in message.segments.values()]
    return Content(sum(each.events for each in written), sum(each.bytes for each in written))


def noted_time(messages: Iterable[InsertMessage], writer: str | None) -> tuple[str, int] | None:
    """Return the name under which a commit notes event time, and the latest time of its rows; None without any."""
    times = [message.latest for message in messages if message.latest is not None]
    if not times:
        return None
    return (INSERTS if writer is None else f"{INSERTS}-{writer.replace(' ', '-')}"), max(times)


def outcome_unknown(stream: Stream, transaction: uuid.UUID, error: PravegaError) -> TransactionOutcomeUnknownError:
    """Make the error for servers that do not tell whether the process before this one has committed a transaction."""
    unknown = TransactionOutcomeUnknownError(
        f"The catalog service ended while it committed transaction {transaction} to stream {stream}, and whether it "
        f"did could not be found out: {error.message}. All rows of this INSERT are visible, or none: look at the table "
        "before you run it again."
    )
    unknown.__cause__ = error
    return unknown


def clean_up(step: Callable[[], None]) -> None:
    """Clean up as far as possible. What cannot be ended now ends with the lease of its transaction."""
    try:
        with limit_retries(CLEAN_UP_SECONDS):
            step()
    except PravegaError as error:
        LOG.warning("Cleaning up after an INSERT: %s", error)


__all__ = ["CLEAN_UP_SECONDS", "NO_ANSWER", "Insert", "WriteSettings", "clean_up", "outcome_unknown"]
