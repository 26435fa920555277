"""Finds the segments that hold the events of the same keys: those that scaling made of one another.

A segment that is split or merged is sealed, and its successors take over its keys. All segments between which there is
such a path hold together every event of their keys; segments of different such groups share no key.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import carried
from pyspark_pravega.client.stream import Stream

from ..scan.snapshot import SegmentSlice

_THREADS = 8


def by_lineage(pravega: Pravega, stream: Stream, slices: Iterable[SegmentSlice]) -> list[list[SegmentSlice]]:
    """Return the slices in groups that share no key, within each group predecessors first."""
    pieces = {piece.segment_id: piece for piece in slices}
    group_of = _Groups()
    known: set[int] = set()
    left = set(pieces)
    successors_of = carried(lambda segment: pravega.controller.successors(stream, segment))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lineage") as pool:
        while left:
            known |= left
            asked = sorted(left)
            found = pool.map(successors_of, asked)
            left = set()
            for segment, successors in zip(asked, found, strict=True):
                for successor, predecessors in successors.items():
                    group_of.join(segment, successor.segment_id)
                    for predecessor in predecessors:
                        group_of.join(segment, predecessor)
                    # Even one without events in the scan may lead to one with events.
                    left.add(successor.segment_id)
            left -= known
    groups: dict[int, list[SegmentSlice]] = {}
    # A segment's id begins with the epoch in which it was made, so that predecessors have lower ones.
    for segment in sorted(pieces):
        groups.setdefault(group_of.root(segment), []).append(pieces[segment])
    return list(groups.values())


class _Groups:
    """Sets of segments that grow together."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def root(self, segment: int) -> int:
        """Return the segment that stands for its group."""
        while (parent := self._parent.get(segment, segment)) != segment:
            segment = parent
        return segment

    def join(self, first: int, second: int) -> None:
        """Make one group of both segments' groups."""
        self._parent[self.root(first)] = self.root(second)
