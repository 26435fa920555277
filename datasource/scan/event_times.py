"""The hidden columns of event time: what the watermarks of a stream around an event say of its time.

`_event_time` is the lower bound, the newest watermark before the event. A row's time is never later than the newest
watermark that the whole scan has passed in every segment: `withWatermark` takes the latest time of a micro-batch as the
time that has been reached, however far single segments have been read. Nor is it earlier than the time that the
micro-batch before has reached. So the column never goes back from one micro-batch to the next, however unevenly
segments are read.

Spark considers a row late if its time is not after Spark's watermark, which is in milliseconds. An event lies after its
own watermark, so that its time is a microsecond later.

`_event_time_upper` is the upper bound, as in the time windows of Java's readers: the latest time that a writer had
noted at the first watermark after the event. Writers note whole milliseconds: it is the last microsecond of that one.

Of several streams that are read as one, no row's time is later than what all of them have reached. The query's offset
keeps that time, which never goes back: events of a stream that comes later, with older watermarks, have it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyspark_pravega.client.watermarks import Watermark
from pyspark_pravega.formats.core.events import EventPositions

from ..positions.points_in_time import FIRST_MILLIS, LAST_MILLIS
from ..positions.snapshot import SegmentSlice

_NULL = -(1 << 63)


@dataclass(frozen=True)
class Steps:
    """A bound of the times of events in one slice, microseconds since 1970: from `starts[i]` on, `times[i]`."""

    starts: tuple[int, ...]
    times: tuple[int, ...]

    def column(self, offsets: EventPositions, type: pa.DataType) -> pa.Array:
        """Return the bounds of the events at these offsets."""
        times = np.array(self.times, np.int64)[np.searchsorted(self.starts, offsets, side="right") - 1]
        return pa.array(times, mask=times == _NULL).cast(type)


@dataclass(frozen=True)
class SegmentTimes:
    """Both bounds of the times of events in one slice."""

    lower: Steps
    upper: Steps


class EventTimes:
    """The watermarks that apply to one scan, and the bounds of its rows' times."""

    def __init__(self, marks: Iterable[Watermark]) -> None:
        """Take all watermarks of a stream, oldest first, for a scan that is not a micro-batch."""
        self._marks = list(marks)
        self._ranges = {segment: its for mark in self._marks for segment, its in mark.ranges.items()}
        self._floor: int | None = None
        self._ceiling = self._marks[-1].time if self._marks else None

    @classmethod
    def of_micro_batch(
        cls, marks: Iterable[Watermark], since: Mapping[int, int], until: Mapping[int, int]
    ) -> EventTimes:
        """Take the known watermarks of a stream, for the events between two of its cuts."""
        times = cls(marks)
        times._floor = times._find_newest_passed(since)
        times._ceiling = times._find_newest_passed(until)
        return times

    def bound(self, floor: int | None, ceiling: int | None) -> EventTimes:
        """Bound these times by what several streams have reached where a micro-batch begins and ends; return itself."""
        self._floor, self._ceiling = floor, ceiling if self._marks else None
        return self

    @staticmethod
    def find_common_time(streams: Iterable[EventTimes], floor: int | None) -> int | None:
        """Return the time that all streams with watermarks have reached where a micro-batch ends, at least `floor`."""
        reached = [_NULL if times._ceiling is None else times._ceiling for times in streams if times._marks]
        time = max(min(reached, default=_NULL), _NULL if floor is None else floor)
        return None if time == _NULL else time

    def _find_newest_passed(self, cut: Mapping[int, int]) -> int | None:
        """Return the time of the newest watermark that lies before a cut in every segment."""
        for mark in reversed(self._marks):
            if has_passed(mark, cut, self._ranges):
                return mark.time
        return None

    def of(self, piece: SegmentSlice) -> SegmentTimes:
        """Return the bounds of the times of events in a slice."""
        starts, times = [piece.start], [self._convert_to_micros(None)]
        ends, uppers = [piece.start], []
        for mark in self._marks:
            start, certain = self._find_place(mark, piece)
            if start > ends[-1] and certain:
                uppers.append(mark.latest * 1000 + 999 if FIRST_MILLIS <= mark.latest <= LAST_MILLIS else _NULL)
                ends.append(start)
            if start >= piece.end:
                break
            time = self._convert_to_micros(mark.time)
            if start <= starts[-1]:
                times[-1] = time
            elif time != times[-1]:
                starts.append(start)
                times.append(time)
        return SegmentTimes(Steps(tuple(starts), tuple(times)), Steps(tuple(ends), (*uppers, _NULL)))

    def _find_place(self, mark: Watermark, piece: SegmentSlice) -> tuple[int, bool]:
        """Return where the events of a slice begin to follow a mark, and False if earlier ones may follow it too."""
        segment = piece.segment_id
        start = mark.positions.get(segment)
        if start is not None:
            return min(start, piece.end), True
        range = self._ranges.get(segment)
        if mark.is_before(segment, 0, range):
            return piece.start, True
        return piece.end, range is not None or all(other > segment for other in mark.ranges)

    def _convert_to_micros(self, time: int | None) -> int:
        if self._ceiling is None:
            return _NULL
        bounds = [bound for bound in (time, self._floor) if bound is not None]
        if not bounds:
            return _NULL
        time = min(max(bounds), self._ceiling)
        return time * 1000 + 1 if FIRST_MILLIS <= time <= LAST_MILLIS else _NULL


def has_passed(
    mark: Watermark, cut: Mapping[int, int], ranges: Mapping[int, tuple[float, float]] | None = None
) -> bool:
    """Return whether a cut lies after a watermark in every segment. `ranges`: the keys of segments, where known."""
    return all(mark.is_before(segment, offset, (ranges or {}).get(segment)) for segment, offset in cut.items())
