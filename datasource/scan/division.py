"""Divides segments into parts that tasks read side by side, at known borders between events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import PermissionDeniedError

from ..commit_log.commit_log import CommitLog
from ..commit_log.versions import FOLDED
from ..positions.snapshot import SegmentSlice
from .noted_borders import SPACING, NotedBorders

_MOST_CHECKPOINTS = 32
"""Checkpoints of the log whose versions are looked at to divide slices: enough for thousands of parts."""


@dataclass(frozen=True)
class PartSize:
    """How large parts should be: at most `most` bytes where that is possible, or else `evenly` about that many.

    `by_log`: where scans have noted no borders, the commit log is searched for ends of versions.
    """

    most: int
    evenly: bool = False
    by_log: bool = True


@dataclass(frozen=True)
class Division:
    """The parts of slices. Those of the `noted` segments begin or end at borders that earlier scans have noted.

    `about` says for EXPLAIN how many parts there are, and what they end at; it is empty if no slice was divided.
    """

    parts: Sequence[SegmentSlice]
    noted: frozenset[int] = frozenset()
    about: str = ""


def divide(pravega: Pravega, stream: Stream, slices: Sequence[SegmentSlice], size: PartSize) -> Division:
    """Divide slices that are larger than a part at borders that earlier scans have noted, and at ends of versions.

    Other borders between events are not known, so that a slice without such borders stays whole.
    """
    large = [piece for piece in slices if piece.end - piece.start > size.most]
    very_large = [piece.segment_id for piece in large if piece.end - piece.start > SPACING]
    known = NotedBorders(pravega, stream).find(very_large) if very_large else {}
    noted = {piece.segment_id: _select_inner(known.get(piece.segment_id, ()), piece) for piece in large}
    logged: dict[int, list[int]] = {}
    ends = ([piece.start, *noted[piece.segment_id], piece.end] for piece in large)
    if size.by_log and any(end - start > size.most for some in ends for start, end in pairwise(some)):
        with suppress(PermissionDeniedError):
            logged = _list_borders(_list_cuts(CommitLog(pravega, stream)))
    parts: list[SegmentSlice] = []
    at_noted = set()
    for piece in slices:
        of_notes, of_log = {*noted.get(piece.segment_id, ())}, {*logged.get(piece.segment_id, ())}
        pieces = _divide_at(sorted(of_notes | of_log), piece, size)
        if {part.end for part in pieces} & (of_notes - of_log):
            at_noted.add(piece.segment_id)
        parts += pieces
    if len(parts) == len(slices):
        return Division(slices)
    ways = (["borders noted by scans"] if at_noted else []) + (["ends of versions"] if logged else [])
    return Division(parts, frozenset(at_noted), f"{len(parts)}, at {' and '.join(ways)}")


def _select_inner(borders: Sequence[int], piece: SegmentSlice) -> list[int]:
    return list(borders[bisect_right(borders, piece.start) : bisect_left(borders, piece.end)])


def _list_cuts(log: CommitLog) -> list[StreamCut]:
    """Return the ends of all versions; of very many, those in some checkpoints that are spread over them evenly."""
    newest = log.newest()
    if newest <= _MOST_CHECKPOINTS * FOLDED:
        return [version.cut for version in log.versions()]
    step = -(-newest // (_MOST_CHECKPOINTS * FOLDED)) * FOLDED
    return [version.cut for last in range(step, newest + 1, step) for version in log.versions(last - FOLDED + 1, last)]


def _list_borders(cuts: Sequence[StreamCut]) -> dict[int, list[int]]:
    """Return the positions of cuts by segment, in order."""
    borders: dict[int, set[int]] = {}
    for cut in cuts:
        for segment, offset in cut.positions.items():
            borders.setdefault(segment, set()).add(offset)
    return {segment: sorted(offsets) for segment, offsets in borders.items()}


def _divide_at(borders: Sequence[int], piece: SegmentSlice, size: PartSize) -> list[SegmentSlice]:
    """Cut a slice at some of its borders, which are in order."""
    inner = _select_inner(borders, piece)
    if piece.end - piece.start <= size.most or not inner:
        return [piece]
    chosen = _choose_nearest(inner, piece, size.most) if size.evenly else _choose_last(inner, piece, size.most)
    return [replace(piece, start=start, end=end) for start, end in pairwise([piece.start, *chosen, piece.end])]


def _choose_nearest(borders: Sequence[int], piece: SegmentSlice, size: int) -> list[int]:
    """Return the borders that are nearest to those of equal parts of about this size."""
    length = piece.end - piece.start
    number = -(-length // size)
    chosen = set()
    for part in range(1, number):
        ideal = piece.start + length * part // number
        index = bisect_left(borders, ideal)
        chosen.add(min(borders[max(index - 1, 0) : index + 1], key=lambda border: abs(border - ideal)))
    return sorted(chosen)


def _choose_last(borders: Sequence[int], piece: SegmentSlice, most: int) -> list[int]:
    """Return the last border that is not too far from the one before, again and again, or else the next one."""
    ends, start, number = [*borders, piece.end], piece.start, 0
    chosen: list[int] = []
    while True:
        number = max(bisect_right(ends, start + most, number) - 1, number)
        if ends[number] == piece.end:
            return chosen
        start = ends[number]
        chosen.append(start)
        number += 1
