"""The frontier of a query: the segments that it reads now, each from its offset to its bound.

They cover the key space once. When all events of a sealed segment have been read, its successors take its place; in a
merge, only once all merged segments have been read. So no micro-batch holds events of a segment and of its successors,
and events of one routing key keep their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.client.segments.store import SegmentInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import CheckpointError

from ..positions.lake_history import History
from ..positions.snapshot import BEYOND, EndCut, find_end_within

SegmentOffsets = Mapping[int, int]
"""An offset for each segment id."""

_NO_SUCCESSORS_SECONDS, _LONGEST_BELIEF = 0.2, 5.0
"""How long a sealed segment is believed to have no successors: a scaling ends soon, but a sealed stream never has any.

The time doubles up to the longest.
"""
_MANY_SEGMENTS = 64
_REST_PER_SEGMENT, _LONGEST_REST = 0.0005, 0.2
"""Pauses, because Spark asks a hundred times a second. A look takes a round trip for each 256 segments."""
_KEPT_SEGMENTS = 4096


class StreamSegments:
    """The segments of a stream, with facts about them that never change once they are known. Thread-safe."""

    def __init__(self, pravega: Pravega, stream: Stream, kept: int = _KEPT_SEGMENTS) -> None:
        """Remember the `kept` segments that were asked about last."""
        self.pravega = pravega
        self.stream = stream
        self._successors: Recent[int, dict[int, list[int]]] = Recent(kept)
        self._none_until: Recent[int, tuple[float, float]] = Recent(kept)
        self._ends: Recent[int, int] = Recent(kept)
        self._bounds: Recent[str, tuple[EndCut | None]] = Recent(kept)
        self._find_history: Callable[[], History | None] = lambda: None
        self._with_gaps = False

    def join(self, find_history: Callable[[], History | None], *, with_gaps: bool) -> StreamSegments:
        """Return the same segments and memory for a query that also reads a history, `with_gaps` up to any gap too."""
        joined = copy(self)
        joined._find_history, joined._with_gaps = find_history, with_gaps
        return joined

    def infos(self, segments: Iterable[int]) -> dict[int, SegmentInfo]:
        """Return the present state of segments, without missing ones."""
        wanted = list(segments)
        infos = self.pravega.segments.segment_infos(self.stream, wanted)
        for segment, info in infos.items():
            if info.sealed:
                self._ends.put(segment, info.write_offset)
        history = self._find_history()
        return infos if history is None else history.widen(wanted, infos, with_gaps=self._with_gaps)

    def ends(self, segments: Iterable[int]) -> dict[int, int]:
        """Return the present ends of segments, without missing ones."""
        return {segment: info.write_offset for segment, info in self.infos(segments).items()}

    def bound(self, name: str, find: Callable[[], EndCut | None]) -> EndCut | None:
        """Return the cut of an end bound, which `find` finds the first time."""
        return self._bounds.get(name, lambda: (find(),))[0]

    def find_sealed_end(self, segment: int) -> int | None:
        """Return where a sealed segment ended, None if that is not known yet."""
        return self._ends.find(segment)

    def successors(self, segment: int) -> dict[int, list[int]]:
        """Return the successors of a sealed segment with their predecessors; none at the end of a sealed stream."""
        successors = self._successors.find(segment)
        until, pause = self._none_until.find(segment) or (0.0, _NO_SUCCESSORS_SECONDS)
        if successors is not None or time.monotonic() < until:
            return successors or {}
        ranges = self.pravega.controller.successors(self.stream, segment)
        after = {one.segment_id: predecessors for one, predecessors in ranges.items()}
        if after:
            self._successors.put(segment, after)
        else:
            self._none_until.put(segment, (time.monotonic() + pause, min(2 * pause, _LONGEST_BELIEF)))
        return after


@dataclass
class Frontier:
    """Where each segment of the frontier is read from, how far it can be read now, and where it ends (`tails`).

    `lost` are ranges that were removed before they were read: the segment, the first byte, and the byte after the last
    one, None if that is unknown.
    """

    begins: dict[int, int]
    ends: dict[int, int]
    lost: list[tuple[int, int, int | None]] = field(default_factory=list)
    tails: dict[int, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Return the number of bytes that can be read."""
        return sum(self.ends[segment] - begin for segment, begin in self.begins.items())


def pause_between_looks(segments: int) -> None:
    """Pause before another look at very many segments, so that looking takes only a part of the time."""
    if segments > _MANY_SEGMENTS:
        cancellation.sleep(min(segments * _REST_PER_SEGMENT, _LONGEST_REST))


def find_frontier(segments: StreamSegments, since: SegmentOffsets, *bounds: StreamCut | None) -> Frontier:
    """Return what a query that has read up to `since` can read next, without passing any of the bounds.

    Raises CheckpointError for offsets behind the ends of segments.
    """
    cuts = [cut for cut in bounds if cut is not None]
    infos = segments.infos(since)
    check_reached(segments.stream, since, infos)
    begins, lost = _skip_lost(segments, since, infos, cuts)
    while moves := _find_moves(segments, begins, infos, cuts):
        for old, new in moves:
            for segment in old:
                del begins[segment]
            infos |= segments.infos(new)
            entered, more = _skip_lost(segments, dict.fromkeys(new, 0), infos, cuts)
            begins |= entered
            lost += more
    tails = {segment: infos[segment].write_offset if segment in infos else begin for segment, begin in begins.items()}
    ends = {
        segment: max(min([tails[segment], *(find_end_within(segment, cut) for cut in cuts)]), begin)
        for segment, begin in begins.items()
    }
    return Frontier(begins, ends, lost, tails)


def check_reached(stream: Stream, since: SegmentOffsets, infos: Mapping[int, SegmentInfo]) -> None:
    """Raise CheckpointError for an offset behind the end of its segment: the cluster was restored, or has lost data."""
    for segment, offset in since.items():
        if segment in infos and offset > infos[segment].write_offset:
            raise CheckpointError(
                f"The checkpoint says that segment {segment} of stream {stream} was read up to byte {offset:,}, but it "
                f"ends at {infos[segment].write_offset:,}: the cluster was restored from an older backup, or has lost "
                "data. Start the query with a new checkpoint location."
            )


def enter_successors(
    segments: StreamSegments, since: SegmentOffsets, positions: SegmentOffsets, *bounds: StreamCut | None
) -> dict[int, int]:
    """Replace segments that were read to their sealed ends by their successors, and return the positions.

    A segment that the offset `since` does not name stays: whatever lies between two offsets must be in segments that
    one of them names.
    """
    cuts = [cut for cut in bounds if cut is not None]
    now = dict(positions)
    ends = {
        segment: segments.find_sealed_end(segment) if segment in since or not offset else None
        for segment, offset in now.items()
    }
    infos = {segment: SegmentInfo(0, end or 0, end is not None) for segment, end in ends.items()}
    for old, new in _find_moves(segments, now, infos, cuts):
        for segment in old:
            del now[segment]
        now |= dict.fromkeys(new, 0)
    return now


def _skip_lost(
    segments: StreamSegments, positions: SegmentOffsets, infos: Mapping[int, SegmentInfo], cuts: Iterable[StreamCut]
) -> tuple[dict[int, int], list[tuple[int, int, int | None]]]:
    """Return positions after removed ranges, and the removed ranges before the cuts."""
    begins, lost = dict(positions), []
    for segment, offset in positions.items():
        info = infos.get(segment)
        if info is not None and offset >= info.start_offset:
            continue
        removed = segments.find_sealed_end(segment) if info is None else info.start_offset
        ends = [end for end in (removed, *(find_end_within(segment, cut) for cut in cuts)) if end not in (None, BEYOND)]
        end = min(ends, default=None)
        if end is None or offset < end:
            lost.append((segment, offset, end))
        if info is not None:
            begins[segment] = info.start_offset
    return begins, lost


def _find_moves(
    segments: StreamSegments, positions: SegmentOffsets, infos: Mapping[int, SegmentInfo], cuts: Iterable[StreamCut]
) -> list[tuple[set[int], set[int]]]:
    """Return sets of segments that have been read completely, each with the set that replaces it."""

    def is_finished(segment: int) -> bool:
        if segment not in positions or any(segment in cut.positions for cut in cuts):
            return False
        info = infos.get(segment)
        return info is None or (info.sealed and positions[segment] >= info.write_offset)

    moves: list[tuple[set[int], set[int]]] = []
    seen: set[int] = set()
    for segment in positions:
        if segment in seen or not is_finished(segment):
            continue
        old, new = {segment}, set(segments.successors(segment))
        todo = [segment]
        while todo and new:  # a scaling may replace several segments by several
            predecessor = todo.pop()
            if not is_finished(predecessor):
                new = set()
                break
            for successor, predecessors in segments.successors(predecessor).items():
                new.add(successor)
                todo += set(predecessors) - old
                old |= set(predecessors)
        seen |= old
        if new:
            moves.append((old, new))
    return moves
