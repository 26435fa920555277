"""Makes a table forget which micro-batches of a query are in it, and lets no run go on that does not know of it."""

from __future__ import annotations

import uuid
from dataclasses import replace

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.controller.controller import TransactionStatus
from pyspark_pravega.client.key_value.table import Entry as Stored
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError

from ..commit_log import CommitLog
from .ledger import KEPT_RUNS, RESET, Recorded, recorded, row_number, writer_of_query

_IN_FLIGHT = (TransactionStatus.OPEN, TransactionStatus.COMMITTING)


def row_of_query(log: CommitLog, stream: Stream, query: str) -> Recorded:
    """Return what a stream knows of a query. Raises InvalidOptionError if it knows nothing, naming others."""
    rows = recorded(log)
    for row in rows:
        if row.writer == writer_of_query(query):
            return row
    prefix = writer_of_query("")
    known = [row.writer.removeprefix(prefix) for row in rows if row.writer.startswith(prefix)]
    raise InvalidOptionError(
        f"Stream {stream} has no micro-batches of a query '{query}'. "
        + (f"It has those of {', '.join(known)}." if known else "No streaming query has written to it.")
    )


def reset(pravega: Pravega, stream: Stream, log: CommitLog, seen: Recorded) -> None:
    """Forget the micro-batches in a row that is as `seen`; what they have written stays.

    A run that goes on is refused at its next commit. Raises UnsupportedOperationError if the row has changed since, or
    its last micro-batch is being committed.
    """
    if not seen.done and seen.transaction is not None:
        status = pravega.controller.transaction_status(stream, seen.transaction)
        if status in _IN_FLIGHT:
            raise UnsupportedOperationError(
                f"Micro-batch {seen.epoch} of {seen.writer} is being committed to stream {stream}, or its driver died "
                f"then: transaction {seen.transaction} is {status.name.lower()}. Stop the query, or start it once "
                "more, which brings the micro-batch to its end; then reset it."
            )

    def change(stored: Stored | None, origin: int) -> bytes:
        row = None if stored is None else Recorded.read(stored.value)
        if row is None or row.origin != origin or row.state != seen.state:
            raise UnsupportedOperationError(
                f"{seen.writer[:1].upper()}{seen.writer[1:]} has written to stream {stream} in this moment. Stop it "
                "before it is reset."
            )
        runs = (*row.runs, f"{RESET}{uuid.uuid4()}")[-KEPT_RUNS:]
        empty = Recorded(row.writer, origin)
        return replace(empty, runs=runs).value()

    log.replace_beside(row_number(seen.writer), change)
