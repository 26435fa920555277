"""The commit log: which transactions of a stream are being committed, and what each commit made visible.

One key-value table per scope, made by the first INSERT (SHOW TABLES does not list such tables, and Pravega refuses
names with a leading `_` for them). Keys are 24 bytes: the first 16 of the stream name's BLAKE2b hash, then a
big-endian number: 0 is the stream's head row, n the row of version n. Numbers from 2^62 on are hashes: of segments
(`scan/noted_borders.py`), and from 2^63 on of queries (`insert/ledger.py`), of the tags (`positions/tags.py`), and of
ways to read the events (`changes/truncations.py`).

The head row is replaced by compare-and-set. A transaction enters it before its commit is requested, and leaves it once
the server has said COMMITTED. A reader that finds the same head row before and after measuring, and no entered
transaction that moved in between, has measured all or nothing of every transaction. A head row stays: if there is none
after measuring, there was none before, so one look is enough.

The entered transactions form a queue. Only the first one is asked to commit, and the stream's end is measured before
the next one becomes first. So each version holds exactly one transaction, and what others appended without this log.
The server merges the transactions of a stream one after the other anyway. The threads of one process wait for each
other (`turns.py`), others look at the queue again and again. A writer may die at any moment: the writers behind it
publish what it has committed, and abort what it has not asked to commit when its turn has lasted too long.

Others may delete a stream, and make it again under its name, while the log keeps its rows. The segment numbers of a
new stream continue where those of the old one ended. So the number of its very first segment, the origin,
distinguishes the two, and the first commit to a new stream starts its log over. A cluster never gives a transaction id
twice.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.key_value.key_value_table import ANY, MAX_BATCH_KEYS
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.segments.failures import TRANSIENT
from pyspark_pravega.client.single_append import is_append_id, rejoin
from pyspark_pravega.client.stream import Access, Stream, make_key_value_table_stream
from pyspark_pravega.client.stream_cut import StreamCut

from ..workers.connections import hash_config
from . import log_table
from .log_table import ChangeCounts, CommitEntry, CompanionRow, Content, HeadRow, Write
from .settled_log import ASKING_SECONDS, SettledLog
from .turns import CommitWatch, Lines, Turn

LOG = logging.getLogger(__name__)

TURN_SECONDS = 10.0
"""How long the first transaction of the queue may stay open: a living writer asks for its commit at once."""
_LOOK_SECONDS = 0.005
_STATUS_SECONDS = 0.1
"""Pauses of a writer that waits for its turn: between looks at the queue, and at its first transaction."""
_BEHIND_SECONDS = 1.0
"""How long a writer sleeps at most behind another one of its process, before it looks at the queue all the same: that
one may have lost its place there without knowing it, and others abort who is first for TURN_SECONDS."""
_LINES = Lines()


class CommitLog(SettledLog):
    """The commit log of one stream. Only one thread may use an object at a time."""

    def __init__(self, pravega: Pravega, stream: Stream, *, timeout: float = 60.0) -> None:
        """Limit to `timeout` seconds the wait for a turn, and for a moment without a commit in flight."""
        super().__init__(pravega, stream, timeout)
        self._turn: Turn | None = None
        self.deadline = inf  # of the commit that has lined up

    @contextmanager
    def line_up(self, kind: str) -> Iterator[None]:
        """Enter, wait and publish in the body, which begins when one other commit at most is before this one.

        Other commits of this kind, process and user wait behind it. Those of another kind stand in another line: so a
        micro-batch does not wait for a crowd of INSERTs. Raises ServerTimeoutError when the time is over, Cancelled in
        the body of `cancellation.postpone`, and StreamNotFoundError if this log knew the stream before the wait, and
        another one has its name now.
        """
        self.deadline = time.monotonic() + self._timeout
        with _LINES.line_up((hash_config(self._pravega.config), self._stream, kind)) as self._turn:
            try:
                if not self._turn.may_enter.is_set():
                    before, self._origin, self._known = self._origin, None, None  # others act during the wait
                    while not self._turn.may_enter.wait(min(_BEHIND_SECONDS, self.deadline - time.monotonic())):
                        cancellation.check_postponed()
                        if time.monotonic() >= self.deadline:
                            raise self._make_late_error("")
                    if before is not None and self.learn_origin() != before:
                        raise errors.StreamNotFoundError(f"Stream {self._stream} was deleted, and made again.")
                yield
            finally:
                self._turn = None

    def enter(
        self,
        transaction: uuid.UUID,
        *,
        rows: int,
        operation: str,
        content: Content | None = None,
        changes: ChangeCounts | None = None,
        companion: CompanionRow | None = None,
    ) -> bool:
        """Put the transaction at the end of the queue. Makes the table if it is missing.

        `content` is what its segments hold, all of them sealed; `changes` as in `CommitEntry`.

        A row `companion` is written in the same step; what it raises is raised. Returns False if this user may not
        write the log: the commit is then as atomic as the server makes it. With a companion, PermissionDeniedError is
        raised instead.
        """
        entry = CommitEntry(transaction, rows, operation, content, changes)
        try:
            log_table.write_in_table(self._table, partial(self._enter, entry, companion))
        except errors.PermissionDeniedError:
            if companion is not None:
                raise
            if self._turn is not None:
                self._turn.leave()
            return False
        if self._turn is not None:
            self._turn.note_entered()
        self._pravega.known_streams.note(self._stream, logged=True)
        return True

    def make_ready(self) -> None:
        """Make the table if it is missing. Raises PermissionDeniedError for a user who may not write the log."""
        log_table.write_in_table(self._table, self._head)
        self._pravega.tokens.token(make_key_value_table_stream(self._stream.scope, log_table.TABLE_NAME), Access.WRITE)

    def _enter(self, entry: CommitEntry, companion: CompanionRow | None) -> None:
        origin = self.learn_origin()
        while True:
            old, stored = self._known_rows(companion)
            if old.origin != origin:
                # Rows of an older stream of this name.
                old = HeadRow(origin=origin, row_version=old.row_version, content=Content(0, 0))
            if entry.transaction in old.committing:
                return
            also = None if companion is None else companion.make_value_when_entered(entry.transaction, origin, stored)
            if self._replace(old, replace(old, queue=(*old.queue, entry)), self._write(companion, also, stored)):
                return

    def wait_for_turn(self, transaction: uuid.UUID, tail: Callable[[], StreamCut]) -> None:
        """Return when the entered transaction is the first of the queue, so that its commit may be asked for.

        Finishes what dead writers have left before it; `tail` measures the stream's end for that.
        Raises ServerTimeoutError when the time is over, and Cancelled as `line_up` does.
        """
        head = self._head() if self._known is None else self._known.head
        first, first_since, next_status = None, 0.0, 0.0
        watch = CommitWatch(self._pravega, self._stream)
        while True:
            if transaction not in head.committing:
                return  # it was aborted, or its stream dropped: the server says so when asked for the commit
            if head.queue[0].transaction == transaction:
                return
            now = time.monotonic()
            cancellation.check_postponed()
            if now > self.deadline:
                raise self._make_late_error(watch.explain())
            if head.queue[0] != first:
                first, first_since, next_status = head.queue[0], now, now + _STATUS_SECONDS
                watch.note({})
            elif now > next_status:
                is_append, overdue = is_append_id(head.queue[0].transaction), now - first_since > TURN_SECONDS
                try:
                    with limit_retries(ASKING_SECONDS if is_append else inf):
                        self._bring_to_its_end(head, tail, watch, overdue=overdue)
                except (*TRANSIENT, errors.TransactionOutcomeUnknownError):
                    if not is_append:
                        raise
                    first_since = time.monotonic()  # its segment is away, and its writer may be waiting for it
                next_status = now + _STATUS_SECONDS
            if self._turn is not None and not self._turn.is_first.is_set():
                self._turn.is_first.wait(min(_BEHIND_SECONDS, max(self.deadline - now, _LOOK_SECONDS)))
            else:
                time.sleep(_LOOK_SECONDS * head.committing.index(transaction))
            head, self._known = self._head(), None  # others still enter, so publishing has to read the queue again

    def _make_late_error(self, explanation: str) -> errors.ServerTimeoutError:
        return errors.ServerTimeoutError(
            f"Other transactions were being committed to stream {self._stream} for {self._timeout:g} s, and this one "
            f"did not get its turn.{explanation} Raise the option 'transaction.timeout' to wait longer"
        )

    def _bring_to_its_end(
        self, head: HeadRow, tail: Callable[[], StreamCut], watch: CommitWatch, *, overdue: bool
    ) -> None:
        """Do for the first transaction of the queue what its writer would do next if it were alive."""
        entry = head.queue[0]
        transaction = rejoin(self._pravega, self._stream, entry.transaction)
        status = transaction.status()
        watch.note({entry.transaction: status})
        if status is TransactionStatus.COMMITTED:
            if self._publish(head, entry, tail()):
                self._fold_at(head.version + 1)
        elif status is TransactionStatus.OPEN:
            if overdue:
                LOG.warning(
                    "Aborting transaction %s on stream %s: its writer is silent.", entry.transaction, self._stream
                )
                try:
                    transaction.abort()
                except errors.TransactionNotOpenError:
                    return  # its writer has asked for its commit after all
        elif status is not TransactionStatus.COMMITTING:
            self._replace(head, head.without(entry.transaction))

    def remind(self) -> None:
        """Ask again for the commit of the first transaction of the queue, if it is COMMITTING: a seal waits for it."""
        try:
            head = self.head()
            for one, state in self._get_statuses(() if head is None else head.committing[:1]).items():
                if state is TransactionStatus.COMMITTING:
                    self._pravega.controller.commit_transaction(self._stream, one)
        except errors.PravegaError as error:
            LOG.warning("Stream %s: asking again for its commit failed: %s", self._stream, error)

    def publish(
        self, transaction: uuid.UUID, tail: Callable[[], StreamCut], companion: CompanionRow | None = None
    ) -> int | None:
        """Take the committed transaction out and add its version; return its number.

        `tail` measures the stream's end. Returns None if the stream was dropped in the meantime, or another writer has
        published the transaction.
        """
        origin = self.learn_origin()
        cut = None
        while True:
            try:
                head, stored = self._known_rows(companion)
            except (errors.KeyValueTableNotFoundError, errors.PermissionDeniedError):
                return None
            if head.origin != origin:
                return None
            for entry in head.queue:
                if entry.transaction == transaction:
                    break
            else:
                return None
            cut = cut or tail()  # measured once: nothing follows this version as long as it is in the queue
            also = None if companion is None else companion.make_value_when_published(transaction, stored)
            if self._publish(head, entry, cut, self._write(companion, also, stored)):
                self._fold_at(head.version + 1)
                return head.version + 1

    def _publish(self, head: HeadRow, entry: CommitEntry, cut: StreamCut, also: Sequence[Write] = ()) -> bool:
        new = replace(
            head.without(entry.transaction),
            version=head.version + 1,
            timestamp_ms=max(time.time_ns() // 1_000_000, head.timestamp_ms),  # the clocks of writers differ
            ordered_from=head.ordered_from or head.version + 1,
            content=head.content_with(entry),
        )
        record = {
            "stream": self._stream.name,
            "version": new.version,
            "cut": cut.to_text(),
            "timestamp_ms": new.timestamp_ms,
            "rows": entry.rows,
            "operation": entry.operation,
            "transaction": str(entry.transaction),
        }
        if entry.changes is not None:
            record["changes"] = entry.changes
        return self._replace(head, new, [(self._key(new.version), log_table.encode_row(record), ANY), *also])

    def withdraw(self, transaction: uuid.UUID) -> None:
        """Take out a transaction that was not committed."""
        while True:
            old = self._head()
            if transaction not in old.committing or self._replace(old, old.without(transaction)):
                return

    def rows(self) -> list[tuple[bytes, int]]:
        """Return the keys and versions of the stream's rows, for `remove`; none without the right to read them."""
        try:
            entries = self._table.entries(self._key(0), self._key((1 << 64) - 1))
            return [(key, entry.version) for key, entry in entries]
        except errors.KeyValueTableNotFoundError:
            return []  # nothing was ever logged
        except errors.PermissionDeniedError as error:
            self._warn_of_rows(error)
            return []

    def remove(self, rows: Sequence[tuple[bytes, int]]) -> None:
        """Delete rows, for DROP TABLE. Rows that the user may not delete stay.

        So do those that changed since they were read: they may be about a stream that was recreated in the meantime.
        """
        try:
            for first in range(0, len(rows), MAX_BATCH_KEYS):
                some = rows[first : first + MAX_BATCH_KEYS]
                try:
                    self._table.delete_many([key for key, _ in some], [version for _, version in some])
                except errors.ConditionalUpdateError:
                    for key, version in some:
                        with suppress(errors.ConditionalUpdateError):
                            self._table.delete(key, version)
        except errors.KeyValueTableNotFoundError:
            return
        except errors.PermissionDeniedError as error:
            self._warn_of_rows(error)

    def _warn_of_rows(self, error: errors.PermissionDeniedError) -> None:
        # The origin distinguishes this stream from one recreated under its name.
        LOG.warning("The commit log's rows of the dropped stream %s were left behind: %s", self._stream, error)
