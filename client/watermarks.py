"""The watermarks of a stream: positions after which, as its writers promise, no event is older than a given time.

The controller combines the times that writers note (`Controller.note_time`, commits with an event time) and writes the
result, every 10 seconds or so, to the stream `_MARK<stream>`, from which Java's readers get their time windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark_pravega.errors import ProtocolError, StreamNotFoundError

from . import Pravega
from .segments.range_reader import SegmentRangeReader
from .stream import Stream
from .wire.versioned import VersionedReader

_WINDOW = 1 << 20


@dataclass(frozen=True)
class Watermark:
    """The writers' promise that no event after `positions` is older than `time`, in the writers' own unit.

    `positions` maps ids of segments that cover the key space once to offsets; `ranges` maps the ids to the part of the
    key space that each segment covers. `latest` is the largest time that a writer has noted.
    """

    time: int
    latest: int
    positions: Mapping[int, int]
    ranges: Mapping[int, tuple[float, float]]

    def is_before(self, segment_id: int, offset: int, range: tuple[float, float] | None = None) -> bool:
        """Return whether the byte at an offset of a segment follows this watermark, even if segments were replaced.

        `range`: the part of the key space that the segment covers. Without it, False for some following bytes too.
        """
        position = self.positions.get(segment_id)
        if position is not None:
            return offset >= position
        return all(
            # Of two segments that share keys, the one with the larger id is later: it is of a later epoch.
            other < segment_id or (range is not None and not (its[0] < range[1] and range[0] < its[1]))
            for other, its in self.ranges.items()
        )


def mark_stream(stream: Stream) -> Stream:
    """Return the stream that holds the watermarks of a stream."""
    return Stream(stream.scope, f"_MARK{stream.name}")


def find_watermarks_end(pravega: Pravega, stream: Stream) -> int:
    """Return where the watermarks of a stream end now, for `read_watermarks`; 0 if it has none."""
    try:
        segment_id, _ = _find_segment(pravega, stream)
        info = pravega.segments.segment_infos(mark_stream(stream), [segment_id]).get(segment_id)
        return 0 if info is None else info.write_offset
    except StreamNotFoundError:  # made by a server older than watermarks, or dropped
        return 0


def read_watermarks(pravega: Pravega, stream: Stream, start: int, end: int) -> Iterator[tuple[int, Watermark]]:
    """Yield the watermarks between two ends (0, or a result of `find_watermarks_end`), each with its own end.

    Raises StreamNotFoundError, and ProtocolError for bytes that no controller of Pravega 0.13 writes.
    """
    if start >= end:
        return
    segment_id, head = _find_segment(pravega, stream)
    marks = mark_stream(stream)
    reader = SegmentRangeReader(pravega.segments, marks, segment_id, max(start, head), end, window_bytes=_WINDOW)
    for window in reader:
        data = memoryview(window.data)
        for first, length in zip(window.starts.tolist(), window.lengths.tolist(), strict=True):
            yield window.base + first + length, decode_watermark(data[first : first + length])


def decode_watermark(data: bytes | memoryview) -> Watermark:
    """Return the watermark that Java's `Watermark.toByteBuf` has written. Raises ProtocolError."""
    what = "a watermark"
    fields = VersionedReader(data, what).revisions()[0]
    time, latest = fields.unpack("qq")
    ranges: dict[int, tuple[float, float]] = {}

    def read_segment() -> int:
        its = fields.revisions()[0]
        segment_id, *keys = its.unpack("qdd")
        ranges[segment_id] = (keys[0], keys[1])
        return int(segment_id)

    positions = fields.mapping(read_segment, lambda: fields.unpack("q")[0])
    if not positions:
        raise ProtocolError(f"{what} does not have the expected form: it names no segment")
    return Watermark(time, latest, positions, ranges)


def _find_segment(pravega: Pravega, stream: Stream) -> tuple[int, int]:
    """Return the only segment of the watermarks, and its start offset."""
    positions = pravega.controller.head(mark_stream(stream)).positions
    if len(positions) != 1:
        raise ProtocolError(f"the watermarks of stream '{stream}' are in {len(positions)} segments, not one")
    ((segment_id, start),) = positions.items()
    return segment_id, start
