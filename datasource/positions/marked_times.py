"""Finds about where a stream was at a time by its watermarks: for streams that only other programs write.

Such a stream has no commit log, whose versions would say when an event became visible. Its watermarks say how far its
writers had come in event time at some positions. That is approximate: events near a position may belong to either side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.errors import StreamNotFoundError

FIRST_MILLIS, LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999 in milliseconds since 1970. Writers may note other numbers, which are not times."""


@dataclass(frozen=True)
class MarkedTimes:
    """The watermarks of a stream whose numbers are times, oldest first. Times are microseconds since 1970."""

    stream: Stream
    marks: tuple[Watermark, ...]

    @classmethod
    def of(cls, pravega: Pravega, stream: Stream) -> MarkedTimes:
        """Read all watermarks of a stream. Raises PermissionDeniedError."""
        try:
            found = read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))
            marks = tuple(mark for _, mark in found if FIRST_MILLIS <= mark.time <= mark.latest <= LAST_MILLIS)
        except StreamNotFoundError:  # made by a server older than watermarks
            marks = ()
        return cls(stream, marks)

    def last_by(self, time: int) -> tuple[StreamCut, int] | None:
        """Return the newest position that all writers had reached by a time, and its own time."""
        return self._find_newest(lambda mark: mark.time * 1000 <= time)

    def last_before(self, time: int) -> tuple[StreamCut, int] | None:
        """Return the newest position at which no writer had noted a time, and its own time.

        Events before it may still have that time, if their writer had not noted it yet.
        """
        return self._find_newest(lambda mark: mark.latest * 1000 + 999 < time)

    def _find_newest(self, fits: Callable[[Watermark], bool]) -> tuple[StreamCut, int] | None:
        for mark in reversed(self.marks):
            if fits(mark):
                # Writers note -1 for segments that they have not written to.
                positions = {segment: max(0, offset) for segment, offset in mark.positions.items()}
                return StreamCut(self.stream, positions), mark.time * 1000
        return None
