"""The commit log: which transactions of a stream are being committed, and what each commit made visible.

One key-value table per scope, made by the first INSERT (SHOW TABLES does not list such tables, and Pravega
refuses names with a leading `_` for them). Keys are 24 bytes: the first 16 of the stream
name's BLAKE2b hash, then a big-endian number: 0 is the stream's head row, n the row of version n.

The head row is replaced by compare-and-set: a transaction is entered before its commit is asked for and taken
out once the server has said COMMITTED. A reader that finds the same head row before and after measuring, and no
entered transaction that moved meanwhile, has measured all or nothing of every transaction.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller import TransactionStatus
from pyspark_pravega.client.key_value_table import ANY, NOT_EXISTS, Entry, KeyValueTable
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import (
    ConditionalUpdateError,
    KeyValueTableNotFoundError,
    PermissionDeniedError,
    ServerTimeoutError,
)

T = TypeVar("T")

TABLE_NAME = "pyspark-pravega-commits"
KEY_LENGTH = 24
_MOVING = (TransactionStatus.COMMITTING, TransactionStatus.ABORTING)
_ENDED = (TransactionStatus.COMMITTED, TransactionStatus.ABORTED, TransactionStatus.UNKNOWN)


@dataclass(frozen=True)
class Head:
    """The head row: the newest version and the transactions entered for commit."""

    version: int = 0
    committing: tuple[uuid.UUID, ...] = ()
    row_version: int = NOT_EXISTS


class CommitLog:
    """The commit log of one stream."""

    def __init__(self, pravega: Pravega, stream: Stream, *, timeout: float = 60.0) -> None:
        """`timeout` bounds, in seconds, how long `settled` waits for a commit in flight."""
        self._pravega = pravega
        self._stream = stream
        self._timeout = timeout
        self._table = KeyValueTable(pravega.segments, pravega.controller, stream.scope, TABLE_NAME)
        self._prefix = hashlib.blake2b(stream.name.encode(), digest_size=16).digest()

    def head(self) -> Head | None:
        """Return the head row; None when nothing was ever logged or this user may not read the log."""
        try:
            entry = self._table.get(self._key(0))
        except (KeyValueTableNotFoundError, PermissionDeniedError):
            return None
        return Head() if entry is None else _head(entry)

    def enter(self, transaction: uuid.UUID) -> bool:
        """Note that the transaction is about to be committed; the table is made when it is missing.

        Returns False when this user may not write the log: the commit is then as atomic as the server makes it.
        Transactions that have ended meanwhile (their writers died) are taken out.
        """
        try:
            try:
                self._update(lambda head: replace(head, committing=(*self._alive(head), transaction)))
            except KeyValueTableNotFoundError:
                self._table.create(1, KEY_LENGTH)
                self._update(lambda head: replace(head, committing=(*self._alive(head), transaction)))
        except PermissionDeniedError:
            return False
        return True

    def publish(self, transaction: uuid.UUID, cut: StreamCut, *, rows: int, operation: str) -> int:
        """Take the committed transaction out and add a version; return its number."""

        def commit(head: Head) -> Head:
            left = tuple(other for other in head.committing if other != transaction)
            return replace(head, version=head.version + 1, committing=left)

        def record(head: Head) -> bytes:
            return _bytes(
                {
                    "stream": self._stream.name,
                    "version": head.version,
                    "cut": cut.to_text(),
                    "timestamp_ms": time.time_ns() // 1_000_000,
                    "rows": rows,
                    "operation": operation,
                    "transaction": str(transaction),
                }
            )

        return self._update(commit, record).version

    def withdraw(self, transaction: uuid.UUID) -> None:
        """Take out a transaction that was not committed."""
        self._update(lambda head: replace(head, committing=tuple(one for one in head.committing if one != transaction)))

    def remove(self) -> None:
        """Delete all rows of the stream; for DROP TABLE."""
        head = self.head()
        if head is None or head.row_version == NOT_EXISTS:
            return
        self._table.delete(self._key(0))
        for version in range(1, head.version + 1):
            self._table.delete(self._key(version))

    def settled(self, measure: Callable[[], T]) -> T:
        """Return a measurement during which no transaction of this log was being merged.

        Raises ServerTimeoutError when commits kept the stream moving for the whole timeout.
        """
        deadline = time.monotonic() + self._timeout
        pause = 0.005
        while True:
            before = self.head()
            if before is None:
                return measure()
            states = self._states(before)
            if not any(state in _MOVING for state in states.values()):
                result = measure()
                after = self.head()
                if after == before and self._states(before) == states:
                    return result
            if time.monotonic() > deadline:
                raise ServerTimeoutError(
                    f"Stream {self._stream} had commits in flight for {self._timeout:.0f} s; the scan found no moment "
                    "between two of them. Try again, or raise 'transaction.timeout'."
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.2)

    def _states(self, head: Head) -> dict[uuid.UUID, TransactionStatus]:
        return {
            transaction: self._pravega.controller.transaction_status(self._stream, transaction)
            for transaction in head.committing
        }

    def _alive(self, head: Head) -> tuple[uuid.UUID, ...]:
        return tuple(one for one, state in self._states(head).items() if state not in _ENDED)

    def _update(self, change: Callable[[Head], Head], record: Callable[[Head], bytes] | None = None) -> Head:
        """Replace the head row, and write the row of its version in the same atomic step."""
        while True:
            entry = self._table.get(self._key(0))
            old = Head() if entry is None else _head(entry)
            new = change(old)
            writes = [(self._key(0), _bytes(self._row(new)), old.row_version)]
            if record is not None:
                writes.append((self._key(new.version), record(new), ANY))
            try:
                self._table.put_many(writes)
            except ConditionalUpdateError:
                continue  # another commit of the stream came first: judge its row
            return new

    def _row(self, head: Head) -> dict[str, Any]:
        committing = [str(transaction) for transaction in head.committing]
        return {"stream": self._stream.name, "version": head.version, "committing": committing}

    def _key(self, number: int) -> bytes:
        return self._prefix + number.to_bytes(8, "big")


def _head(entry: Entry) -> Head:
    row = json.loads(entry.value)
    return Head(row["version"], tuple(uuid.UUID(text) for text in row["committing"]), entry.version)


def _bytes(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
