"""Fixes what a scan will read, once, at planning: a byte range of every segment between two stream cuts.

A commit merges a transaction segment by segment, so lengths that are read meanwhile can include a part of it. The
commit log says which transactions are being committed; lengths that were measured during a commit are measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.segments.store import SegmentInfo
from pyspark_pravega.client.stream import Stream, get_segment_epoch
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import DataLossError, InvalidOptionError

from .lake_history import History

BEYOND = 1 << 63
"""An offset behind the end of every segment."""


@dataclass(frozen=True)
class SegmentSlice:
    """Bytes `start` to `end` of one segment, both on event boundaries."""

    segment_id: int
    start: int
    end: int


def take_snapshot(
    pravega: Pravega,
    stream: Stream,
    cuts: tuple[StreamCut | None, StreamCut | None],
    *,
    fail_on_data_loss: bool,
    measure_settled: Callable[[Callable[[StreamCut | None], list[SegmentSlice]]], list[SegmentSlice]] | None = None,
    history: History | None = None,
) -> list[SegmentSlice]:
    """Return the non-empty slices between two cuts; None stands for the stream's present head and tail.

    `measure_settled` runs a measurement, to the tail or to a cut that it gives, that sees no transaction in part. It is
    left out where that does not matter. What is left of a `history` counts as part of the stream.
    Raises DataLossError when `start` lies before the stream's head and `fail_on_data_loss`, StreamNotFoundError,
    PermissionDeniedError, InvalidOptionError for cuts that are not of this stream or in the wrong order.
    """
    start, end = cuts
    named = [(name, cut) for name, cut in (("start-stream-cut", start), ("end-stream-cut", end)) if cut is not None]
    map_side_by_side(lambda pair: check_cut(pravega, stream, *pair), named)
    measure_all = partial(measure_segments, pravega, stream, start=start, history=history)

    def measure(until: StreamCut | None) -> list[SegmentSlice]:
        return drop_empty(measure_all(until, fail_on_data_loss=fail_on_data_loss))

    return measure(end) if end is not None or measure_settled is None else measure_settled(measure)


def check_cut(pravega: Pravega, stream: Stream, name: str, cut: StreamCut) -> None:
    """Raise InvalidOptionError if the cut that an option names is not a position in a stream."""
    if cut.stream != stream:
        raise InvalidOptionError(
            f"'{name}' is a cut of stream {cut.stream}, but the table is stream {stream}. Give a cut of that stream."
        )
    if not pravega.known_streams.is_cut(cut):
        raise InvalidOptionError(
            f"'{name}' {cut} is not a position in stream {stream}: its segments do not cover the stream's key space "
            "exactly once. Was the stream dropped and recreated since?"
        )


def check_order(pravega: Pravega, start: StreamCut, end: StreamCut) -> None:
    """Raise InvalidOptionError if the start of a read lies behind its end, even in a single segment."""
    try:
        pravega.controller.list_segments_between(start, end)
    except InvalidOptionError as error:
        raise _make_order_error(error) from None


def measure_tail(pravega: Pravega, stream: Stream, segments: Sequence[int] = ()) -> StreamCut:
    """Measure where the stream ends now; `CommitLog.measure_settled` keeps the end out of transactions.

    A sealed stream ends with its last segments. `segments` are segments that were current. They still are while none
    of them is sealed, and then the controller is not asked.
    """
    infos = pravega.segments.segment_infos(stream, segments) if segments else {}
    if len(infos) < max(len(segments), 1) or any(info.sealed for info in infos.values()):
        ids = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        infos = pravega.segments.segment_infos(stream, ids or _find_last_segments(pravega, stream))
    return StreamCut(stream, {segment_id: info.write_offset for segment_id, info in infos.items()})


def _find_last_segments(pravega: Pravega, stream: Stream) -> list[int]:
    """Return the segments of a sealed stream that have no successors."""
    segments, _ = pravega.controller.list_segments_between(pravega.controller.head(stream), None)

    def is_last(segment: int) -> bool:
        return not pravega.controller.successors(stream, segment)

    return list(compress(segments, map_side_by_side(is_last, segments)))


def measure_segments(
    pravega: Pravega,
    stream: Stream,
    end: StreamCut | None = None,
    *,
    start: StreamCut | None = None,
    history: History | None = None,
    fail_on_data_loss: bool = False,
) -> list[SegmentSlice]:
    """Return the slices of a stream and its history between two cuts, with those of segments that have no events.

    None stands for the present head and tail. With `fail_on_data_loss`, it raises DataLossError for removed events.
    """
    whole = StreamCut(stream, {})  # everything before the head was truncated or removed
    is_whole = start is None and end is None and history is None
    if is_whole and (known_infos := pravega.known_streams.segment_infos(stream)) is not None:
        return [_slice(stream, segment_id, info, whole, None) for segment_id, info in sorted(known_infos.items())]
    begin = None if history is None else history.begin
    first = start or begin or pravega.controller.head(stream)
    strict = fail_on_data_loss and start is not None  # from the head on, this query loses nothing
    infos = pravega.known_streams.find_infos_between(start, end) if start is not None and end is not None else None
    if infos is not None:
        segments = list(infos)
    else:
        try:
            segments, token = pravega.controller.list_segments_between(first, end)
        except InvalidOptionError as error:
            if start is not None:
                raise _make_order_error(error) from None
            # The head has passed the end, at least in part. The segments show what is left before the end.
            first = whole
            segments, token = pravega.controller.list_segments_between(first, end)
        pravega.segments.seed_token(stream, token)
        infos = pravega.segments.segment_infos(stream, segments)
        if is_whole:
            pravega.known_streams.learn_segments(stream, segments, infos)
    in_both = infos if history is None else history.widen(segments, infos)
    slices = []
    for segment_id in sorted(segments):
        info = in_both.get(segment_id)
        gap = None if history is None else history.find_gap(segment_id, infos.get(segment_id))
        if history is not None and gap is not None:
            (gap_start, gap_end), before = gap, first.positions.get(segment_id, 0)
            after = BEYOND if end is None else find_end_within(segment_id, end)
            if fail_on_data_loss and after > gap_start and (gap_end is None or before < gap_end):
                raise _make_lost_error(
                    f"bytes from {gap_start} on of segment {segment_id} of stream {stream} were removed"
                )
            tiered, _ = history.ranges.get(segment_id, (gap_start, gap_start))
            slices += drop_empty([SegmentSlice(segment_id, max(before, tiered), min(after, gap_start))])
            if info is None or after <= info.start_offset:
                continue
        if info is None:
            if strict:
                raise _make_lost_error(f"segment {segment_id} of stream {stream} was removed")
            continue
        if start is not None:
            _check_start(stream, segment_id, info, start, strict and gap is None)
        slices.append(_slice(stream, segment_id, info, first, end))
    if fail_on_data_loss and not drop_empty(slices) and not first.positions and history is None:
        raise _make_lost_error(f"all events of stream {stream} up to the requested end were removed")
    return slices


def drop_empty(slices: Iterable[SegmentSlice]) -> list[SegmentSlice]:
    """Return the slices that have events."""
    return [piece for piece in slices if piece.end > piece.start]


def _make_order_error(error: InvalidOptionError) -> InvalidOptionError:
    # Each may come from a stream cut, a version, a time, or "latest".
    return InvalidOptionError(
        f"The options for the start and the end of the read contradict each other: {error.message}. Choose an end "
        "after the start."
    )


def _check_start(stream: Stream, segment_id: int, info: SegmentInfo, start: StreamCut, strict: bool) -> None:
    begin = start.positions.get(segment_id, 0)
    if strict and begin < info.start_offset:
        raise _make_lost_error(
            f"bytes {begin} to {info.start_offset} of segment {segment_id} of stream {stream} were truncated"
        )
    if begin > info.write_offset:
        raise _make_beyond_end_error("start-stream-cut", begin, stream, segment_id, info)


def _slice(stream: Stream, segment_id: int, info: SegmentInfo, first: StreamCut, end: StreamCut | None) -> SegmentSlice:
    begin = max(first.positions.get(segment_id, 0), info.start_offset)
    stop = info.write_offset
    if end is not None and segment_id in end.positions:
        stop = end.positions[segment_id]
        if stop > info.write_offset:
            raise _make_beyond_end_error("end-stream-cut", stop, stream, segment_id, info)
    return SegmentSlice(segment_id, begin, stop)


def _make_beyond_end_error(
    option: str, offset: int, stream: Stream, segment_id: int, info: SegmentInfo
) -> InvalidOptionError:
    return InvalidOptionError(
        f"'{option}' asks for offset {offset} of segment {segment_id} of stream {stream}, which ends at "
        f"{info.write_offset}."
    )


def _make_lost_error(what: str) -> DataLossError:
    return DataLossError(
        f"{what[0].upper()}{what[1:]}, which this query has not read yet. Start later, or set "
        "'fail-on-data-loss' to false to read what is left."
    )


def cut_slices(slices: Iterable[SegmentSlice], tail: Mapping[int, int]) -> list[SegmentSlice]:
    """Return the slices as an earlier scan with the same start saw them: it ended at `tail` (by segment id)."""
    return drop_empty(replace(piece, end=min(piece.end, tail.get(piece.segment_id, 0))) for piece in slices)


@dataclass(frozen=True, eq=False)
class EndCut(StreamCut):
    """A cut that a user has chosen, at which the stream need not have ended at any time.

    `before` are segments that lie completely before it. Other segments that it does not name lie after it.
    """

    before: frozenset[int] = frozenset()


def find_end_within(segment: int, cut: StreamCut) -> int:
    """Return how much of a segment lies before the cut of a tail, or an EndCut; BEYOND if it lies before completely."""
    if segment in cut.positions:
        return cut.positions[segment]
    if isinstance(cut, EndCut):
        return BEYOND if segment in cut.before else 0
    # The cut of a tail names a segment of the newest epoch. Other segments were sealed before, or made later.
    later = get_segment_epoch(segment) > max(map(get_segment_epoch, cut.positions), default=-1)
    return 0 if later else BEYOND
