"""Checks that positions in arguments lie between events: the server accepts and keeps any position."""

from __future__ import annotations

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.event_frames import BrokenFrameError
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.points_in_time import Point, find_end_now, find_point_of_version
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice, check_cut
from pyspark_pravega.datasource.scan.borders import start_later
from pyspark_pravega.datasource.scan.places import Span
from pyspark_pravega.errors import InvalidOptionError

HEAD, TAIL = "head", "tail"
MOST_WALKED = 256 << 20
"""The most bytes that are read to check whether a stream cut lies between events."""


def find_point(pravega: Pravega, stream: Stream, name: str, text: str) -> Point:
    """Return the point between events that an argument names: HEAD, TAIL, a version, a tag or a stream cut.

    Raises InvalidOptionError if the stream has no such point, and for a stream cut that lies within an event or after
    the tail, or for which that cannot be checked.
    """
    word = text.strip().lower()
    if word == HEAD:
        return Point(pravega.controller.head(stream))
    if word == TAIL:
        return find_end_now(pravega, stream)
    point = find_point_of_version(pravega, stream, text, f"'{name}' =>")
    check_cut(pravega, stream, name, point.cut)  # a tag may come from an older stream of this name
    if point.version is None:
        _check_between_events(pravega, stream, name, point.cut)
    return point


def _check_between_events(pravega: Pravega, stream: Stream, name: str, cut: StreamCut) -> None:
    """Raise InvalidOptionError unless a cut lies between events; a tag may stand for any cut, too."""
    infos = pravega.segments.segment_infos(stream, list(cut.positions))
    log, walked = CommitLog(pravega, stream), 0
    for segment, offset in cut.positions.items():
        info = infos.get(segment)
        if info is None or offset < info.start_offset:
            continue  # before the head: the user of the position finds that out
        if offset > info.write_offset:
            raise InvalidOptionError(
                f"'{name}' asks for offset {offset:,} of segment {segment} of stream {stream}, which ends at "
                f"{info.write_offset:,}. Give a version, a tag, '{TAIL}', or a stream cut of the metadata tables."
            )
        if offset in (info.start_offset, info.write_offset):
            continue
        piece = SegmentSlice(segment, info.start_offset, offset)
        [(border, _)] = start_later(log, [(piece, Span(offset, offset, every=True))], worth=1)
        walked += offset - border.start
        if walked > MOST_WALKED:
            raise InvalidOptionError(
                f"The stream cut in '{name}' cannot be checked: to see that it lies between events of {stream}, more "
                f"than {MOST_WALKED >> 20} MiB would have to be read. Give a version, '{TAIL}', or a stream cut of "
                "the metadata table history."
            )
        try:
            for _window in SegmentRangeReader(pravega.segments, stream, segment, border.start, offset):
                pass
        except BrokenFrameError:
            raise InvalidOptionError(
                f"'{name}' asks for offset {offset:,} of segment {segment} of stream {stream}, which lies within an "
                f"event. Give a version, a tag, '{TAIL}', or a stream cut of the metadata tables."
            ) from None
