"""The roster of a write into several streams: which transaction each of its streams has.

Tasks find out which streams there are, and all of them must append to the same transactions. So the first task that
has rows for a stream begins a transaction and adds it to the roster, by compare-and-set; the others join it. The driver
reads the roster to keep the transactions alive, and to abort them. It is a row next to the commit log's rows of the
table that is written to (see `ledger.py`). A query has one, which is empty again when a micro-batch begins.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.table import Entry
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import QueryFencedError, UnsupportedOperationError

from ..commit_log.commit_log import CommitLog
from .ledger import row_number

MOST_STREAMS = 100
"""The most streams that one write may have rows for."""


@dataclass(frozen=True)
class Roster:
    """The roster of one write: `id` is the write's, `number` that of its row in the commit log of `stream`."""

    stream: Stream
    number: int
    id: uuid.UUID

    @classmethod
    def begin(cls, pravega: Pravega, stream: Stream, writer: str | None) -> Roster:
        """Begin an empty roster of a streaming query, or of another write (None).

        Raises PermissionDeniedError for a user who may not write the commit log.
        """
        id = uuid.uuid4()
        roster = cls(stream, row_number(f"streams of {writer or id}"), id)
        log = CommitLog(pravega, stream)
        log.make_ready()
        log.replace_companion(roster.number, lambda stored, origin: roster._value({}))
        return roster

    def join(self, pravega: Pravega, begun: Mapping[str, uuid.UUID]) -> Mapping[str, uuid.UUID]:
        """Add transactions by the names of their streams; return all. Streams that have one already keep it.

        Raises QueryFencedError if another write has begun since, UnsupportedOperationError for too many
        streams.
        """
        joined: dict[str, uuid.UUID] = {}

        def change(stored: Entry | None, origin: int) -> bytes | None:
            there = self._read(stored)
            if there is None:
                raise QueryFencedError(
                    f"Another attempt of this write to stream {self.stream} has begun, or it has ended. No row of "
                    "this one is visible. If two runs of one query are alive, stop one of them."
                )
            joined.clear()
            joined.update({**begun, **there})
            check_number(joined)
            return None if joined == there else self._value(joined)

        CommitLog(pravega, self.stream).replace_companion(self.number, change)
        return joined

    def transactions(self, pravega: Pravega) -> Mapping[str, uuid.UUID]:
        """Return the transactions by the names of their streams; none if another write has begun since."""
        return self._read(CommitLog(pravega, self.stream).find_companion(self.number)) or {}

    def end(self, pravega: Pravega) -> None:
        """Remove the row."""
        CommitLog(pravega, self.stream).remove_companion(self.number, lambda stored: self._read(stored) is not None)

    def _value(self, transactions: Mapping[str, uuid.UUID]) -> bytes:
        ids = {name: str(transaction) for name, transaction in transactions.items()}
        return json.dumps({"write": str(self.id), "transactions": ids}).encode()

    def _read(self, stored: Entry | None) -> Mapping[str, uuid.UUID] | None:
        """Return what a stored row says of this write; None if it is about another one."""
        row = {} if stored is None else json.loads(stored.value)
        if row.get("write") != str(self.id):
            return None
        return {name: uuid.UUID(transaction) for name, transaction in row["transactions"].items()}


def check_number(names: Collection[str]) -> None:
    """Raise UnsupportedOperationError for more streams than one write may have rows for."""
    if len(names) > MOST_STREAMS:
        raise UnsupportedOperationError(
            f"One write into several streams, or one micro-batch, has rows for at most {MOST_STREAMS} streams. "
            f"This one has rows for more: {', '.join(sorted(names)[:5])} and {len(names) - 5} others. "
            "No row of it is visible. Write in several steps, or make the micro-batches of the query smaller."
        )
