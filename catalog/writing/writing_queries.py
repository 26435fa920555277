"""What the service remembers of streaming queries that write: their last commit, and a transaction begun ahead.

Nothing depends on it: what was forgotten is read again, and a transaction that nobody takes is aborted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.client.stream import Stream, get_segment_number
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.commit import WriteSettings
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import Epoch
from pyspark_pravega.datasource.insert.outcomes import clean_up
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import PravegaError

from ..storage.catalogs import Catalog

LOG = logging.getLogger(__name__)

KEPT = 100
"""How many queries are remembered."""
BUSY_SECONDS = 1.0
"""If the next micro-batch of a query begins this soon after the last, its next transaction is begun ahead."""
AHEAD_SECONDS = 2.0
"""How long a transaction waits for its micro-batch."""
OLDEST_SECONDS = 3600.0
"""How long one transaction serves empty micro-batches: servers end it after a day."""

Key: TypeAlias = tuple[Stream, str]
"""A stream, and the id of a query."""


@dataclass
class _Query:
    """A query's newest epoch, with the log that committed it and the segments of its transaction then."""

    pravega: Pravega
    log: CommitLog
    segments: frozenset[int]
    epoch: Epoch
    ended: float
    busy: bool = False


@dataclass
class _TransactionAhead:
    """A transaction that is begun before it is needed."""

    pravega: Pravega
    settings: WriteSettings
    insert: Insert | None = None
    taken: bool = False
    begun: threading.Event = field(default_factory=threading.Event)
    claimed: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None


class WritingQueries:
    """Remembers queries by stream and id; thread-safe. One query commits one epoch at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: Recent[Key, _Query] = Recent(KEPT)
        self._ahead: dict[Key, _TransactionAhead] = {}

    def begin(self, key: Key, pravega: Pravega, table: StreamTable, settings: WriteSettings) -> Insert:
        """Return a transaction for a micro-batch: the one that was begun ahead for it, or a new one.

        Raises the errors of `Insert.begin`, and PermissionDeniedError if the first one could not be committed.
        """
        with self._lock:
            query = self._queries.find(key)
            if query is not None:
                query.busy = time.monotonic() - query.ended < BUSY_SECONDS
            ahead = self._ahead.pop(key, None)
            is_open = query is not None and query.pravega is pravega
            if ahead is not None:
                ahead.taken = ahead.pravega is pravega and ahead.settings == settings
                ahead.claimed.set()
        if ahead is not None and ahead.taken:
            ahead.begun.wait()
            if ahead.insert is not None and ahead.insert.transaction.failure is None:
                return Insert(pravega, table, ahead.insert.transaction, settings)
        insert = Insert.begin(pravega, table, settings)
        if not is_open:
            _check_rights(pravega, insert)
        return insert

    def find_log(self, key: Key, pravega: Pravega, insert: Insert, epoch: Epoch) -> CommitLog:
        """Return the log of the last commit of the query's run, or a new log if the stream has been recreated."""
        with self._lock:
            query = self._queries.find(key)
        # A stream that was created again has other segments. And between two runs the ledger may have been set back.
        same = query is not None and query.pravega is pravega and query.epoch.run == epoch.run
        if query is not None and same and query.segments == _number_segments(insert):
            return query.log
        return CommitLog(pravega, key[0], timeout=insert.settings.commit_timeout)

    def is_continued_by(self, key: Key, epoch: Epoch) -> bool:
        """Return whether the epoch follows one that the same run has committed here: nothing is left to settle."""
        with self._lock:
            query = self._queries.find(key)
        return query is not None and query.epoch.run == epoch.run and query.epoch.number < epoch.number

    def note_commit(self, key: Key, catalog: Catalog, insert: Insert, epoch: Epoch, log: CommitLog) -> None:
        """Remember a commit, and begin the next transaction if micro-batches follow each other without a pause."""
        with self._lock:
            former = self._queries.pop(key)
            busy = former is not None and former.busy
            query = _Query(catalog.pravega, log, _number_segments(insert), epoch, time.monotonic(), busy)
            self._queries.put(key, query)
        if busy:
            self._prepare(key, catalog, insert, lambda: Insert.begin(catalog.pravega, insert.table, insert.settings))

    def forget(self, key: Key) -> None:
        """Forget a query whose commit has failed."""
        with self._lock:
            self._queries.pop(key)

    def keep(self, key: Key, catalog: Catalog, insert: Insert) -> None:
        """Keep the transaction of a micro-batch without rows for the next one."""
        old = insert.transaction
        if time.monotonic() - old.begun_at > OLDEST_SECONDS:
            clean_up(insert.abort)
            return
        again = Transaction(catalog.pravega.controller, old.stream, old.id, list(old.segments), old.lease_ms, old.token)
        again.begun_at = old.begun_at

        def begin() -> Insert:
            # At once: if many short micro-batches have no rows, none of them lasts until its own first ping.
            try:
                again.ping()
            except PravegaError:
                clean_up(again.abort)
                raise
            again.keep_alive()
            return Insert(catalog.pravega, insert.table, again, insert.settings)

        self._prepare(key, catalog, insert, begin)

    def end(self) -> list[threading.Thread]:
        """Abort what was begun ahead; return the threads that do it."""
        with self._lock:
            left = list(self._ahead.values())
            self._ahead.clear()
        for ahead in left:
            ahead.claimed.set()
        return [ahead.thread for ahead in left if ahead.thread is not None]

    def _prepare(self, key: Key, catalog: Catalog, like: Insert, begin: Callable[[], Insert]) -> None:
        ahead, release = _TransactionAhead(catalog.pravega, like.settings), catalog.hold()

        def run() -> None:
            try:
                ahead.insert = begin()
            except PravegaError as error:
                LOG.debug("No transaction was begun ahead on stream %s: %s", key[0], error)
            finally:
                ahead.begun.set()
            ahead.claimed.wait(AHEAD_SECONDS)
            with self._lock:
                if self._ahead.get(key) is ahead:
                    del self._ahead[key]
            if not ahead.taken and ahead.insert is not None:
                clean_up(ahead.insert.abort)
            release()

        ahead.thread = threading.Thread(target=run, name=f"ahead {key[0]}", daemon=True)
        with self._lock:
            former = self._ahead.get(key)
            self._ahead[key] = ahead
        if former is not None:
            former.claimed.set()
        ahead.thread.start()


def _check_rights(pravega: Pravega, insert: Insert) -> None:
    """Abort a query's first transaction if it could not be committed as a micro-batch. Raises PermissionDeniedError."""
    try:
        CommitLog(pravega, insert.table.stream).make_ready()
    except BaseException:
        clean_up(insert.abort)
        raise


def _number_segments(insert: Insert) -> frozenset[int]:
    """Return the numbers of a transaction's segments, which no other stream of this name has."""
    return frozenset(get_segment_number(segment.segment_id) for segment in insert.transaction.segments)
