"""Remembers what a single measurement does not show: how much was appended, and since when a commit lasts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark_pravega.client.stream import Stream

from .readings import StreamReading


@dataclass
class _Watched:
    """What is remembered of a stream."""

    ends: Mapping[int, int]
    appended: int = 0
    committing: uuid.UUID | None = None
    since: float = 0.0


@dataclass
class Changes:
    """What has changed from one measurement to the next. Streams that are gone are forgotten."""

    _watched: dict[Stream, _Watched] = field(default_factory=dict)

    def note(self, streams: Sequence[StreamReading], time: float) -> None:
        """Take note of a measurement at a time, in seconds since 1970."""
        self._watched = {reading.stream: self._continue(reading, time) for reading in streams}

    def _continue(self, reading: StreamReading, time: float) -> _Watched:
        ends = {segment: info.write_offset for segment, info in reading.segments.items()}
        before = self._watched.get(reading.stream)
        if before is None or not ends.keys() & before.ends.keys():
            return _Watched(ends, 0 if before is None else before.appended, reading.committing, time)
        more = sum(max(0, end - before.ends.get(segment, 0)) for segment, end in ends.items())
        same = reading.committing == before.committing
        return _Watched(ends, before.appended + more, reading.committing, before.since if same else time)

    def appended_bytes(self, stream: Stream) -> int:
        """Return the bytes that were appended since the first measurement of a stream."""
        return self._watched[stream].appended

    def commit_age(self, stream: Stream, time: float) -> float:
        """Return for how many seconds the same transaction is being committed, 0 if none is."""
        watched = self._watched[stream]
        return 0.0 if watched.committing is None else time - watched.since
