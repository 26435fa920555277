"""Commits an INSERT, step by step: only what the winning tasks reported may become visible.

The transaction's segments are sealed first, so that a leftover task of a failed attempt cannot append any more. Then
their lengths are compared with the reports. If there are bytes of failed attempts, what the winners wrote is copied
into a second transaction. The transaction is entered in the commit log, the server is asked to commit it, and once it
has answered, its version is published.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.single_append import SingleAppend
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.transaction import Transaction

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import TABLE_NAME, CompanionRow, Content
from ..positions.snapshot import measure_tail
from .noted_times import INSERTS, choose_noted_time, remove_inserts
from .outcomes import CLEAN_UP_SECONDS, NO_ANSWER, Unit, clean_up, make_outcome_unknown_error
from .reports import InsertMessage
from .sealing import add_reported_lengths, add_up_changes, add_up_content, copy_winners, seal

LOG = logging.getLogger(__name__)

_BEGUN = (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED)
_LOOKED_AT = 8
"""The last segments, whose states are looked at while the server merges all of them: looks at hundreds slow it down."""


@dataclass(frozen=True)
class WriteSettings:
    """Times in seconds, `spool_memory` in bytes."""

    lease: float
    commit_timeout: float
    spool_memory: int
    unit: Unit = Unit.INSERT

    @property
    def lease_ms(self) -> int:
        """Return the lease in milliseconds, as the controller takes it."""
        return round(self.lease * 1000)


@dataclass(frozen=True)
class CommitRequest:
    """How a transaction is committed.

    `again`: another process may have committed it, partly or completely, and died before it said so. `companion` is a
    row that is written in one step with the transaction's place in the queue of the commit log; only a user who may
    write the log can commit with one. `writer` notes the event time that the rows have reached, and will note later
    ones; None: the name that all INSERTs share, which is removed after each. `watermark` is Spark's; see
    `choose_noted_time`. `check` gets the messages of the tasks, and may refuse the commit when no other one can come
    before it; then too, only a user who may write the log can commit. `look_ahead` gets them before the transaction
    waits for its turn, for what takes long.
    """

    operation: str = "INSERT"
    again: bool = False
    log: CommitLog | None = None
    companion: CompanionRow | None = None
    writer: str | None = None
    watermark: int | None = None
    check: Callable[[Sequence[InsertMessage]], None] | None = None
    look_ahead: Callable[[Sequence[InsertMessage]], None] | None = None


class Step(IntEnum):
    """How far a commit has come. Before ASKED, an abort leaves nothing visible."""

    BEGUN = 0
    SEALED = 1
    """No task can append any more."""
    COMPARED = 2
    """The segments hold what the tasks reported, and nothing else."""
    ENTERED = 3
    """The transaction has its turn in the commit log, or this user may not write there."""
    ASKED = 4
    """The server may have begun to commit."""
    KNOWN = 5
    """The server has said that the rows are committed."""
    PUBLISHED = 6
    """The commit log has its version, if this user may write there."""


class Commit:
    """Commits one transaction, or one single append. An object is used once."""

    def __init__(
        self, pravega: Pravega, transaction: Transaction | SingleAppend, settings: WriteSettings, request: CommitRequest
    ) -> None:
        self._pravega = pravega
        self._stream = transaction.stream
        self._former = transaction
        self._settings = settings
        self._request = request
        self._target = transaction
        """What to commit: the given transaction, or the copy of what its winning tasks wrote."""
        self._log = request.log or CommitLog(pravega, self._stream, timeout=settings.commit_timeout)
        self._is_logged = False
        self._noted: tuple[str, int] | None = None
        self._messages: Sequence[InsertMessage] = ()
        self.step = Step.BEGUN

    def run(self, messages: Sequence[InsertMessage]) -> None:
        """Make the rows of the messages visible at once; raises SegmentSealedError and those of `Insert.commit`."""
        request, self._messages = self._request, messages
        self._noted = choose_noted_time((one.reached for one in messages), request.writer, request.watermark)
        try:
            equal = self._compare(messages)
        except errors.PravegaError as error:
            return self._resolve(error)
        if not equal and request.again:
            clean_up(self._former.abort)
            raise errors.TransactionOutcomeUnknownError(
                f"The catalog service ended while it committed to stream {self._stream} without the bytes of failed "
                "attempts. Either all rows of this INSERT are visible, or none: look at the table before you run it "
                "again."
            )
        try:
            if not equal:
                assert isinstance(self._former, Transaction)
                settings = self._settings
                self._target = copy_winners(self._pravega, self._former, messages, settings.lease_ms, settings.unit)
                self.step = Step.COMPARED
            self._commit(sum(message.rows for message in messages), add_up_content(messages), request.companion)
        except errors.PravegaError as error:
            self._resolve(error)
            if self._is_logged and isinstance(self._target, SingleAppend):
                self._publish()
        if self._target is not self._former:
            clean_up(self._former.abort)

    def complete(self, rows: int) -> None:
        """Commit a transaction that another process sealed and compared, and whose commit it may have requested.

        That process has recorded the companion row.
        """
        ids = [segment.segment_id for segment in self._former.segments]
        infos = self._pravega.segments.segment_infos(self._stream, ids, self._former.id)
        # If a segment is gone, the commit has begun, and whoever asked for it has logged the content.
        content = Content(rows, sum(info.write_offset for info in infos.values())) if len(infos) == len(ids) else None
        self.step = Step.COMPARED
        self._commit(rows, content, None)

    def _commit(self, rows: int, content: Content | None, companion: CompanionRow | None) -> None:
        if self._request.look_ahead is not None and not self._has_begun(self._target):
            self._request.look_ahead(self._messages)
        try:
            with self._log.line_up(self._request.operation if companion is None else "STREAM"):
                self._enter(rows, content, companion)
                self._ask()
                self._publish()
        except BaseException as error:  # such as Cancelled, while it waited
            if self.step < Step.ENTERED and not isinstance(error, errors.PravegaError):
                for transaction in dict.fromkeys((self._target, self._former)):
                    clean_up(transaction.abort)
            raise

    def _has_begun(self, transaction: Transaction | SingleAppend) -> bool:
        """Return whether another process has asked for the commit: then only its version is missing."""
        try:
            return self._request.again and transaction.status() in _BEGUN
        except errors.PravegaError as error:
            raise make_outcome_unknown_error(self._stream, transaction.id, error) from error

    def _compare(self, messages: Sequence[InsertMessage]) -> bool:
        """Seal the transaction; return whether it holds what the winning tasks reported, and nothing else."""
        if isinstance(self._former, SingleAppend):
            self.step = Step.COMPARED
            return True
        if self._former.failure is not None:
            raise self._former.failure
        if not self._has_begun(self._former):
            lengths = seal(self._pravega, self._former)
            self.step = Step.SEALED
            if lengths != add_reported_lengths(self._former, messages):
                return False
        self.step = Step.COMPARED
        return True

    def _enter(self, rows: int, content: Content | None, companion: CompanionRow | None) -> None:
        """Enter the transaction in the commit log, so that a scan sees all of it or nothing, and wait for its turn."""
        begun = self._has_begun(self._target)
        self._is_logged = begun or self._log.enter(
            self._target.id,
            rows=rows,
            operation=self._request.operation,
            content=content,
            changes=add_up_changes(self._messages),
            companion=companion,
        )
        try:
            if self._is_logged and not begun:
                self._log.wait_for_turn(self._target.id, self._tail)
            if self._request.check is not None and not begun:
                self._check(self._request.check)
        except BaseException:
            self._withdraw()
            raise
        self.step = Step.ENTERED

    def _check(self, check: Callable[[Sequence[InsertMessage]], None]) -> None:
        if not self._is_logged:
            raise errors.PermissionDeniedError(
                f"{self._request.operation} on stream {self._stream} needs the right to write the commit log, "
                f"key-value table {self._stream.scope}/{TABLE_NAME}, by which it sees what others change"
            )
        check(self._messages)

    def _ask(self) -> None:
        """Ask the server to commit, and wait until it has done so."""
        self.step = Step.ASKED
        try:
            least = min(5.0, self._settings.commit_timeout)  # for a commit whose turn came as the time ended
            left = max(least, self._log.deadline - time.monotonic())
            if isinstance(self._target, SingleAppend):
                self._target.commit(left)
            else:
                last = [segment.segment_id for segment in self._target.segments[-_LOOKED_AT:]]
                look_up = partial(self._pravega.segments.segment_infos, self._stream, last, self._target.id)
                self._target.commit(left, self._noted, lambda: not look_up())
        except (errors.TransactionNotOpenError, errors.SegmentSealedError):
            if self._is_logged:
                self._withdraw()
            raise
        self.step = Step.KNOWN
        if self._noted is not None and self._noted[0] == INSERTS:
            clean_up(lambda: remove_inserts(self._pravega, self._stream))

    def _publish(self) -> None:
        """Add the version of the committed transaction to the commit log."""
        if not self._is_logged:
            LOG.warning("No right to write the commit log of %s: no version was recorded.", self._stream)
            return
        try:
            self._log.publish(self._target.id, self._tail, self._request.companion)
        except errors.PravegaError as error:
            # The rows are committed and visible, and the next INSERT records their version.
            LOG.warning("Stream %s: the commit was not recorded as a version yet: %s", self._stream, error)
        else:
            self.step = Step.PUBLISHED

    def _tail(self) -> StreamCut:
        return measure_tail(self._pravega, self._stream, [segment.segment_id for segment in self._target.segments])

    def _withdraw(self) -> None:
        clean_up(lambda: self._log.withdraw(self._target.id))

    def _resolve(self, failed: errors.PravegaError) -> None:
        """Abort what a failed step left. Returns if the rows turn out to be committed, and raises otherwise."""
        request, no_answer, is_asked = self._request, isinstance(failed, NO_ANSWER), self.step >= Step.ASKED
        unknown = request.again and not is_asked and no_answer
        error = make_outcome_unknown_error(self._stream, self._former.id, failed) if unknown else failed
        if self._target is not self._former:
            clean_up(self._former.abort)
        if self._is_committed_all_the_same(error):
            return
        if no_answer and not (request.again or is_asked):
            raise type(failed)(f"{failed.message}. {self._settings.unit.write_again}") from None
        if isinstance(error, errors.TransactionNotOpenError):
            raise self._settings.unit.make_ended_error(error) from None
        raise error from error.__cause__

    def _is_committed_all_the_same(self, error: errors.PravegaError) -> bool:
        """Abort the transaction; return True if it turns out to be committed, and only the answer was lost."""
        transaction = self._target
        try:
            with limit_retries(CLEAN_UP_SECONDS):
                transaction.abort()
        except errors.TransactionNotOpenError:
            if isinstance(error, errors.TransactionOutcomeUnknownError):
                LOG.warning("Transaction %s turned out to be committed after: %s", transaction.id, error)
                return True
        except errors.PravegaError as failed:
            LOG.warning("Cleaning up after an INSERT: %s", failed)
            return False
        if isinstance(error, errors.TransactionOutcomeUnknownError):
            raise errors.TransactionNotOpenError(
                f"Transaction {transaction.id} on stream {transaction.stream} could not be committed and was aborted: "
                f"{error.__cause__ or error}. {self._settings.unit.write_again}."
            ) from error
        return False
