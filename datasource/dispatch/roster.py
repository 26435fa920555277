"""The roster of a write into several streams: which transaction each of its streams has.

Tasks find the streams by reading rows, and all tasks must append to the same transactions. So the first task that
has rows for a stream begins a transaction and adds it to the roster, by compare-and-set; the others join it. The driver
reads the roster to keep the transactions alive, and to abort them. It is a row next to the commit log's rows of the
table that is written to (see `ledger.py`). A query has one, which is empty again when a micro-batch begins, and which
keeps the newest runs of the query: a run that another has replaced begins no more micro-batch.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import Entry
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import QueryFencedError, UnsupportedOperationError

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import compute_row_number
from ..insert.ledger import KEPT_RUNS

MOST_STREAMS = 100
"""The most streams that one write may have rows for."""


@dataclass(frozen=True)
class Roster:
    """The roster of one write: `id` is the write's, `number` that of its row in the commit log of `stream`."""

    stream: Stream
    number: int
    id: uuid.UUID

    @classmethod
    def begin(cls, pravega: Pravega, stream: Stream, query: QueryRun | None) -> Roster:
        """Begin an empty roster of a streaming query, or of another write (None).

        Raises QueryFencedError if another run of the query has begun since this one, and PermissionDeniedError for a
        user who may not write the commit log.
        """
        id = uuid.uuid4()
        roster = cls(stream, compute_row_number(f"streams of {query.writer if query is not None else id}"), id)

        def change(stored: Entry | None, origin: int) -> bytes:
            return roster._value({}, [] if query is None else query.add_to(_read_runs(stored), stream))

        log = CommitLog(pravega, stream)
        log.make_ready()
        log.replace_companion(roster.number, change)
        return roster

    def join(self, pravega: Pravega, begun: Mapping[str, uuid.UUID]) -> Mapping[str, uuid.UUID]:
        """Add transactions by the names of their streams; return all. Streams that have one already keep it.

        Raises QueryFencedError if another write has begun since, UnsupportedOperationError for too many streams.
        """
        joined: dict[str, uuid.UUID] = {}

        def change(stored: Entry | None, origin: int) -> bytes | None:
            roster = self._read(stored)
            if roster is None:
                raise QueryFencedError(
                    f"Another attempt of this write to stream {self.stream} has begun, or it has ended. No row of "
                    "this attempt is visible. If two runs of one query are alive, stop one of them."
                )
            joined.clear()
            joined.update({**begun, **roster})
            check_number(joined)
            return None if joined == roster else self._value(joined, _read_runs(stored))

        CommitLog(pravega, self.stream).replace_companion(self.number, change)
        return joined

    def transactions(self, pravega: Pravega) -> Mapping[str, uuid.UUID]:
        """Return the transactions by the names of their streams; none if another write has begun since."""
        return self._read(CommitLog(pravega, self.stream).find_companion(self.number)) or {}

    def end(self, pravega: Pravega) -> None:
        """Remove the row of a write, or this micro-batch from the row of a query."""
        log = CommitLog(pravega, self.stream)
        if runs := _read_runs(log.find_companion(self.number)):
            ended = json.dumps({"write": None, "transactions": {}, "runs": runs}).encode()
            log.replace_companion(self.number, lambda stored, origin: None if self._read(stored) is None else ended)
        else:
            log.remove_companion(self.number, lambda stored: self._read(stored) is not None)

    def _value(self, transactions: Mapping[str, uuid.UUID], runs: Sequence[str]) -> bytes:
        ids = {name: str(transaction) for name, transaction in transactions.items()}
        return json.dumps({"write": str(self.id), "transactions": ids, "runs": [*runs]}).encode()

    def _read(self, stored: Entry | None) -> Mapping[str, uuid.UUID] | None:
        """Return what a stored row says of this write; None if it is about another one."""
        row = {} if stored is None else json.loads(stored.value)
        if row.get("write") != str(self.id):
            return None
        return {name: uuid.UUID(transaction) for name, transaction in row["transactions"].items()}


@dataclass(frozen=True)
class QueryRun:
    """A run of a streaming query: the name of the query in the ledger, and the id of the run."""

    writer: str
    run: str

    def add_to(self, runs: Sequence[str], stream: Stream) -> list[str]:
        """Return the runs with this one as the newest. Raises QueryFencedError if another one has replaced it."""
        if self.run in runs[:-1]:
            raise QueryFencedError(
                f"Another run ({runs[-1]}) of {self.writer} has begun to write to the streams next to {stream}; this "
                f"one ({self.run}) may not continue, and no row of its micro-batch is visible. Two runs have one id: "
                "was the driver thought dead, or the checkpoint copied? Stop one of them."
            )
        return [*(run for run in runs if run != self.run), self.run][-KEPT_RUNS:]


def _read_runs(stored: Entry | None) -> list[str]:
    """Return the runs that a stored row keeps, the newest last."""
    return [] if stored is None else json.loads(stored.value).get("runs", [])


def check_number(names: Collection[str]) -> None:
    """Raise UnsupportedOperationError for more streams than one write may have rows for."""
    if len(names) > MOST_STREAMS:
        raise UnsupportedOperationError(
            f"One write into several streams, or one micro-batch, has rows for at most {MOST_STREAMS} streams. "
            f"This one has rows for more: {', '.join(sorted(names)[:5])} and {len(names) - 5} others. "
            "No row of it is visible. Write in several steps, or make the micro-batches of the query smaller."
        )
