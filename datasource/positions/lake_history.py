"""Says which part of a stream a lake has: a range of bytes of each segment, whose events are rows of its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark_pravega.client.segments.store import SegmentInfo
from pyspark_pravega.client.stream_cut import StreamCut


@dataclass(frozen=True)
class History:
    """The events of a stream from one cut to another, all of which a lake has.

    `ranges` are the first and the last byte + 1 of each segment between the cuts, and `ended` are the segments that end
    before the later one. The lake has `rows` rows. `identity` distinguishes the stream from others of its name.
    """

    begin: StreamCut
    cut: StreamCut
    version: int
    """The version of the commit log that ends at the later cut."""
    ranges: Mapping[int, tuple[int, int]]
    ended: frozenset[int]
    rows: int
    identity: str | None

    def find_end(self, segment: int, start: int) -> int:
        """Return up to which offset the lake has what begins at `start`; `start` itself if it has nothing of that."""
        first, end = self.ranges.get(segment, (0, 0))
        return end if first <= start < end else start

    def find_gap(self, segment: int, info: SegmentInfo | None) -> tuple[int, int | None] | None:
        """Return the bytes of a segment that were removed before the lake had them: None for the end if it is unknown.

        Returns None if there are none.
        """
        _, end = self.ranges.get(segment, (0, self.cut.positions.get(segment, 0)))
        if segment not in self.ranges.keys() | self.cut.positions.keys() or (info is None and segment in self.ended):
            return None
        if info is None:
            return end, None
        return None if info.start_offset <= end else (end, info.start_offset)

    def widen(
        self, segments: Iterable[int], infos: Mapping[int, SegmentInfo], *, with_gaps: bool = False
    ) -> dict[int, SegmentInfo]:
        """Return the state of segments as if what the lake has, `with_gaps` up to any gap, had never been removed."""
        widened = dict(infos)
        for segment in segments:
            first, end = self.ranges.get(segment, (0, 0))
            info = infos.get(segment)
            if info is None and segment in self.ended:
                widened[segment] = SegmentInfo(first, end, sealed=True)
            elif info is not None and first < min(end, info.start_offset) and (with_gaps or info.start_offset <= end):
                widened[segment] = replace(info, start_offset=first)
        return widened

    def to_json(self) -> str:
        value = {
            "begin": self.begin.to_text(),
            "cut": self.cut.to_text(),
            "version": self.version,
            "ranges": [[segment, *ends] for segment, ends in sorted(self.ranges.items())],
            "ended": sorted(self.ended),
            "rows": self.rows,
            "identity": self.identity,
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> History:
        """Read what `to_json` wrote. Raises ValueError, KeyError, TypeError and InvalidOptionError for another text."""
        value = json.loads(text)
        return cls(
            StreamCut.from_text(value["begin"]),
            StreamCut.from_text(value["cut"]),
            value["version"],
            {segment: (first, end) for segment, first, end in value["ranges"]},
            frozenset(value["ended"]),
            value["rows"],
            value["identity"],
        )
