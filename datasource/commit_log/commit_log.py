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
other (`turns.py`), others look at the queue again and again. A writer may die at any moment: the
writers behind it publish what it has committed, and abort what it has not asked to commit when its turn has lasted too
long.

Others may delete a stream, and make it again under its name, while the log keeps its rows. The segment numbers of a
new stream continue where those of the old one ended. So the number of its very first segment, the origin,
distinguishes the two, and the first commit to a new stream starts its log over. A cluster never gives a transaction id
twice.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import TypeVar

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
from .turns import CommitWatch, Lines, Turn
from .versions import VersionTable, is_checkpoint

LOG = logging.getLogger(__name__)
T = TypeVar("T")

TURN_SECONDS = 10.0
"""How long the first transaction of the queue may stay open: a living writer asks for its commit at once."""
_PUBLISHING_SECONDS = 1.0
"""How long to wait for the version of a transaction that is merged, but not yet published."""
_ASKING_SECONDS = 1.0
"""How long to ask a segment store about the first append of the queue, before it counts as away."""
_LOOK_SECONDS = 0.005
_STATUS_SECONDS = 0.1
"""Pauses of a writer that waits for its turn: between looks at the queue, and at its first transaction."""
_BEHIND_SECONDS = 1.0
"""How long a writer sleeps at most behind another one of its process, before it looks at the queue all the same: that
one may have lost its place there without knowing it, and others abort who is first for TURN_SECONDS."""
_LINES = Lines()
_NOT_MERGED = frozenset((TransactionStatus.OPEN, TransactionStatus.ABORTING, TransactionStatus.ABORTED))


class DisturbedError(Exception):
    """A commit happened during a measurement."""


class CommitLog(VersionTable):
    """The commit log of one stream. Only one thread may use an object at a time."""

    def __init__(self, pravega: Pravega, stream: Stream, *, timeout: float = 60.0) -> None:
        """Limit to `timeout` seconds the wait for a turn, and for a moment without a commit in flight."""
        super().__init__(pravega, stream)
        self._timeout = timeout
        self._turn: Turn | None = None
        self.deadline = inf  # of the commit that has lined up

    def head(self) -> HeadRow | None:
        """Return the head row, an empty one if nothing was logged; None if this user may not read the log."""
        try:
            return self._head()
        except errors.KeyValueTableNotFoundError:
            return HeadRow()
        except errors.PermissionDeniedError:
            return None

    @contextmanager
    def line_up(self, kind: str) -> Iterator[None]:
        """Enter, wait and publish in the body, which begins when one other commit at most is before this one.

        Other commits of this kind, process and user wait behind it. Those of another kind stand in another line: so a
        micro-batch does not wait for a crowd of INSERTs. Raises ServerTimeoutError when the time is over, and
        StreamNotFoundError if this log knew the stream before the wait, and another one has its name now.
        """
        self.deadline = time.monotonic() + self._timeout
        with _LINES.line_up((hash_config(self._pravega.config), self._stream, kind)) as self._turn:
            try:
                if not self._turn.may_enter.is_set():
                    before, self._origin, self._known = self._origin, None, None  # others act during the wait
                    if not self._turn.may_enter.wait(self._timeout):
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
        Raises ServerTimeoutError when the time is over.
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
            if now > self.deadline:
                raise self._make_late_error(watch.explain())
            if head.queue[0] != first:
                first, first_since, next_status = head.queue[0], now, now + _STATUS_SECONDS
                watch.note({})
            elif now > next_status:
                is_append, overdue = is_append_id(head.queue[0].transaction), now - first_since > TURN_SECONDS
                try:
                    with limit_retries(_ASKING_SECONDS if is_append else inf):
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

    def measure_settled(self, measure: Callable[[StreamCut | None], T]) -> T:
        """Return a measurement during which no transaction of this log was being merged.

        `measure` is called with None, to measure to the tail. If commits leave no gap for that, it is called with the
        cut of a version that was published since, to measure up to there. Raises ServerTimeoutError if neither
        was possible within the timeout.
        """
        return self.measure_settled_with_head(measure)[0]

    def tail(self, measure: Callable[[StreamCut | None], StreamCut]) -> tuple[StreamCut, HeadRow]:
        """Return where the stream ends, and the head row, whose version lies before that end like all older versions.

        What lies between that version and the end belongs to the next one. Waits for transactions that are merged but
        not yet published, as they are for a moment; if their writer has died, not for long. Raises the errors of
        `measure_settled`, and PermissionDeniedError for a user who may not read the log.
        """
        cut, head = self.measure_settled_with_head(measure, time.monotonic() + _PUBLISHING_SECONDS)
        head = head or self._head()
        return cut, head if head.origin is not None and self._is_of_this_stream(head) else HeadRow()

    def measure_settled_with_head(
        self, measure: Callable[[StreamCut | None], T], published_by: float = 0.0
    ) -> tuple[T, HeadRow | None]:
        """Return what `measure_settled` does, and the head row; None for a user who may not read the log.

        What was measured holds all versions up to the newest one of that row completely. Until the time `published_by`,
        transactions that are merged but not yet published are waited for.
        """
        streams = self._pravega.known_streams
        if not streams.find(self._stream).logged:
            result, head = measure(None), self.head()
            # A commit is preceded by an entry, and the head row stays: without one, nobody committed in the meantime.
            if head is None or head == HeadRow():
                return result, head
            streams.note(self._stream, logged=True)
        watch = CommitWatch(self._pravega, self._stream)
        deadline, pause, first = time.monotonic() + self._timeout, 0.005, None
        while True:
            head = self.head()
            if head is None:
                return measure(None), None
            first = first or head
            # The next version's cut may be older than this call, so take that of the version after it.
            if head.origin == first.origin and head.version >= first.version + 2:
                record = self._record(head.version)
                # DROP TABLE may have removed it in between, or it was folded.
                if "cut" in record and not is_checkpoint(record):
                    return measure(StreamCut.from_text(record["cut"])), head
            try:
                return self._measure_undisturbed(
                    head, lambda: measure(None), watch, published=time.monotonic() < published_by
                ), head
            except DisturbedError:
                if time.monotonic() > deadline:
                    raise errors.ServerTimeoutError(
                        f"Stream {self._stream} had commits in flight for {self._timeout:.0f} s, without a pause "
                        f"between them.{watch.explain() or ' Try again.'}"
                    ) from None
                cancellation.sleep(pause)
                pause = min(pause * 1.5, 0.1)

    def _measure_undisturbed(
        self, head: HeadRow, measure: Callable[[], T], watch: CommitWatch, *, published: bool
    ) -> T:
        """Return what is measured. Raises DisturbedError if meanwhile a transaction was merged or the head row changed.

        With `published`, it raises that also for a transaction that was merged before and has no version yet.
        """
        # The others are not asked to commit as long as this one is first.
        states = self._get_statuses(head.committing[:1], appends=published)
        watch.note(states)
        disturbing = {TransactionStatus.COMMITTING, *([TransactionStatus.COMMITTED] if published else [])}
        if disturbing & set(states.values()):
            raise DisturbedError
        result = measure()
        if self.head() != head:
            raise DisturbedError
        still_open = [one for one, state in states.items() if state is TransactionStatus.OPEN]
        if not set(self._get_statuses(still_open, appends=published).values()) <= _NOT_MERGED:
            raise DisturbedError
        return result

    def _get_statuses(
        self, transactions: Iterable[uuid.UUID], *, appends: bool = False
    ) -> dict[uuid.UUID, TransactionStatus]:
        """Return the states of transactions; with `appends` those of single appends too, for a user who may write."""
        states = {}
        for one in transactions:
            if not is_append_id(one):
                states[one] = self._pravega.controller.transaction_status(self._stream, one)
            elif appends:
                with limit_retries(_ASKING_SECONDS), suppress(errors.PermissionDeniedError, *TRANSIENT):
                    states[one] = rejoin(self._pravega, self._stream, one).status()
        return states
