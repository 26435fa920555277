"""The watermarks of a stream that a streaming query still needs: the last one that it has passed, and those after."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.watermarks import Watermark, marks_end, read_watermarks

from ..scan.event_times import EventTimes, passed


class KnownMarks:
    """What one query knows of its stream's watermarks. It only saves time; thread-safe."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        self.pravega, self._stream = pravega, stream
        self._lock = threading.Lock()
        self._marks: list[tuple[int, Watermark]] = []  # each with where it ends
        self._read = 0
        self._dropped = False  # whether there were earlier ones

    def end(self) -> int:
        """Return how far the watermarks go now."""
        return marks_end(self.pravega, self._stream)

    def times(self, since: Mapping[int, int], until: Mapping[int, int], end: int) -> EventTimes:
        """Return what the rows between two cuts have for times, by the watermarks up to `end`.

        Micro-batches go forward; one that is planned again has the same times as at first.
        """
        with self._lock:
            if self._dropped and not passed(self._marks[0][1], since):
                self._marks, self._read, self._dropped = [], 0, False  # an older batch
            for at, mark in read_watermarks(self.pravega, self._stream, self._read, end):
                if self._marks and passed(mark, since):
                    self._marks, self._dropped = [], True
                self._marks.append((at, mark))
            self._read = max(self._read, end)
            gone = [index for index, (at, mark) in enumerate(self._marks) if at <= end and passed(mark, since)]
            if gone and gone[-1]:
                self._marks, self._dropped = self._marks[gone[-1] :], True
            return EventTimes.of_micro_batch((mark for at, mark in self._marks if at <= end), since, until)
