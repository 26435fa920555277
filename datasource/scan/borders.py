"""Proves borders between events, and their number, by the commit log, without reading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import PermissionDeniedError

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version
from ..positions.snapshot import SegmentSlice, find_end_within
from .places import Span
from .planned_scan import PlannedScan

WORTH_SEARCHING = 16 << 20
"""Bytes that take longer to read than a search in the log."""
_MOST_SEARCHES = 4

WantedSlice = tuple[SegmentSlice, Span]


def start_later(log: CommitLog, slices: Sequence[WantedSlice], worth: int = WORTH_SEARCHING) -> list[WantedSlice]:
    """Return slices that begin at the last border, known to the log, before their wanted events.

    Only slices with at least `worth` bytes before that are searched for, and only if they are a few.
    """
    far = [piece for piece, span in slices if span.first - piece.start >= worth]
    head = log.head() if 0 < len(far) <= _MOST_SEARCHES else None
    if head is None or not head.version:
        return list(slices)
    newest, find_version = head.version, cache(log.version)
    return [
        (replace(piece, start=_find_border(find_version, newest, piece, span.first)) if piece in far else piece, span)
        for piece, span in slices
    ]


def _find_border(find_version: Callable[[int], Version | None], newest: int, piece: SegmentSlice, first: int) -> int:
    """Return the last end of a version that is not behind `first`; the start of the slice without one."""
    low, high, border = 1, newest, piece.start
    while low <= high:
        middle = (low + high) // 2
        version = find_version(middle)
        if version is None:
            break
        end = find_end_within(piece.segment_id, version.cut)
        if end <= first:
            low, border = middle + 1, max(border, end)
        else:
            high = middle - 1
    return border


def count_events_by_log(pravega: Pravega, stream: Stream, planned: PlannedScan) -> int | None:
    """Return the number of a scan's rows; None if the commit log does not prove it.

    All versions in the scan's head row were visible before the stream was measured, so that their bytes are among the
    measured ones. This holds as long as none were removed, by scaling or truncation.
    """
    head = planned.head
    if head is None or head.content is None or head.content.bytes != sum(planned.tail.values()):
        return None
    try:
        origin = pravega.known_streams.find_origin_if_whole(stream)
    except PermissionDeniedError:
        return None
    return head.content.events if origin is not None and origin == head.origin else None
