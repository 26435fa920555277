"""Event times of rows: never ahead of a segment that is behind, never back from one micro-batch to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client.stream import make_segment_id
from pyspark_pravega.client.watermarks import Watermark
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.event_times import EventTimes, has_passed

LEFT, RIGHT, MERGED = 0, 1, make_segment_id(2, 1)
RANGES = {LEFT: (0.0, 0.5), RIGHT: (0.5, 1.0), MERGED: (0.0, 1.0)}


def mark(time: int, **positions: int) -> Watermark:
    ids = {"left": LEFT, "right": RIGHT, "merged": MERGED}
    cut = {ids[name]: offset for name, offset in positions.items()}
    return Watermark(time, time, cut, {segment: RANGES[segment] for segment in cut})


MARKS = [mark(10, left=4, right=0), mark(20, left=6, right=2), mark(30, left=9, right=8), mark(40, merged=5)]


def times(found: EventTimes, segment: int, start: int, end: int) -> list[int | None]:
    """The times of events of one byte each, in milliseconds; each is a microsecond later."""
    lower = found.of(SegmentSlice(segment, start, end)).lower
    column = lower.column(np.arange(start, end), pa.timestamp("us", tz="UTC"))
    micros = column.cast(pa.int64()).to_pylist()
    assert all(micro % 1000 == 1 for micro in micros if micro is not None)
    return [None if micro is None else micro // 1000 for micro in micros]


def test_a_scan_has_the_newest_watermark_before_each_event() -> None:
    found = EventTimes(MARKS)
    assert times(found, LEFT, 0, 11) == [None] * 4 + [10] * 2 + [20] * 3 + [30] * 2
    assert times(found, RIGHT, 0, 9) == [10] * 2 + [20] * 6 + [30]
    assert times(found, MERGED, 0, 7) == [30] * 5 + [40] * 2
    assert times(found, RIGHT, 7, 9) == [20, 30]
    assert times(EventTimes([]), LEFT, 0, 2) == [None, None]


def test_a_segment_that_is_ahead_waits_for_the_others() -> None:
    behind = EventTimes.of_micro_batch(MARKS, {LEFT: 0, RIGHT: 0}, {LEFT: 11, RIGHT: 3})
    assert times(behind, LEFT, 0, 11) == [None] * 4 + [10] * 2 + [20] * 5
    after = EventTimes.of_micro_batch(MARKS, {LEFT: 11, RIGHT: 3}, {LEFT: 11, RIGHT: 9})
    assert times(after, RIGHT, 3, 9) == [20] * 5 + [30]


def test_an_idle_segment_holds_nothing_back() -> None:
    quiet = [mark(10, left=4, right=0), mark(20, left=8, right=0)]
    found = EventTimes.of_micro_batch(quiet, {LEFT: 4, RIGHT: 0}, {LEFT: 9, RIGHT: 0})
    assert times(found, LEFT, 4, 9) == [10] * 4 + [20]


def test_a_writer_that_wrote_nothing_to_a_segment_holds_nothing_back() -> None:
    """Java's writers note -1 for such a segment."""
    found = EventTimes.of_micro_batch([mark(10, left=4, right=-1)], {LEFT: 0, RIGHT: 0}, {LEFT: 5, RIGHT: 1})
    assert times(found, LEFT, 0, 5) == [None] * 4 + [10]
    assert times(found, RIGHT, 0, 1) == [10]


def test_without_a_watermark_that_all_segments_have_passed_there_is_no_time() -> None:
    found = EventTimes.of_micro_batch([mark(10, left=0, right=5)], {LEFT: 0, RIGHT: 0}, {LEFT: 3, RIGHT: 4})
    assert times(found, LEFT, 0, 3) == [None] * 3


def uppers(found: EventTimes, segment: int, start: int, end: int) -> list[int | None]:
    """The upper bounds of events of one byte each, in milliseconds; each is the last microsecond of its millisecond."""
    upper = found.of(SegmentSlice(segment, start, end)).upper
    micros = upper.column(np.arange(start, end), pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    assert all(micro % 1000 == 999 for micro in micros if micro is not None)
    return [None if micro is None else micro // 1000 for micro in micros]


def test_the_upper_bound_is_that_of_the_next_watermark() -> None:
    found = EventTimes(replace(one, latest=one.time + 5) for one in MARKS)
    assert uppers(found, LEFT, 0, 11) == [15] * 4 + [25] * 2 + [35] * 3 + [45] * 2
    assert uppers(found, RIGHT, 0, 9) == [25] * 2 + [35] * 6 + [45]
    assert uppers(found, MERGED, 0, 7) == [45] * 5 + [None] * 2
    assert uppers(EventTimes([]), LEFT, 0, 2) == [None, None]
    assert uppers(EventTimes([mark(1 << 62, left=2, right=0)]), LEFT, 0, 1) == [None]


def test_a_segment_whose_keys_are_unknown_has_no_upper_bound() -> None:
    """It may follow the mark or not: a later segment shares none of its keys, as far as anybody knows."""
    after = make_segment_id(5, 1)
    half = Watermark(
        10, 10, {make_segment_id(7, 2): 3, RIGHT: 4}, {make_segment_id(7, 2): (0.0, 0.5), RIGHT: (0.5, 1.0)}
    )
    assert uppers(EventTimes([half]), after, 0, 2) == [None, None]
    assert uppers(EventTimes([half]), RIGHT, 3, 5) == [10, None]


def test_numbers_that_are_no_times_are_null() -> None:
    assert times(EventTimes([mark(1 << 62, left=0, right=0)]), LEFT, 0, 1) == [None]
    assert times(EventTimes([mark(-(1 << 63), left=0, right=0)]), LEFT, 0, 1) == [None]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Watermark], list[dict[int, int]], list[int]]:
    """Watermarks of a stream whose two segments are merged, cuts of micro-batches, and how many marks each knows."""

    def cuts(count: int) -> list[dict[int, int]]:
        both = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=count, max_size=count))
        left, right = sorted(one for one, _ in both), sorted(one for _, one in both)
        merged = sorted(draw(st.lists(st.integers(0, 9), min_size=2, max_size=2)))
        split = [{LEFT: one, RIGHT: other} for one, other in zip(left, right, strict=True)]
        return [*split, *({MERGED: one} for one in merged)]

    marks = [
        Watermark(10 * number, 10 * number, cut, {segment: RANGES[segment] for segment in cut})
        for number, cut in enumerate(cuts(draw(st.integers(0, 4))))
    ]
    ends = [{LEFT: 0, RIGHT: 0}, *cuts(draw(st.integers(0, 4))), {MERGED: 10}]
    known = sorted(draw(st.integers(0, len(marks))) for _ in ends)
    return marks, ends, known


@given(histories())
def test_no_event_is_late(history: tuple[list[Watermark], list[dict[int, int]], list[int]]) -> None:
    """Spark's watermark is the latest time of the batches before, in whole milliseconds."""
    marks, ends, known = history
    watermark = -1
    for (since, until), count in zip(pairwise(ends), known[1:], strict=True):
        found = EventTimes.of_micro_batch(marks[:count], since, until)
        seen: list[int] = []
        for segment, start, end in _slices(since, until):
            both = found.of(SegmentSlice(segment, start, end))
            column = both.lower.column(np.arange(start, end), pa.timestamp("us"))
            upper = both.upper.column(np.arange(start, end), pa.timestamp("us"))
            assert pc.all(pc.less_equal(column, upper)).as_py() is not False
            seen += [time for time in column.cast(pa.int64()).to_pylist() if time is not None]
            # The writers' promise: what follows a mark is not older than it, so a row's time is never too late.
            for offset, time in zip(range(start, end), times(found, segment, start, end), strict=True):
                newest = max((one.time for one in marks if one.is_before(segment, offset)), default=None)
                assert time is None or (newest is not None and time <= newest)
        assert all(time > watermark * 1000 for time in seen), (watermark, seen)
        watermark = max([watermark, *(time // 1000 for time in seen)])
        reached = [one.time for one in marks[:count] if has_passed(one, until, RANGES)]
        assert watermark <= max([-1, *reached])


@given(histories(), histories())
def test_no_event_of_several_streams_is_late(
    one: tuple[list[Watermark], list[dict[int, int]], list[int]],
    other: tuple[list[Watermark], list[dict[int, int]], list[int]],
) -> None:
    """Also if the writers of one begin to note times later than those of the other."""
    floor, watermark = None, -1
    for number in range(1, min(len(one[1]), len(other[1]))):
        steps = [(marks[: known[number]], ends[number - 1], ends[number]) for marks, ends, known in (one, other)]
        streams = [EventTimes.of_micro_batch(*step) for step in steps]
        ceiling = EventTimes.find_common_time(streams, floor)
        pieces = [(its.bound(floor, ceiling), _slices(*step[1:])) for its, step in zip(streams, steps, strict=True)]
        seen = [time for its, slices in pieces for piece in slices for time in times(its, *piece) if time is not None]
        assert all(time >= watermark for time in seen), (watermark, seen)
        watermark, floor = max([watermark, *seen]), ceiling


def test_the_stream_that_is_behind_holds_the_others_back() -> None:
    begin, end = {LEFT: 0, RIGHT: 0}, {LEFT: 11, RIGHT: 11}
    ahead = EventTimes.of_micro_batch(MARKS, begin, end)
    behind = EventTimes.of_micro_batch(
        [mark(15, left=2, right=0), mark(25, left=4, right=4)], begin, {LEFT: 3, RIGHT: 3}
    )
    silent = EventTimes.of_micro_batch([], begin, end)
    unread = EventTimes.of_micro_batch([mark(5, left=1, right=1)], begin, begin)
    assert EventTimes.find_common_time([silent], None) is None
    assert EventTimes.find_common_time([ahead, behind, silent], None) == 15
    assert EventTimes.find_common_time([ahead, behind], 20) == 20
    assert EventTimes.find_common_time([ahead, unread], None) is None
    assert EventTimes.find_common_time([ahead, unread], 12) == 12
    assert times(ahead.bound(None, 15), LEFT, 0, 11) == [None] * 4 + [10] * 2 + [15] * 5
    assert times(behind.bound(12, 15), LEFT, 0, 3) == [12] * 2 + [15]
    assert times(silent.bound(12, 15), LEFT, 0, 2) == [None] * 2


def _slices(since: Mapping[int, int], until: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """What lies between two cuts: LEFT and RIGHT end at 10."""
    found = []
    for segment in (LEFT, RIGHT, MERGED):
        start = since.get(segment, 0 if segment == MERGED else 10)
        end = until.get(segment, 10 if segment != MERGED and segment in since else 0)
        if start < end:
            found.append((segment, start, end))
    return found
