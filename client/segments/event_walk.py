"""Finding borders between the events of a segment by walking from one event's header to the next.

Borders cannot be computed: only the header of an event tells where the next one begins. So a walk reads what it passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..stream import Stream
from .event_frames import HEADER_BYTES, BrokenFrameError
from .range_reader import SegmentRangeReader
from .store import SegmentStore

SMALLEST_EVENT = HEADER_BYTES
"""Bytes of an event without payload: so many events at most lie in so many bytes."""
_SMALLEST_WINDOW, _LARGEST_WINDOW = 64 * 1024, 4 * 1024 * 1024
_GUESSED_EVENT = 256
"""Bytes of an event, to read not much more than a small number of them."""


@dataclass(frozen=True)
class Walked:
    """A border between events, and how many events lie before it from where the walk began."""

    offset: int
    events: int


def walk_events(
    store: SegmentStore,
    stream: Stream,
    segment_id: int,
    start: int,
    end: int,
    *,
    most_bytes: int | None = None,
    most_events: int | None = None,
    fail_on_data_loss: bool = True,
) -> Walked:
    """Find the last border in [start, end), or `end`, with no more bytes and events before it than given.

    `start` and `end` must be borders. Bytes that are no events, from which no border can be found, count as one event
    up to `end`. Raises what `SegmentRangeReader` does, but not BrokenFrameError.
    """
    limit = end if most_bytes is None else min(end, start + most_bytes)
    offset, events = start, 0
    wanted = limit - start if most_events is None else min(limit - start, most_events * _GUESSED_EVENT)
    window_bytes = min(max(wanted, _SMALLEST_WINDOW), _LARGEST_WINDOW)
    reader = SegmentRangeReader(
        store, stream, segment_id, start, end, window_bytes=window_bytes, fail_on_data_loss=fail_on_data_loss
    )
    try:
        for window in reader:
            ends = window.base + window.starts + window.lengths
            fitting = int(np.searchsorted(ends, limit, side="right"))
            if most_events is not None:
                fitting = min(fitting, most_events - events)
            if fitting:
                offset, events = int(ends[fitting - 1]), events + fitting
            if fitting < len(ends) or events == most_events:
                break
    except BrokenFrameError:
        if offset == start and (most_events is None or most_events > 0) and limit == end:
            return Walked(end, 1)
    return Walked(offset, events)


__all__ = ["SMALLEST_EVENT", "Walked", "walk_events"]
