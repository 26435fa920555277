"""Metadata tables about time: versions, transactions to commit, consumers, tags, and all known stream cuts."""

from __future__ import annotations

import logging
from collections import deque

from pyspark.sql.types import IntegerType, LongType, StringType, TimestampType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import ConsumerStatus, list_consumers, list_reader_groups
from pyspark_pravega.client.single_append import is_append_id
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import find_watermarks_end, read_watermarks
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.positions.tags import Tags
from pyspark_pravega.errors import PermissionDeniedError

from .metadata_table import Rows, column, metadata_table

LOG = logging.getLogger(__name__)
MOST_WATERMARKS = 1000
"""Watermarks that are shown, the newest ones: there is one every ten seconds."""
_CUT = "a position, as Java's StreamCut.asText() writes it"
_OPERATION = column("operation", StringType(), "what committed it: INSERT, UPDATE, DELETE, MERGE, CTAS, STREAM")
_ROWS = column("rows", LongType(), "rows that it added, or changes that it made of them")


@metadata_table(
    column("version", LongType(), "counted from 1", nullable=False),
    column("committed_at", TimestampType(), "when it was published", nullable=False),
    _OPERATION,
    _ROWS,
    column("transaction", StringType(), "id of the Pravega transaction, or of a single append"),
    column("stream_cut", StringType(), "where it ends, as Java's StreamCut.asText() writes it", nullable=False),
    column("inserted", LongType(), "rows among them that it inserted, or that an INSERT replaced", nullable=False),
    column("updated", LongType(), "rows that it updated", nullable=False),
    column("deleted", LongType(), "rows that it deleted", nullable=False),
)
def history(pravega: Pravega, stream: Stream) -> Rows:
    for version in CommitLog(pravega, stream).versions():
        transaction = None if version.transaction is None else str(version.transaction)
        facts = version.number, version.timestamp, version.operation, version.rows, transaction, version.cut.to_text()
        yield *facts, *version.counts


@metadata_table(
    column("transaction", StringType(), "id of the Pravega transaction, or of a single append", nullable=False),
    column("state", StringType(), "what the server says: open, committing, committed, ...", nullable=False),
    column("place", IntegerType(), "in the queue of commits; the first one is being committed", nullable=False),
    _OPERATION,
    _ROWS,
)
def transactions(pravega: Pravega, stream: Stream) -> Rows:
    head = CommitLog(pravega, stream).head()
    if head is None:
        raise PermissionDeniedError(f"You may not read the commit log of stream {stream}, which lists transactions.")
    for number, entry in enumerate(head.queue, 1):
        id = entry.transaction
        state = "open" if is_append_id(id) else pravega.controller.transaction_status(stream, id).name.lower()
        yield str(id), state, number, entry.operation, entry.rows


@metadata_table(
    column("consumer", StringType(), "its name, or that of another client's reader group", nullable=False),
    column("scope", StringType(), "the scope that it is in", nullable=False),
    column("holding", StringType(), "how events are held: manual is a consumer's way; none", nullable=False),
    column("stream_cut", StringType(), "where it is; what lies before it may be truncated if it is a consumer's"),
    column("bytes_behind", LongType(), "from there to the tail"),
)
def consumers(pravega: Pravega, stream: Stream) -> Rows:
    for consumer in list_reader_groups(pravega, stream):
        cut = None if consumer.position is None else consumer.position.to_text()
        yield consumer.name, consumer.scope, consumer.holding.name.lower(), cut, consumer.bytes_behind


@metadata_table(
    column("tag", StringType(), "a name that VERSION AS OF takes", nullable=False),
    column("version", LongType(), "the one that ends there, if one does"),
    column("created_at", TimestampType(), "when the tag was made", nullable=False),
    column("stream_cut", StringType(), _CUT, nullable=False),
)
def tags(pravega: Pravega, stream: Stream) -> Rows:
    for tag in Tags(pravega, stream).all():
        yield tag.name, tag.version, tag.created, tag.cut.to_text()


@metadata_table(
    column("kind", StringType(), "head, tail, tag, consumer or watermark", nullable=False),
    column("name", StringType(), "of a tag or consumer"),
    column("writer_time", LongType(), "of a watermark, in its writers' own unit"),
    column("stream_cut", StringType(), _CUT, nullable=False),
)
def stream_cuts(pravega: Pravega, stream: Stream) -> Rows:
    log = CommitLog(pravega, stream)
    yield "head", None, None, pravega.controller.head(stream).to_text()
    tail = log.measure_settled(lambda until: until or measure_tail(pravega, stream))
    yield "tail", None, None, tail.to_text()
    for tag in Tags(pravega, stream).all():
        yield "tag", tag.name, None, tag.cut.to_text()
    for consumer in _list_visible_consumers(pravega, stream):
        if consumer.position is not None:
            yield "consumer", consumer.name, None, consumer.position.to_text()
    marks = read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))
    for _, mark in deque(marks, MOST_WATERMARKS):
        yield "watermark", None, mark.time, StreamCut(stream, mark.positions).to_text()


def _list_visible_consumers(pravega: Pravega, stream: Stream) -> list[ConsumerStatus]:
    """Return the consumers; none for a user who may only read, to whom the server shows none."""
    try:
        return list_consumers(pravega, stream)
    except PermissionDeniedError as error:
        LOG.debug("The consumers are left out: %s", error)
        return []
