"""Procedures on single transactions of a stream whose writer is gone."""

from __future__ import annotations

import uuid

from pyspark.sql.types import BooleanType, LongType, StringType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.single_append import rejoin
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.commit import CommitRequest, WriteSettings
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.ledger import read_ledger
from pyspark_pravega.datasource.insert.prepare import write_settings
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable

from ..metadata.metadata_table import Rows, column
from ..storage.catalogs import Catalog
from .procedure import DRY_RUN, TABLE, Call, flag, parameter, procedure

_COMPLETE = flag("complete", "true says that all of its events are written, and that nobody else commits or aborts it")


_ID = column("transaction", StringType(), "its id", nullable=False)
_TRANSACTION = parameter("transaction", "its id")


def _parse_transaction_id(call: Call) -> uuid.UUID:
    text = call.require("transaction")
    try:
        return uuid.UUID(text)
    except ValueError:
        raise errors.InvalidOptionError(
            f"'transaction' => '{text[:80]}' is not a transaction id. An id is a UUID, as shown in the metadata table "
            "transactions and in the writer's log."
        ) from None


@procedure(
    "Commits an open transaction of another program as one version, for example one that a job prepared before it "
    "died. Refused for a transaction that an INSERT or a streaming query is committing, unless the server has begun to "
    "commit it: then it is asked once more.",
    (TABLE, _TRANSACTION, _COMPLETE),
    (
        _ID,
        column("events", LongType(), "that became visible; NULL if only its writer knows"),
        column("state", StringType(), "what the server says about it", nullable=False),
    ),
    "READ_UPDATE on the stream and on `pyspark-pravega-commits` of its scope",
)
def commit_transaction(call: Call) -> Rows:
    pravega, stream, transaction_id = call.catalog.pravega, call.find_stream(), _parse_transaction_id(call)
    log, settings = CommitLog(pravega, stream), write_settings(call.catalog.options())
    if pravega.controller.transaction_status(stream, transaction_id) is TransactionStatus.COMMITTING:
        yield str(transaction_id), _finish_commit(pravega, log, stream, transaction_id, settings), "committed"
        return
    _check_foreign(log, stream, transaction_id)
    if not call.is_set(_COMPLETE):
        raise errors.InvalidOptionError(
            f"It is not known whether transaction {transaction_id} on stream {stream} is complete. If an INSERT or a "
            "job still writes to it, a part of its events would become visible. Abort it, or, if its writer has "
            "finished it and is gone, pass complete => true."
        )
    try:
        transaction = Transaction.rejoin(pravega.controller, stream, transaction_id, settings.lease_ms)
    except errors.StreamNotFoundError:
        raise _make_unknown_error(stream, transaction_id) from None
    status = transaction.status()
    if status is not TransactionStatus.OPEN:
        is_unknown = status is TransactionStatus.UNKNOWN
        raise _make_unknown_error(stream, transaction_id) if is_unknown else transaction.explain_end()
    log.make_ready()  # before sealing: unlike an INSERT, this commit must become a version
    insert = Insert(pravega, StreamTable(stream, "raw", "none", RAW_SCHEMA), transaction, settings)
    transaction.keep_alive()
    try:
        events = _seal_and_count(call.catalog, transaction)
        insert.publish(events, CommitRequest("COMMIT", again=True))
    finally:
        transaction.stop()
    yield str(transaction_id), events, transaction.status().name.lower()


def _finish_commit(
    pravega: Pravega, log: CommitLog, stream: Stream, transaction_id: uuid.UUID, settings: WriteSettings
) -> int | None:
    """Ask once more for a commit that the server has begun; return how many rows the commit log says it has."""
    head = log.head()
    entries = () if head is None else head.queue
    rows = next((entry.rows for entry in entries if entry.transaction == transaction_id), None)
    Transaction(pravega.controller, stream, transaction_id, [], settings.lease_ms).commit(settings.commit_timeout)
    if rows is not None:
        log.publish(transaction_id, lambda: measure_tail(pravega, stream))
    return rows


def _check_foreign(log: CommitLog, stream: Stream, transaction: uuid.UUID) -> None:
    """Raise UnsupportedOperationError if an INSERT or a micro-batch commits the transaction, or has committed it."""
    for row in read_ledger(log):
        if row.transaction == transaction:
            raise errors.UnsupportedOperationError(
                f"Transaction {transaction} holds batch {row.epoch} of {row.writer}, and only that may commit it. "
                "Start it again: it then completes the batch."
            )
    head = log.head()
    if head is None:
        raise errors.PermissionDeniedError(
            f"You may not read the commit log of stream {stream}, which says whether an INSERT holds the transaction. "
            f"You need READ on the key-value table `pyspark-pravega-commits` of scope '{stream.scope}'."
        )
    if transaction in head.committing:
        raise errors.UnsupportedOperationError(
            f"Transaction {transaction} waits for its commit in the commit log of stream {stream}: an INSERT is "
            "committing it. If that INSERT has died, the next commit to the stream completes it, or gives it up."
        )


def _seal_and_count(catalog: Catalog, transaction: Transaction) -> int:
    """Seal the segments of a transaction, so that nothing more is written to it, and count its events."""
    store, stream = catalog.pravega.segments, transaction.stream
    ids = [segment.segment_id for segment in transaction.segments]
    try:
        store.seal_segments(stream, ids, transaction.id)
    except errors.TransactionNotOpenError:
        raise transaction.explain_end() from None
    events = 0
    for segment, info in store.segment_infos(stream, ids, transaction.id).items():
        reader = SegmentRangeReader(store, stream, segment, 0, info.write_offset, transaction=transaction.id)
        events += sum(len(window.starts) for window in reader)
    return events


@procedure(
    "Aborts an open transaction; no event of it becomes visible. An INSERT or micro-batch that holds it fails.",
    (TABLE, _TRANSACTION, DRY_RUN),
    (
        _ID,
        column("state", StringType(), "what the server said about it before", nullable=False),
        column("aborted", BooleanType(), "whether it was done", nullable=False),
    ),
    "READ_UPDATE on the stream",
)
def abort_transaction(call: Call) -> Rows:
    pravega, stream, transaction = call.catalog.pravega, call.find_stream(), _parse_transaction_id(call)
    rejoined = rejoin(pravega, stream, transaction)
    status = rejoined.status()
    if status is TransactionStatus.UNKNOWN:
        raise _make_unknown_error(stream, transaction)
    if status in (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED):
        raise errors.TransactionNotOpenError(
            f"Transaction {transaction} on stream {stream} cannot be aborted: it is {status.name.lower()}."
        )
    aborted = not call.is_set(DRY_RUN)
    if aborted:
        rejoined.abort()
    yield str(transaction), status.name.lower(), aborted


def _make_unknown_error(stream: Stream, transaction: uuid.UUID) -> errors.TransactionNotOpenError:
    return errors.TransactionNotOpenError(
        f"Stream {stream} has no transaction {transaction}, or it ended more than a day ago and is forgotten."
    )
