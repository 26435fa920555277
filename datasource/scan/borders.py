"""Borders between events that are known without reading what lies before: the ends of versions in the commit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark_pravega.client.stream_cut import StreamCut

from ..commit_log import CommitLog
from .places import Span
from .snapshot import SegmentSlice, end_in

WORTH_SEARCHING = 16 << 20
"""Bytes that take longer to read than a search in the log does."""
_MOST_SEARCHES = 4

Wanted = tuple[SegmentSlice, Span]


def begun_later(log: CommitLog, wanted: Sequence[Wanted], worth: int = WORTH_SEARCHING) -> list[Wanted]:
    """Return slices that begin at the last border before what is wanted of them, if the log knows a later one.

    It is searched for slices that have so many bytes before it, and for a few only.
    """
    far = [piece for piece, span in wanted if span.first - piece.start >= worth]
    head = log.head() if 0 < len(far) <= _MOST_SEARCHES else None
    if head is None or not head.version:
        return list(wanted)
    ends = _Ends(log)
    return [
        (replace(piece, start=_border(ends, head.version, piece, span.first)) if piece in far else piece, span)
        for piece, span in wanted
    ]


class _Ends:
    """The stream's ends at versions, each asked for once."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._known: dict[int, StreamCut | None] = {}

    def of(self, number: int) -> StreamCut | None:
        """Return the end of a version; None if the log does not have it."""
        if number not in self._known:
            found = self._log.versions(number, number)
            self._known[number] = found[0].cut if found else None
        return self._known[number]


def _border(ends: _Ends, newest: int, piece: SegmentSlice, first: int) -> int:
    """Return the last end of a version that does not lie behind `first`, or where the slice begins."""
    low, high, border = 1, newest, piece.start
    while low <= high:
        middle = (low + high) // 2
        cut = ends.of(middle)
        if cut is None:
            break
        end = end_in(piece, cut)
        if end <= first:
            low, border = middle + 1, max(border, end)
        else:
            high = middle - 1
    return border
