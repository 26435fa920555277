"""Keeps segments in step by event time: a micro-batch ends soon after a drift beyond the slowest segment.

The times of unread events are unknown when a micro-batch is planned, but the stream's watermarks are known: no event
after the positions of a watermark is older than its time. A segment has reached the time of the newest watermark before
its offset, and the slowest is the one with unread events that has reached the least. A micro-batch goes no further than
the first watermark beyond that time and the drift. Segments without unread events hold nothing back.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o

from ..positions.points_in_time import FIRST_MILLIS, LAST_MILLIS
from ..scan.event_times import has_passed
from ..tables.stream_table import StreamTable
from .frontier import Frontier

_BEFORE_ALL = -(1 << 63)
"""The time that a segment has reached before the first watermark."""
_Ranges = dict[int, tuple[float, float]]
"""The part of the key space that each segment covers."""
Key = TypeVar("Key", bound=Hashable)


def check_times(pravega: Pravega, tables: Iterable[StreamTable], options: o.Options) -> None:
    """Raise InvalidOptionError for a drift if none of the tables that a query reads has times of events."""
    if options.get(o.MAX_EVENT_TIME_DRIFT) is None:
        return
    read = list(tables)
    if any(table.event_time is not None or find_watermarks_end(pravega, table.stream) for table in read):
        return
    names = ", ".join(str(table.stream) for table in read[:3]) + (", ..." if len(read) > 3 else "")
    raise InvalidOptionError(
        f"'{options.name(o.MAX_EVENT_TIME_DRIFT)}'='{options.text(o.MAX_EVENT_TIME_DRIFT)}' needs the times of events, "
        f"but {names} has none: the table property '{o.EVENT_TIME.key}' is not set, and no other writer has noted a "
        f"time. Set the property for later writes, with ALTER TABLE ... SET TBLPROPERTIES "
        f"('{o.EVENT_TIME.key}'='<column>'), or leave the option out."
    )


@dataclass(frozen=True)
class TimeAhead:
    """The event time (milliseconds since 1970) that a stream's slowest segment has reached, and what lies ahead."""

    reached: int
    frontier: Frontier
    marks: Iterator[Watermark]
    ranges: _Ranges

    def ends(self, latest: int, *, moves: bool) -> dict[int, int]:
        """Return where each segment comes to the first watermark beyond a time; its end, if there is none.

        `moves`: a later watermark is taken if segments cannot move to the first one, as they always should. It may seem
        so after a scaling, while it is unknown which keys a segment has.
        """
        begins, ends = self.frontier.begins, self.frontier.ends
        if self.reached > latest:
            return dict(begins)
        for mark in self.marks:
            if mark.time > latest:
                ends_in_step = {
                    segment: min(max(_find_place(mark, segment, self.ranges, end), begins[segment]), end)
                    for segment, end in ends.items()
                }
                if not moves or any(ends_in_step[segment] > begin for segment, begin in begins.items()):
                    return ends_in_step
        return dict(ends)


@dataclass(frozen=True)
class _PassedMark:
    """A watermark, and its end among those that a connection reads."""

    pravega: Pravega
    mark: Watermark
    end: int


@dataclass
class EventTimePace:
    """Remembers which watermark of a stream a query has passed in all segments. It only saves time. Thread-safe."""

    _passed: _PassedMark | None = None

    def look(self, pravega: Pravega, stream: Stream, frontier: Frontier) -> TimeAhead | None:
        """Return what the watermarks say of a frontier; None if no watermark lies after unread events."""
        begins = frontier.begins
        unread = {segment: begin for segment, begin in begins.items() if begin < frontier.ends[segment]}
        if not unread:
            return None
        passed = self._passed
        if passed is not None and not (
            passed.pravega is pravega and has_passed(passed.mark, begins, passed.mark.ranges)
        ):
            passed = None  # a micro-batch before it, or a stream that was recreated
        newest = None if passed is None else passed.mark
        ranges: _Ranges = {} if newest is None else dict(newest.ranges)
        everywhere = True
        start = 0 if passed is None else passed.end
        read = read_watermarks(pravega, stream, start, find_watermarks_end(pravega, stream))
        marks = (place for place in read if FIRST_MILLIS <= place[1].time <= LAST_MILLIS)  # other numbers are no times
        for end, mark in marks:
            ranges |= mark.ranges
            if not has_passed(mark, unread, ranges):
                ahead = itertools.chain([mark], _note_ranges((later for _, later in marks), ranges))
                return TimeAhead(_BEFORE_ALL if newest is None else newest.time, frontier, ahead, ranges)
            newest = mark
            everywhere = everywhere and has_passed(mark, begins, ranges)
            if everywhere:
                self._passed = _PassedMark(pravega, mark, end)
        return None


def keep_in_step(looks: Mapping[Key, TimeAhead | None], drift: timedelta) -> dict[Key, dict[int, int]]:
    """Return how far each stream's segments may go, without streams that are not bounded.

    These have no watermarks, no unread events, or none before their newest watermark. They hold nothing back either: a
    stream whose writers note no more times would keep the others from being read for as long as it gets events.
    """
    looks_with_times = {key: look for key, look in looks.items() if look is not None}
    if not looks_with_times:
        return {}
    slowest = min(look.reached for look in looks_with_times.values())
    latest = slowest + drift // timedelta(milliseconds=1)
    return {key: look.ends(latest, moves=look.reached == slowest) for key, look in looks_with_times.items()}


def _note_ranges(marks: Iterable[Watermark], ranges: _Ranges) -> Iterator[Watermark]:
    for mark in marks:
        ranges |= mark.ranges
        yield mark


def _find_place(mark: Watermark, segment: int, ranges: Mapping[int, tuple[float, float]], beyond: int) -> int:
    """Return where a segment comes to a watermark, `beyond` if it ends before."""
    position = mark.positions.get(segment)
    if position is not None:
        return max(position, 0)  # writers note -1 for segments that they have not written to
    return 0 if mark.is_before(segment, 0, ranges.get(segment)) else beyond
