"""Seals the segments of a transaction, and says how long the tasks' reports want them to be."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import transaction_segment_id
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import TransactionNotOpenError

from ..commit_log.table import Content
from .outcomes import Unit, make_ended_error
from .reports import InsertMessage


def seal(pravega: Pravega, transaction: Transaction, unit: Unit) -> dict[int, int]:
    """Seal the segments of a transaction, so that no task can append any more; return their lengths.

    Raises TransactionNotOpenError if it has ended.
    """
    stream, ids = transaction.stream, [segment.segment_id for segment in transaction.segments]
    try:
        pravega.segments.seal_segments(stream, ids, transaction.id)
    except TransactionNotOpenError:
        raise make_ended_error(transaction, unit) from None
    infos = pravega.segments.segment_infos(stream, ids, transaction.id)
    if any(segment_id not in infos for segment_id in ids):
        raise make_ended_error(transaction, unit)
    return {transaction_segment_id(one, transaction.id): infos[one].write_offset for one in ids}


def add_reported_lengths(transaction: Transaction, messages: Iterable[InsertMessage]) -> dict[int, int]:
    """Return the lengths of the segments according to the reports of the tasks that succeeded."""
    lengths = {transaction_segment_id(segment.segment_id, transaction.id): 0 for segment in transaction.segments}
    for message in messages:
        for segment_id, written in message.segments.items():
            lengths[transaction_segment_id(segment_id, transaction.id)] += written.bytes
    return lengths


def content_of(messages: Iterable[InsertMessage]) -> Content:
    """Return the content that the tasks wrote to all segments together."""
    written = [write for message in messages for write in message.segments.values()]
    return Content(sum(write.events for write in written), sum(write.bytes for write in written))
