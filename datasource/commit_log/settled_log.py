"""Measures a stream at moments when no transaction of its commit log is being merged."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.retry import limit_retries
from pyspark_pravega.client.segments.failures import TRANSIENT
from pyspark_pravega.client.single_append import is_append_id, rejoin
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut

from .log_table import HeadRow
from .turns import CommitWatch
from .versions import VersionTable, is_checkpoint

T = TypeVar("T")

ASKING_SECONDS = 1.0
"""How long to ask a segment store about the first append of the queue, before it counts as away."""
_PUBLISHING_SECONDS = 1.0
"""How long to wait for the version of a transaction that is merged, but not yet published."""
_NOT_MERGED = frozenset((TransactionStatus.OPEN, TransactionStatus.ABORTING, TransactionStatus.ABORTED))


class DisturbedError(Exception):
    """A commit happened during a measurement."""


class SettledLog(VersionTable):
    """The part of a commit log that measures, and enters nothing."""

    def __init__(self, pravega: Pravega, stream: Stream, timeout: float) -> None:
        super().__init__(pravega, stream)
        self._timeout = timeout

    def head(self) -> HeadRow | None:
        """Return the head row, an empty one if nothing was logged; None if this user may not read the log."""
        try:
            return self._head()
        except errors.KeyValueTableNotFoundError:
            return HeadRow()
        except errors.PermissionDeniedError:
            return None

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
                with limit_retries(ASKING_SECONDS), suppress(errors.PermissionDeniedError, *TRANSIENT):
                    states[one] = rejoin(self._pravega, self._stream, one).status()
        return states
