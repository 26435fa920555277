"""Real-time mode: tasks follow their segments for the length of a batch, and yield rows as events are appended.

The adapter passes the end of a batch to its tasks by a local property. Every row carries how far the segment has been
read with it, because Spark may stop taking rows in the middle of an Arrow batch.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from pyspark_pravega.client.segments.event_frames import BrokenFrameError, split
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.follower import SegmentFollower
from pyspark_pravega.client.segments.range_reader import MAX_READ_EVENT, Window
from pyspark_pravega.errors import MalformedEventError

from ..scan.dead_letter_stream import DeadLetters
from ..scan.event_plan import EventScanPlan
from ..scan.planned_scan import PlannedReader, PlannedScan, RowSource
from ..scan.reader import SegmentScanReader, SlicePartition, cut_chunks, list_slices
from ..scan.slice_decoder import SliceDecoder, make_event_decoder
from ..workers.connections import borrow_connection

UNTIL = "pravega.real-time.until"
"""The local property with the end of the batch, in milliseconds since 1970."""

_PAUSE = 0.004
"""The least seconds from one read to the next: events that are appended meanwhile form one batch of rows."""

_LOOK_FOR_SCALING = 5.0
"""Seconds between looks at the other segments: if one is sealed, the next batch reads its successors."""


@dataclass(frozen=True)
class FollowPlan:
    """The plan of a real-time batch's tasks: how events become rows, and the segments that are followed."""

    scan: EventScanPlan
    segments: tuple[int, ...]


def follow(planned: PlannedScan) -> PlannedScan:
    """Return an endless scan of events of one stream, from the beginning of the slices on."""
    reader = planned.reader
    assert isinstance(reader, SegmentScanReader)
    plan = replace(reader.plan, counted=True, positioned=True)
    slices = [piece for partition in reader.planned for piece in list_slices(partition)]
    partitions = [piece for piece in slices if isinstance(piece, SlicePartition)]  # at the tail, where no lake is
    segments = tuple(partition.piece.segment_id for partition in partitions)
    source = RowSource(FollowingReader(FollowPlan(plan, segments), partitions), planned.source.schema, plan.output)
    return replace(planned, source=source, affinities=segments)


class FollowingReader(PlannedReader[FollowPlan, SlicePartition]):
    """One partition for each segment; all end when the batch ends, or when one of the segments is sealed."""

    def batches(self, partition: SlicePartition) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        until = None if context is None else context.getLocalProperty(UNTIL)
        assert until is not None, "the adapter's reader says when the batch ends"
        seconds = int(until) / 1000 - time.time()
        return _follow(self.plan, partition, time.monotonic() + seconds)


def _follow(plan: FollowPlan, partition: SlicePartition, until: float) -> Iterator[pa.RecordBatch]:
    scan, stream = plan.scan, plan.scan.table.stream
    segment_id, start = partition.piece.segment_id, partition.piece.start
    with ExitStack() as opened:
        pravega = opened.enter_context(borrow_connection(scan.config))
        opened.callback(scan.writer_schemas.close)
        pravega.segments.seed(stream, partition.token, {segment_id: partition.endpoint})
        address = SegmentAddress(stream, segment_id)
        letters = None
        if scan.bad_events.dead_letter is not None:
            letters = DeadLetters(pravega, scan.bad_events, stream, segment_id)
            opened.callback(letters.close)
        decoder = SliceDecoder(scan, make_event_decoder(scan), address.name, letters)
        follower = SegmentFollower(pravega.segments, address, start, fail_on_data_loss=scan.fail_on_data_loss)
        opened.callback(follower.close)
        events = _Events(address.name, start)
        yield decoder.report_reached(start)
        look = time.monotonic() + _LOOK_FOR_SCALING
        while not follower.sealed and (now := time.monotonic()) < until:
            if now >= look:
                infos = pravega.segments.segment_infos(stream, plan.segments)
                if len(infos) < len(plan.segments) or any(info.sealed for info in infos.values()):
                    break
                look = now + _LOOK_FOR_SCALING
                yield decoder.report_reached(events.reached)  # lets a task notice that its sink has failed
            expected = follower.offset
            data = follower.read(min(until, look))
            window = events.window(data, follower.offset - len(data), expected)
            if window is not None:
                for first, last in cut_chunks(window.lengths):
                    yield from decoder.batches(window, first, last)
            if data:
                time.sleep(max(now + _PAUSE - time.monotonic(), 0))
        if events.reached == start and follower.sealed:
            # In a sealed stream, or while other segments of a merge are being read, batches must not follow at once.
            time.sleep(max(min(look, until) - time.monotonic(), 0))
        yield decoder.report_reached(events.reached)


class _Events:
    """Cuts consecutive bytes into events."""

    def __init__(self, segment: str, start: int) -> None:
        self._segment = segment
        self._rest = b""
        self.reached = start
        """Where the first incomplete event begins."""

    def window(self, data: bytes | bytearray | memoryview, offset: int, expected: int) -> Window | None:
        """Return the events that these bytes, from `offset` on, complete. Bytes from `expected` to there were lost."""
        if offset != expected:
            self._rest, self.reached = b"", offset
        content = memoryview(self._rest + bytes(data))
        try:
            starts, lengths, consumed = split(content, 0, len(content), position=self.reached)
        except BrokenFrameError as error:
            raise self._make_malformed_error(error.message) from None
        base = self.reached
        self._rest = bytes(content[consumed:])
        self.reached = base + consumed
        if len(self._rest) >= 8 and struct.unpack_from(">i", self._rest, 4)[0] > MAX_READ_EVENT:
            raise self._make_malformed_error(f"the event at offset {self.reached:,} claims an impossible size")
        return Window(content, starts, lengths, base) if len(starts) else None

    def _make_malformed_error(self, reason: str) -> MalformedEventError:
        return MalformedEventError(
            f"Segment {self._segment} cannot be followed: {reason}. It is unknown where the next event begins. A query "
            "with another trigger can skip these bytes: see the read option 'mode'."
        )
