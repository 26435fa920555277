"""Metadata tables of commits: the versions of a table, and transactions that are being committed."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.errors import PermissionDeniedError

from .table import MetadataTable, Rows, column

_OPERATION = column("operation", StringType(), "what committed it: INSERT, CTAS, STREAM")
_ROWS = column("rows", LongType(), "rows that it added")


def _history(pravega: Pravega, stream: Stream) -> Rows:
    for version in CommitLog(pravega, stream).versions():
        transaction = None if version.transaction is None else str(version.transaction)
        yield version.number, version.timestamp, version.operation, version.rows, transaction, version.cut.to_text()


def _transactions(pravega: Pravega, stream: Stream) -> Rows:
    head = CommitLog(pravega, stream).head()
    if head is None:
        raise PermissionDeniedError(f"You may not read the commit log of stream {stream}, which lists transactions.")
    for place, entry in enumerate(head.queue, 1):
        state = pravega.controller.transaction_status(stream, entry.transaction).name.lower()
        yield str(entry.transaction), state, place, entry.operation, entry.rows


HISTORY = MetadataTable(
    "history",
    StructType(
        [
            column("version", LongType(), "counted from 1", nullable=False),
            column("committed_at", TimestampType(), "when it was published", nullable=False),
            _OPERATION,
            _ROWS,
            column("transaction", StringType(), "id of the Pravega transaction"),
            column("stream_cut", StringType(), "where it ends, as Java's StreamCut.asText() writes it", nullable=False),
        ]
    ),
    _history,
)
TRANSACTIONS = MetadataTable(
    "transactions",
    StructType(
        [
            column("transaction", StringType(), "id of the Pravega transaction", nullable=False),
            column("state", StringType(), "what the server says: open, committing, committed, ...", nullable=False),
            column("place", IntegerType(), "in the queue of commits; the first one is being committed", nullable=False),
            _OPERATION,
            _ROWS,
        ]
    ),
    _transactions,
)
