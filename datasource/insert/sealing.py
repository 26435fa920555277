"""Seals the segments of a transaction, and copies what the winning tasks wrote if failed attempts left bytes there.

A transaction commits as a whole, and a segment store does not remove bytes from the middle of a segment: so everything
is copied, into a new transaction, if anything foreign is there. The committing process does it, segments side by side,
in bounded memory.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.append_blocks import add_range
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.segments.store import SegmentInfo
from pyspark_pravega.client.stream import make_transaction_segment_id
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import PravegaError, TransactionMismatchError, TransactionNotOpenError

from ..commit_log.log_table import ChangeCounts, Content
from .outcomes import Unit
from .reports import InsertMessage


def seal(pravega: Pravega, transaction: Transaction) -> dict[int, int]:
    """Seal the segments of a transaction, so that no task can append any more; return their lengths.

    Raises TransactionNotOpenError if it has ended.
    """
    stream, ids = transaction.stream, [segment.segment_id for segment in transaction.segments]
    infos: Mapping[int, SegmentInfo] = {}
    with suppress(TransactionNotOpenError):
        pravega.segments.seal_segments(stream, ids, transaction.id)
        infos = pravega.segments.segment_infos(stream, ids, transaction.id)
    if any(segment_id not in infos for segment_id in ids):
        raise transaction.explain_end()
    return {make_transaction_segment_id(one, transaction.id): infos[one].write_offset for one in ids}


def add_reported_lengths(transaction: Transaction, messages: Iterable[InsertMessage]) -> dict[int, int]:
    """Return the lengths of the segments according to the reports of the tasks that succeeded."""
    lengths = {make_transaction_segment_id(segment.segment_id, transaction.id): 0 for segment in transaction.segments}
    for message in messages:
        for segment_id, written in message.segments.items():
            lengths[make_transaction_segment_id(segment_id, transaction.id)] += written.bytes
    return lengths


def add_up_content(messages: Iterable[InsertMessage]) -> Content:
    """Return the content that the tasks wrote to all segments together."""
    written = [write for message in messages for write in message.segments.values()]
    return Content(sum(write.events for write in written), sum(write.bytes for write in written))


def add_up_changes(messages: Iterable[InsertMessage]) -> ChangeCounts | None:
    """Return what the tasks did to rows together; None if they inserted all of them."""
    counts = [message.changes for message in messages if message.changes is not None]
    return ChangeCounts(*map(sum, zip(*counts, strict=True))) if counts else None


LOG = logging.getLogger(__name__)


_WINDOW_BYTES = 1 << 20
"""Bytes that are read at a time; a segment holds about three times as much for reading, and twice for appending."""


def copy_winners(
    pravega: Pravega, mixed: Transaction, messages: Sequence[InsertMessage], lease_ms: int, unit: Unit
) -> Transaction:
    """Return a new transaction with what the reports name, sealed; the `mixed` one, also sealed, stays as it is.

    Raises TransactionMismatchError if that cannot be done; then only the `mixed` transaction is left.
    """

    def make_error(why: str) -> TransactionMismatchError:
        return TransactionMismatchError(f"{why}. It was aborted. {unit.write_again}.")

    name = f"Transaction {mixed.id} on stream {mixed.stream}"
    if any(written.resumed for message in messages for written in message.segments.values()):
        raise make_error(f"{name} mixes bytes of failed attempts with those of the tasks that succeeded")
    fresh = Transaction.begin(pravega.controller, mixed.stream, lease_ms)
    fresh.keep_alive()
    try:
        if list(fresh.segments) != list(mixed.segments):
            raise make_error(
                f"Stream {mixed.stream} was scaled while transaction {mixed.id} held bytes of failed attempts"
            )
        _copy_segments(_Copying(pravega, mixed, fresh.id), find_winning_ranges(messages))
        if seal(pravega, fresh) != add_reported_lengths(mixed, messages):
            raise make_error(f"{name} does not hold what its tasks wrote")
    except PravegaError:
        fresh.abort()
        raise
    return fresh


def find_winning_ranges(messages: Iterable[InsertMessage]) -> dict[int, list[tuple[int, int]]]:
    """Return the ranges of each segment that hold the winners' bytes, in their order; adjacent ones are joined.

    So a segment is read in long runs, and each task's events keep their order.
    """
    winners: dict[int, list[tuple[int, int]]] = {}
    for message in messages:
        for segment_id, written in message.segments.items():
            winners.setdefault(segment_id, []).extend(written.ranges)
    joined: dict[int, list[tuple[int, int]]] = {segment_id: [] for segment_id in winners}
    for segment_id, ranges in winners.items():
        for start, end in sorted(ranges):
            add_range(joined[segment_id], start, end)
    return joined


@dataclass(frozen=True)
class _Copying:
    """A copy under way, which ends everywhere when it has `failed` for one segment."""

    pravega: Pravega
    mixed: Transaction
    target: uuid.UUID
    failed: threading.Event = field(default_factory=threading.Event)

    def copy(self, segment_id: int, ranges: Iterable[tuple[int, int]]) -> None:
        store, stream = self.pravega.segments, self.mixed.stream
        ahead = 2 * _WINDOW_BYTES
        with SegmentAppender(store, stream, segment_id, uuid.uuid4(), self.target, window_bytes=ahead) as appender:
            for start, end in ranges:
                windows = SegmentRangeReader(
                    store, stream, segment_id, start, end, transaction=self.mixed.id, window_bytes=_WINDOW_BYTES
                )
                for window in windows:
                    if self.failed.is_set():
                        return
                    first = int(window.starts[0]) - HEADER_BYTES
                    last = int(window.starts[-1] + window.lengths[-1])
                    appender.append(memoryview(window.data)[first:last], len(window.starts))
            appender.flush()


def _copy_segments(copying: _Copying, ranges: Mapping[int, Sequence[tuple[int, int]]]) -> None:
    """Copy ranges of all segments side by side."""
    began, mixed = time.monotonic(), copying.mixed

    def copy(segment_id: int) -> None:
        try:
            copying.copy(segment_id, ranges[segment_id])
        except BaseException:
            copying.failed.set()
            raise

    map_side_by_side(copy, ranges)
    size = sum(end - start for runs in ranges.values() for start, end in runs)
    LOG.warning(
        "Stream %s: failed attempts of tasks had written to transaction %s, too. %.0f MB of the others were copied "
        "in %.1f s.",
        mixed.stream,
        mixed.id,
        size / 1e6,
        time.monotonic() - began,
    )
