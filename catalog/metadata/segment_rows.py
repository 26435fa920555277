"""Metadata tables about segments: those that have events, and how the stream was scaled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import pyspark.sql.types as T

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.stream import SegmentRange, Stream, get_segment_epoch, get_segment_number, make_segment_name
from pyspark_pravega.errors import PermissionDeniedError, SegmentNotFoundError, StreamNotFoundError

from .metadata_table import Rows, column, metadata_table

R = TypeVar("R")


@metadata_table(
    column("segment", T.StringType(), "name, as the hidden column _segment has it", nullable=False),
    column("segment_id", T.LongType(), "epoch and number in one", nullable=False),
    column("number", T.IntegerType(), "counts the segments of the stream from 0", nullable=False),
    column("epoch", T.IntegerType(), "the epoch that made it", nullable=False),
    column("key_range_start", T.DoubleType(), "where its part of the key space begins; null without the right"),
    column("key_range_end", T.DoubleType(), "where that part ends; excluded, except for 1.0"),
    column("sealed", T.BooleanType(), "whether it takes no more events", nullable=False),
    column("start_offset", T.LongType(), "bytes before it are truncated", nullable=False),
    column("end_offset", T.LongType(), "bytes that were ever appended", nullable=False),
    column("bytes", T.LongType(), "that still exist", nullable=False),
    column("created_at", T.TimestampType(), "when it was made"),
)
def segments(pravega: Pravega, stream: Stream) -> Rows:
    current = {segment.segment_id: segment for segment in pravega.controller.current_segments(stream)}
    ids = sorted({*pravega.controller.list_segments_between(pravega.controller.head(stream), None)[0], *current})
    infos = pravega.segments.segment_infos(stream, ids)
    ranges = current | _find_ranges(
        pravega, stream, {get_segment_epoch(segment_id) for segment_id in ids if segment_id not in current}
    )
    creation_times = _read_creation_times(pravega, stream, infos)
    for segment_id in ids:
        info, covers = infos.get(segment_id), ranges.get(segment_id)
        if info is not None:
            yield (
                make_segment_name(stream, segment_id),
                segment_id,
                get_segment_number(segment_id),
                get_segment_epoch(segment_id),
                None if covers is None else covers.min_key,
                None if covers is None else covers.max_key,
                info.sealed,
                info.start_offset,
                info.write_offset,
                info.write_offset - info.start_offset,
                creation_times[segment_id],
            )


def _find_ranges(pravega: Pravega, stream: Stream, epochs: Iterable[int]) -> dict[int, SegmentRange]:
    """Return the segments of these epochs; none if the user may not ask for them, which needs the right to write."""
    try:
        by_epoch = _ask_for_each(epochs, partial(pravega.controller.epoch_segments, stream))
        return {segment.segment_id: segment for segments in by_epoch.values() for segment in segments}
    except PermissionDeniedError:
        return {}


def _read_creation_times(pravega: Pravega, stream: Stream, ids: Iterable[int]) -> dict[int, int | None]:
    """Return when segments were made, in microseconds since 1970; None for those that are gone."""

    def read_creation(segment_id: int) -> int | None:
        try:
            milliseconds = pravega.segments.creation_times(stream, [segment_id])[segment_id]
        except SegmentNotFoundError:
            return None
        return None if milliseconds is None else milliseconds * 1000

    return _ask_for_each(ids, read_creation)


def _ask_for_each(numbers: Iterable[int], ask: Callable[[int], R]) -> dict[int, R]:
    """Ask the servers for several epochs or segments at once; return the answers in the order of the numbers."""
    ordered = sorted(numbers)
    return dict(zip(ordered, cancellation.map_side_by_side(ask, ordered), strict=True))


@metadata_table(
    column("epoch", T.IntegerType(), "0 is the creation of the stream", nullable=False),
    column("scaled_at", T.TimestampType(), "when its segments were made; null if they are gone, or none was new"),
    column("segments", T.IntegerType(), "that take events in this epoch", nullable=False),
    column("splits", T.IntegerType(), "segments that became several", nullable=False),
    column("merges", T.IntegerType(), "segments that several became", nullable=False),
    column("sealed_segments", T.ArrayType(T.LongType(), False), "ids of those that ended", nullable=False),
    column("created_segments", T.ArrayType(T.LongType(), False), "ids of those that began", nullable=False),
)
def scale_events(pravega: Pravega, stream: Stream) -> Rows:
    ids, _ = pravega.controller.list_segments_between(pravega.controller.head(stream), None)
    last = max(map(get_segment_epoch, ids), default=0)
    epochs = _ask_for_each(range(last + 1), partial(pravega.controller.epoch_segments, stream))
    while (later := _find_epoch(pravega, stream, max(epochs) + 1)) is not None:
        epochs[max(epochs) + 1] = later
    every = {segment.segment_id for segments in epochs.values() for segment in segments}
    creation_times = _read_creation_times(pravega, stream, every)
    before: Sequence[SegmentRange] = ()
    for epoch, segments in epochs.items():
        ended = [segment for segment in before if segment not in segments]
        begun = [segment for segment in segments if segment not in before]
        times = [time for segment in begun if (time := creation_times[segment.segment_id]) is not None]
        splits = sum(sum(_has_overlap(one, other) for other in begun) > 1 for one in ended)
        merges = sum(sum(_has_overlap(one, other) for other in ended) > 1 for one in begun)
        yield (
            epoch,
            min(times, default=None),
            len(segments),
            splits,
            merges,
            sorted(segment.segment_id for segment in ended),
            sorted(segment.segment_id for segment in begun),
        )
        before = segments


def _find_epoch(pravega: Pravega, stream: Stream, epoch: int) -> list[SegmentRange] | None:
    """Return the segments of an epoch, which may be those of the epoch before; None if there is no such epoch."""
    try:
        return pravega.controller.epoch_segments(stream, epoch)
    except StreamNotFoundError:
        return None


def _has_overlap(one: SegmentRange, other: SegmentRange) -> bool:
    return one.min_key < other.max_key and other.min_key < one.max_key
