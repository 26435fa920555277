"""Reads a batch scan: one task reads and decodes each segment slice, and reading it again gives the same rows."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES, BrokenFrameError
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader, Window
from pyspark_pravega.client.stream import make_segment_name
from pyspark_pravega.errors import MalformedEventError, format_count
from pyspark_pravega.formats.core.format import Decoder

from ..positions.snapshot import SegmentSlice
from ..workers.connections import borrow_connection
from .counts import Counts, ReadingCounts
from .dead_letter_stream import DeadLetters
from .division import PartSize
from .event_plan import EventScanPlan
from .lake_reader import LakePartition, read_lake
from .noted_borders import BorderNotes, NotedBorders
from .places import Span
from .planned_scan import PlannedReader
from .slice_decoder import SliceDecoder, make_event_decoder

LOG = logging.getLogger(__name__)

BATCH_EVENTS = 32_768
BATCH_BYTES = 4 << 20
SMALL_BYTES = 256 << 10
"""Bytes of slices that one task always reads together: about what it reads while Spark starts another task."""
MODERATE_BYTES = 16 << 20
"""The most bytes of slices that one task reads together. With more, a large cluster would have too few tasks."""
LARGE_BYTES = 64 << 20
"""The same if the number of cores is known: a failed task reads that much again."""
ENOUGH_TASKS = 16
"""The tasks of a scan, before larger slices share one, if the number of cores is unknown."""
TASKS_OF_A_CORE = 2
"""The same if it is known. With fewer, cores would wait for the last task; with more, Spark mostly starts tasks."""
FEW_BYTES = 64 << 10
"""Bytes of a slice that are read first if a few rows may be enough: often all that is needed."""
_AHEAD = 8
"""The slices after the present one whose first bytes are fetched: where each has little, a task mostly waits."""
_FEWEST_EVENTS = 256
_GROWTH = 4
"""Events that are decoded together at first if a few rows may be enough, and their growth with each window."""


@dataclass
class SlicePartition(InputPartition):
    """A segment slice, the endpoint of its segment, and a token to read it. `span`: only its events are wanted.

    `is_noted`: the slice may begin or end at a border that an earlier scan has noted. With `head`, where the segment
    begins, the task notes borders in it.
    """

    piece: SegmentSlice
    endpoint: Endpoint
    token: str = field(repr=False)
    span: Span | None = None
    is_noted: bool = False
    head: int | None = None

    @property
    def read(self) -> SegmentSlice:
        """Return the slice that is read, except for the rest of its last event."""
        return self.piece if self.span is None else replace(self.piece, end=self.span.last + 1)


@dataclass
class SmallSlices(InputPartition):
    """Slices that one task reads one after another, because a separate task costs more than reading a slice."""

    slices: tuple[SlicePartition | LakePartition, ...]


@dataclass(frozen=True)
class Sharing:
    """How the slices of a scan share tasks.

    Spark can run as many tasks at once as it has `cores`; None if that is unknown. A query may want `least` tasks, and
    `most` bytes in each. With `any_order`, its result is the same in whatever order tasks come to their ends, so that
    large segments are divided for all cores without a wish.
    """

    cores: int | None = None
    least: int | None = None
    most: int | None = None
    any_order: bool = False

    def find_part_size(self, slices: Sequence[SegmentSlice]) -> PartSize | None:
        """Return into how large parts slices should be divided; None if they need not be."""
        total = sum(piece.end - piece.start for piece in slices)
        if self.least is not None:
            share: int | None = max(-(-total // self.least), 1)
        elif self.most is None and self.cores is not None and self.any_order:
            share = max(total // (self.cores * TASKS_OF_A_CORE), MODERATE_BYTES)
        else:
            share = None
        sizes = [size for size in (share, self.most) if size is not None]
        evenly = share is not None and (self.most is None or 2 * share <= self.most)
        return PartSize(min(sizes), evenly, by_log=self.least is not None or self.most is not None) if sizes else None

    def group(self, slices: Sequence[SlicePartition | LakePartition]) -> list[ScanPartition]:
        """Return partitions for slices: neighbours share one as long as they are small together.

        Only neighbours do, because Spark returns rows in the order of the partitions: from the oldest event to the
        newest. "Small" depends on the size of the scan, or one of many segments would mostly start and end tasks.
        """
        enough_tasks, largest = (
            (ENOUGH_TASKS, MODERATE_BYTES) if self.cores is None else (self.cores * TASKS_OF_A_CORE, LARGE_BYTES)
        )
        total = sum(partition.read.end - partition.read.start for partition in slices)
        # A little more than an equal share, or one task would be left over.
        small_bytes = min(max(SMALL_BYTES, total * 9 // (8 * enough_tasks)), largest)
        partitions = _join_neighbours(slices, small_bytes if self.most is None else min(small_bytes, self.most))
        if self.least is not None and len(partitions) < self.least:
            return _join_neighbours(slices, min(SMALL_BYTES, total // self.least))
        return partitions


def _join_neighbours(slices: Sequence[SlicePartition | LakePartition], most: int) -> list[ScanPartition]:
    partitions: list[ScanPartition] = []
    small: list[SlicePartition | LakePartition] = []
    size = 0

    def close() -> None:
        if small:
            partitions.append(SmallSlices(tuple(small)) if len(small) > 1 else small[0])
            small.clear()

    for piece in slices:
        length = piece.read.end - piece.read.start
        # A micro-batch has a segment's events in one task: those of the lake, and what follows them in the stream.
        before = small[-1] if small and isinstance(small[-1], LakePartition) else None
        follows = before is not None and before.in_order and before.read.segment_id == piece.read.segment_id
        if size + length > most and not follows:
            close()
            size = 0
        small.append(piece)
        size += length
    close()
    return partitions


ScanPartition: TypeAlias = SlicePartition | LakePartition | SmallSlices


class SegmentScanReader(PlannedReader[EventScanPlan, ScanPartition]):
    """One partition for each slice, with its events in order; small slices share a partition."""

    def __init__(
        self, plan: EventScanPlan, slices: Sequence[SlicePartition | LakePartition], sharing: Sharing = Sharing()
    ) -> None:
        super().__init__(plan, sharing.group(slices))

    def batches(self, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
        """Read the events of one slice, or of several small ones."""
        slices, left = list_slices(partition), self.plan.limit
        is_in_lake = all(isinstance(piece, LakePartition) for piece in slices)
        decoder = None if is_in_lake else make_event_decoder(self.plan)
        with ExitStack() as opened:
            pravega = opened.enter_context(borrow_connection(self.plan.config))
            opened.callback(self.plan.writer_schemas.close)
            if self.plan.config.registry_uri is not None:
                self.plan.writer_schemas.ask(pravega.registry(self.plan.table.stream.scope))
            readers = {
                number: _make_reader(self.plan, pravega, piece)
                for number, piece in enumerate(slices)
                if isinstance(piece, SlicePartition)
            }
            for reader in readers.values():
                opened.callback(reader.close)
            for number, piece in enumerate(slices):
                for following in range(number + 1, number + 1 + (0 if _is_for_few(self.plan) else _AHEAD)):
                    if following in readers:
                        readers[following].begin()
                try:
                    left = yield from _read_slice(self.plan, pravega, decoder, piece, readers.get(number), left)
                except MalformedEventError as error:
                    if isinstance(piece, LakePartition) or not piece.is_noted:
                        raise
                    borders = NotedBorders(pravega, self.plan.table.stream)
                    raise borders.doubt(piece.piece.segment_id, error) from None
                if left == 0:
                    break


def list_slices(partition: ScanPartition) -> tuple[SlicePartition | LakePartition, ...]:
    """Return the slices of a partition, in order."""
    return partition.slices if isinstance(partition, SmallSlices) else (partition,)


def _is_for_few(plan: EventScanPlan) -> bool:
    return plan.few or plan.limit is not None


def _make_reader(plan: EventScanPlan, pravega: Pravega, partition: SlicePartition) -> SegmentRangeReader:
    """Return the reader of a slice's events. Nothing is read yet."""
    piece, span = partition.piece, partition.span
    pravega.segments.seed(plan.table.stream, partition.token, {piece.segment_id: partition.endpoint})
    stop = None if span is None else span.last + 1
    return make_range_reader(plan, pravega, piece, FEW_BYTES if _is_for_few(plan) else None, stop)


def make_range_reader(
    plan: EventScanPlan, pravega: Pravega, piece: SegmentSlice, first_bytes: int | None = None, stop: int | None = None
) -> SegmentRangeReader:
    """Return the reader of a slice's events as the plan has them read; see `SegmentRangeReader`."""
    return SegmentRangeReader(
        pravega.segments,
        plan.table.stream,
        piece.segment_id,
        piece.start,
        piece.end,
        window_bytes=plan.window_bytes,
        fail_on_data_loss=plan.fail_on_data_loss,
        first_bytes=first_bytes,
        stop=stop,
    )


def _read_slice(
    plan: EventScanPlan,
    pravega: Pravega,
    events: Decoder | None,
    partition: SlicePartition | LakePartition,
    reader: SegmentRangeReader | None,
    left: int | None,
) -> Generator[pa.RecordBatch, None, int | None]:
    """Yield the rows of a slice, at most `left` of them; return how many may follow from other slices.

    A slice of a segment has a reader; that of a lake has none.
    """
    piece, span = (partition.read, None) if isinstance(partition, LakePartition) else (partition.piece, partition.span)
    segment = make_segment_name(plan.table.stream, piece.segment_id)
    with ExitStack() as opened:
        letters = None
        if plan.bad_events.dead_letter is not None:
            work = None if plan.query is None else f"{plan.query} {segment} {piece.start} {piece.end}"
            letters = DeadLetters(pravega, plan.bad_events, plan.table.stream, piece.segment_id, work)
            opened.callback(letters.close)
        decoder = SliceDecoder(plan, events, segment, letters, span)
        decoder.left = left
        if isinstance(partition, LakePartition):
            yield from read_lake(plan, decoder, partition)
        else:
            assert reader is not None
            yield from _read_segment(plan, pravega, decoder, partition, reader)
        if decoder.bad:
            bad = format_count(decoder.bad, "bad event")
            LOG.warning("Segment %s: %s, mode %s.", segment, bad, plan.bad_events.mode)
    return decoder.left


def _read_segment(
    plan: EventScanPlan, pravega: Pravega, decoder: SliceDecoder, partition: SlicePartition, reader: SegmentRangeReader
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice of a segment, as many as the decoder has `left`."""
    piece, span = partition.piece, partition.span
    most = max(decoder.left or 0, _FEWEST_EVENTS) if _is_for_few(plan) else BATCH_EVENTS
    broken: list[BrokenFrameError] = []
    counts, notes = ReadingCounts(reader), BorderNotes(piece.start)
    for window in _read_until_broken(reader, broken):
        if plan.counted:  # before its rows, as Spark may want only a few of them
            yield decoder.report(counts.count(window))
        notes.take(window)
        begin, end = (0, len(window.lengths)) if span is None else _find_within(window, span)
        for first, last in cut_chunks(window.lengths[begin:end], most):
            yield from decoder.batches(window, begin + first, begin + last)
        if decoder.left == 0:
            break
        most *= _GROWTH
    if partition.head is not None and notes.borders and not broken:
        told = NotedBorders(pravega, plan.table.stream).add(piece.segment_id, partition.head, notes.borders)
        if told and plan.counted:
            yield decoder.report(Counts(), told)
    for error in broken:
        yield from decoder.replace_unreadable(error.offset, piece.end, error.message)


def _find_within(window: Window, span: Span) -> tuple[int, int]:
    """Return the first and the end number of a window's events that lie in a span."""
    offsets = window.base + window.starts - HEADER_BYTES
    return int(np.searchsorted(offsets, span.first)), int(np.searchsorted(offsets, span.last, side="right"))


def _read_until_broken(reader: SegmentRangeReader, broken: list[BrokenFrameError]) -> Iterator[Window]:
    """Yield the windows before the first bytes that are not an event, and append their error to `broken`."""
    try:
        yield from reader
    except BrokenFrameError as error:
        broken.append(error)


def cut_chunks(
    lengths: np.ndarray[Any, np.dtype[np.int64]], most: int = BATCH_EVENTS, size: int = BATCH_BYTES
) -> Iterator[tuple[int, int]]:
    """Cut a window into runs of events that make batches of a good size; yield the first and the end of each."""
    events = min(most, BATCH_EVENTS)
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        done = int(ends[first - 1]) if first else 0
        by_bytes = int(np.searchsorted(ends, done + size, side="right"))
        last = max(first + 1, min(by_bytes, first + events, len(lengths)))
        yield first, last
        first = last
