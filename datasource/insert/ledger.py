"""The ledger of a table: which micro-batches of which queries are in it already, one row for each query and table.

A row stands next to the commit log's rows of the same stream, so that an epoch and its transaction's place in the queue
are recorded in one atomic step, and DROP TABLE removes both. A key is the stream's prefix and a number from 2 ** 63 on,
beyond all versions: its other 63 bits are from the hash of the writer.

An epoch is recorded once its transaction is complete and before its commit is requested. Whoever finds an epoch
recorded finishes that very transaction; only one that was aborted is replaced by another. A digest of what an epoch
read is recorded too, because its number alone does not distinguish a replay from another batch; and so are the runs of
the query, of which only the newest may write.

`reset_query` makes a table forget a query.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.key_value.key_value_table import Entry
from pyspark_pravega.client.stream import Stream

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import FIRST_COMPANION_ROW, TABLE_NAME, compute_row_number, encode_row, make_row_key

KEPT_BATCHES = 100
"""The epochs of a query whose digests are kept."""
KEPT_RUNS = 20
"""The runs of a query that are kept."""
RESET = "reset "
"""The prefix of an id that stands, among the runs of a query, for a reset of its row."""
_IN_FLIGHT = (TransactionStatus.OPEN, TransactionStatus.COMMITTING)


def name_writer_of_query(query: str) -> str:
    """Return the name of a streaming query as a writer."""
    return f"query {query}"


@dataclass(frozen=True)
class Epoch:
    """One batch of one writer, who may write it again: a micro-batch of a query, or a numbered write of an application.

    `batch` is a digest of what it read, `run` the id of the query's run; an application has neither. `seen` is the
    state of the writer's row when an application's write began: nobody else may change it until the commit. None:
    anybody may. `watermark` is Spark's during the micro-batch, in milliseconds since 1970; 0: it has not begun; None:
    the query has none.
    """

    writer: str
    number: int
    run: str | None = None
    batch: str | None = None
    seen: str | None = None
    watermark: int | None = None

    @classmethod
    def of_query(cls, query: str, number: int, run: str, offsets: str, watermark: int | None = None) -> Epoch:
        """Return the epoch of a streaming query. `offsets` is the text of what the micro-batch reads."""
        digest = hashlib.blake2b(offsets.encode(), digest_size=8).hexdigest()
        return cls(name_writer_of_query(query), number, run, digest, watermark=watermark)

    @classmethod
    def of_application(cls, application: str, number: int) -> Epoch:
        """Return the epoch of the write options `txn-app-id` and `txn-version`."""
        return cls(f"application {application}", number)

    def __str__(self) -> str:
        what = "micro-batch" if self.run is not None else "version"
        return f"{what} {self.number} of {self.writer}"


@dataclass(frozen=True)
class LedgerRow:
    """A row, as it is stored: the newest epoch with its transaction, which is `done` once committed and published.

    `origin` is that of the stream, as in the commit log. `batches` are digests by epoch, `runs` the newest last.
    `timestamp_ms` is when the row was written.
    """

    writer: str
    origin: int
    epoch: int = -1
    transaction: uuid.UUID | None = None
    rows: int = 0
    done: bool = True
    runs: tuple[str, ...] = ()
    batches: Mapping[int, str] = field(default_factory=dict)
    timestamp_ms: int = field(default=0, compare=False)

    @classmethod
    def find_in(cls, value: bytes) -> LedgerRow | None:
        """Read a companion row; None for one that is about something else, such as tags or known truncations."""
        is_of_writer = value.startswith(b"{") and "writer" in json.loads(value)
        return cls.read(value) if is_of_writer else None

    @classmethod
    def read(cls, value: bytes) -> LedgerRow:
        row = json.loads(value)
        return cls(
            row["writer"],
            row["origin"],
            row["epoch"],
            None if row["transaction"] is None else uuid.UUID(row["transaction"]),
            row["rows"],
            row["done"],
            tuple(row["runs"]),
            {int(epoch): digest for epoch, digest in row["batches"].items()},
            row.get("timestamp_ms", 0),
        )

    @property
    def state(self) -> str:
        """Return a text that changes whenever an epoch is recorded."""
        return f"{self.epoch} {self.transaction}"

    def value(self) -> bytes:
        """Return the row as it is stored."""
        return encode_row(asdict(replace(self, timestamp_ms=time.time_ns() // 1_000_000)))


def read_ledger(log: CommitLog) -> list[LedgerRow]:
    """Return the rows of all writers to a stream. Raises PermissionDeniedError for a user who may not read the log."""
    origin, rows = log.learn_origin(), [LedgerRow.find_in(stored.value) for stored in log.list_companions()]
    return [row for row in rows if row is not None and row.origin == origin]


def read_ledgers(pravega: Pravega, scope: str) -> Iterator[tuple[Stream, LedgerRow]]:
    """Yield the rows of all writers to the streams of a scope, without asking each stream.

    Raises PermissionDeniedError for a user who may not read the commit table.
    """
    table = pravega.key_value_table(scope, TABLE_NAME)
    try:
        every = list(table.keys())
    except errors.KeyValueTableNotFoundError:
        return
    keys = [key for key in every if int.from_bytes(key[16:]) >= FIRST_COMPANION_ROW]
    names = pravega.controller.list_streams(scope) if keys else ()
    streams = {make_row_key(stream, 0)[:16]: stream for stream in (Stream(scope, name) for name in names)}
    for key, stored in zip(keys, table.get_many(keys), strict=True):
        stream = streams.get(key[:16])
        row = None if stored is None else LedgerRow.find_in(stored.value)
        if stream is not None and row is not None and _is_of(pravega, stream, row):
            yield stream, row


def _is_of(pravega: Pravega, stream: Stream, row: LedgerRow) -> bool:
    """Return whether a row is about this stream, and not about an older one; a user who may only read cannot tell."""
    try:
        return row.origin == pravega.known_streams.origin(stream)
    except errors.PermissionDeniedError:
        return True
    except errors.StreamNotFoundError:
        return False


class EpochRecorder:
    """Records one epoch in its writer's row; a `CompanionRow` of the commit log.

    `replaces` is an aborted transaction that was recorded for this epoch.
    """

    def __init__(self, stream: Stream, epoch: Epoch, rows: int) -> None:
        self.epoch = epoch
        self.replaces: uuid.UUID | None = None
        self._stream = stream
        self._rows = rows
        self.number = compute_row_number(epoch.writer)

    def row(self, stored: Entry | None, origin: int) -> LedgerRow:
        """Return the recorded row, or an empty row if none is stored for this stream.

        Raises QueryFencedError if the row says that this epoch may not be written.
        """
        row = LedgerRow(self.epoch.writer, origin) if stored is None else LedgerRow.read(stored.value)
        if row.origin != origin:
            row = LedgerRow(self.epoch.writer, origin)
        self._check(row)
        return row

    def _check(self, row: LedgerRow) -> None:
        epoch = self.epoch
        if row.writer != epoch.writer:
            raise errors.QueryFencedError(
                f"The ledger of stream {self._stream} has one row for both {row.writer} and {epoch.writer}, because "
                "their ids have the same hash. Start the query with a new checkpoint, or write with another "
                "'txn-app-id'."
            )
        if epoch.run is not None and epoch.run in row.runs[:-1]:
            if row.runs[-1].startswith(RESET):
                raise errors.QueryFencedError(
                    f"The ledger of stream {self._stream} was reset for {epoch.writer} during its run {epoch.run}. "
                    f"This run may not continue, and no row of its micro-batch {epoch.number} is visible. Start the "
                    "query again."
                )
            raise errors.QueryFencedError(
                f"Another run ({row.runs[-1]}) of {epoch.writer} has begun to write to stream {self._stream}; this one "
                f"({epoch.run}) may not continue, and no row of its micro-batch {epoch.number} is visible. Two runs "
                "have one id: was the driver thought dead, or the checkpoint copied? Stop one of them."
            )
        if epoch.seen not in (None, row.state):
            if row.epoch < 0:
                raise errors.QueryFencedError(
                    f"Stream {self._stream} was dropped and recreated while {epoch} was being written. No row of "
                    "this write is visible. Write it again."
                )
            raise errors.QueryFencedError(
                f"Another write of {epoch.writer} has written version {row.epoch} to stream {self._stream} while "
                f"version {epoch.number} was being written. No row of this write is visible. Only one writer may use a "
                "'txn-app-id' at a time: wait for one to end before the next begins, or use different ids."
            )
        if epoch.number <= row.epoch and epoch.batch is not None:
            self._check_batch(row)

    def _check_batch(self, row: LedgerRow) -> None:
        """Raise QueryFencedError unless an epoch that is not newer than the recorded one repeats its batch."""
        epoch, batch = self.epoch, row.batches.get(self.epoch.number)
        if batch == epoch.batch:
            return
        if batch is not None:
            why = "has other offsets there than in this run"
        elif len(row.batches) >= KEPT_BATCHES and epoch.number < min(row.batches):
            why = f"is not among the last {KEPT_BATCHES}, whose offsets the table knows"
        else:
            why = "has left no rows there"
        raise errors.QueryFencedError(
            f"Stream {self._stream} has the micro-batches of {epoch.writer} up to number {row.epoch}, but number "
            f"{epoch.number} {why}. No row of this run's micro-batch is visible. Was the checkpoint copied, or "
            "restored to an older state? Continue with the newest checkpoint, or start with a new one. That is a new "
            "query, which writes all that it reads, so let it start after the existing rows."
        )

    def with_run(self, row: LedgerRow) -> LedgerRow:
        """Return the row with this epoch's run as the newest."""
        run = self.epoch.run
        if run is None or run in row.runs[-1:]:
            return row
        return replace(row, runs=(*row.runs, run)[-KEPT_RUNS:])

    def make_value_when_entered(self, transaction: uuid.UUID, origin: int, stored: Entry | None) -> bytes:
        """Return the row that records this epoch with its transaction. Raises QueryFencedError."""
        row, epoch = self.row(stored, origin), self.epoch
        # Another run may have changed the row since it was read, and may even have written later epochs.
        if row.epoch > epoch.number or (row.epoch == epoch.number and row.transaction != self.replaces):
            raise self._make_overtaken_error(row)
        batches = self._batches(row)
        new = replace(row, epoch=epoch.number, transaction=transaction, rows=self._rows, done=False, batches=batches)
        return self.with_run(new).value()

    def _batches(self, row: LedgerRow) -> dict[int, str]:
        """Return the digests of a row, with that of this epoch."""
        batches = dict(row.batches)
        if not row.done:
            batches.pop(row.epoch, None)  # it was aborted: whoever still tries to commit it must not find it done
        if self.epoch.batch is not None:
            batches[self.epoch.number] = self.epoch.batch
        return dict(sorted(batches.items())[-KEPT_BATCHES:])

    def make_value_when_passed(self, stored: Entry | None, origin: int) -> bytes:
        """Return the row that records this epoch without rows, after another epoch that has ended.

        Raises QueryFencedError if the row is about this epoch already, or a later one.
        """
        row = self.row(stored, origin)
        if row.epoch >= self.epoch.number:
            raise self._make_overtaken_error(row)
        new = replace(row, epoch=self.epoch.number, transaction=None, rows=0, done=True, batches=self._batches(row))
        return self.with_run(new).value()

    def make_value_when_taken_over(self, ledger_row: LedgerRow, stored: Entry | None, origin: int) -> bytes | None:
        """Return the row of this committed epoch, with the run that found it; None if it is unchanged.

        Raises QueryFencedError if the row is no longer about the transaction of `ledger_row`: another may not be done.
        """
        row = self._check_still_about(ledger_row, stored, origin)
        new = self.with_run(replace(row, done=True))
        return None if new == row else new.value()

    def make_value_when_emptied(self, ledger_row: LedgerRow, stored: Entry | None, origin: int) -> bytes:
        """Return the row of this epoch, whose transaction in `ledger_row` was aborted, and which has no rows now."""
        row = self._check_still_about(ledger_row, stored, origin)
        return self.with_run(replace(row, transaction=None, rows=0, done=True)).value()

    def _check_still_about(self, ledger_row: LedgerRow, stored: Entry | None, origin: int) -> LedgerRow:
        row = self.row(stored, origin)
        if (row.epoch, row.transaction) != (ledger_row.epoch, ledger_row.transaction):
            raise self._make_overtaken_error(row)
        return row

    def _make_overtaken_error(self, row: LedgerRow) -> errors.QueryFencedError:
        return errors.QueryFencedError(
            f"Another run of {self.epoch.writer} has just recorded its batch {row.epoch} for stream {self._stream}. "
            "No row of this run's batch is visible. Two runs have one id: stop one of them."
        )

    def make_value_when_published(self, transaction: uuid.UUID, stored: Entry | None) -> bytes | None:
        """Return the row that says that the transaction is done; None if the row is about another one by now."""
        row = None if stored is None else LedgerRow.read(stored.value)
        if row is None or row.writer != self.epoch.writer or row.transaction != transaction or row.done:
            return None
        return replace(row, done=True).value()


def find_row_of_query(log: CommitLog, stream: Stream, query: str) -> LedgerRow:
    """Return the row of a query in a stream's ledger. Raises InvalidOptionError without one, naming others."""
    rows = read_ledger(log)
    for row in rows:
        if row.writer == name_writer_of_query(query):
            return row
    prefix = name_writer_of_query("")
    queries = [row.writer.removeprefix(prefix) for row in rows if row.writer.startswith(prefix)]
    raise errors.InvalidOptionError(
        f"Stream {stream} has no micro-batches of a query '{query}'. "
        + (f"It has those of {', '.join(queries)}." if queries else "No streaming query has written to it.")
    )


def reset_query(
    pravega: Pravega, stream: Stream, log: CommitLog, seen: LedgerRow, saved: LedgerRow | None = None
) -> None:
    """Forget the micro-batches in a row that is as `seen`, or those after a `saved` row; what they wrote stays.

    A run that continues is refused at its next commit. Raises UnsupportedOperationError if the row has changed since,
    or its last micro-batch is being committed.
    """
    if not seen.done and seen.transaction is not None:
        status = pravega.controller.transaction_status(stream, seen.transaction)
        if status in _IN_FLIGHT:
            raise errors.UnsupportedOperationError(
                f"Micro-batch {seen.epoch} of {seen.writer} is being committed to stream {stream}, or its driver died "
                f"then: transaction {seen.transaction} is {status.name.lower()}. Stop the query, or start it once "
                "more, which finishes the micro-batch; then reset it."
            )

    def change(stored: Entry | None, origin: int) -> bytes:
        row = LedgerRow(seen.writer, origin) if stored is None else LedgerRow.read(stored.value)
        if row.origin != origin:
            row = LedgerRow(seen.writer, origin)
        if row.state != seen.state:
            raise errors.UnsupportedOperationError(
                f"{seen.writer[:1].upper()}{seen.writer[1:]} has written to stream {stream} at this moment. Stop it "
                "before you reset it."
            )
        runs = (*row.runs, f"{RESET}{uuid.uuid4()}")[-KEPT_RUNS:]
        return replace(saved or LedgerRow(row.writer, origin), origin=origin, runs=runs).value()

    log.replace_companion(compute_row_number(seen.writer), change)
