"""Finds the position that a version, a tag, a stream cut or a time stands for.

A time stands for the versions published then. In a stream without versions, which only other programs write, it stands
for the watermarks of its writers: they say how far these had come in event time at some positions. That is approximate:
events near a position may belong to either side.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.errors import InvalidOptionError

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version
from .snapshot import check_cut, measure_tail
from .tags import Tag, Tags

_SHOWN_TAGS = 10


@dataclass(frozen=True)
class Point:
    """A position in a stream, and the version that ends there, if one is known.

    `about` says in words how it was found, if it is approximate.
    """

    cut: StreamCut
    version: int | None = None
    about: str | None = None


FIRST_MILLIS, LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999 in milliseconds since 1970. Writers may note other numbers, which are not times."""


def _read_marks(pravega: Pravega, stream: Stream, shown: str) -> list[Watermark]:
    """Return the watermarks of a stream whose numbers are times, oldest first; `shown` is what errors call a time.

    Raises InvalidOptionError if there are none, PermissionDeniedError.
    """
    numbered = read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))
    marks = [mark for _, mark in numbered if FIRST_MILLIS <= mark.time <= mark.latest <= LAST_MILLIS]
    if not marks:
        raise InvalidOptionError(
            f"{shown} is not possible on stream {stream}: no INSERT or streaming query has committed to it, and "
            "its writers note no times, from which Pravega makes watermarks. "
            f"{_describe_tags(Tags(pravega, stream).all())} Give a tag or a stream cut, by VERSION AS OF or the "
            "options 'start-stream-cut' and 'end-stream-cut': the metadata table stream_cuts lists the known ones."
        )
    return marks


def _find_newest(stream: Stream, marks: Sequence[Watermark], fits: Callable[[Watermark], bool]) -> Point | None:
    for mark in reversed(marks):
        if fits(mark):
            # Writers note -1 for segments that they have not written to.
            positions = {segment: max(0, offset) for segment, offset in mark.positions.items()}
            about = f"about, by the watermark of {format_time(mark.time * 1000)}"
            return Point(StreamCut(stream, positions), about=about)
    return None


def find_point_of_version(pravega: Pravega, stream: Stream, text: str, shown: str = "VERSION AS OF") -> Point:
    """Return the point that a version stands for: its number, a tag, or the text of a stream cut.

    `shown` is what errors call it. Raises InvalidOptionError if the stream has no such point; names the nearest ones.
    """
    text = text.strip()
    if text.isdecimal() and len(text) < 19:
        return find_point_of_number(pravega, stream, int(text), f"{shown} {int(text)}")
    tags = Tags(pravega, stream).all()
    for tag in tags:
        if tag.name == text:
            return Point(tag.cut, tag.version)
    try:
        cut = StreamCut.from_text(text)
    except InvalidOptionError as error:
        raise InvalidOptionError(
            f"{shown} '{text[:80]}' is neither a version number nor a tag. {_describe_tags(tags, text)} As a stream "
            f"cut: {error.message}."
        ) from None
    check_cut(pravega, stream, shown, cut)
    return Point(cut)


def find_point_of_number(pravega: Pravega, stream: Stream, number: int, shown: str) -> Point:
    """Return the end of a version. `shown` is what errors call it.

    Raises InvalidOptionError if the log does not have it; names the nearest one.
    """
    log = CommitLog(pravega, stream)
    if (version := log.version(number)) is not None:
        return Point(version.cut, number)
    first, newest = log.version(1), log.newest()
    if first is None:
        reason = (
            "it has no versions, because no INSERT or streaming query has committed to it. Give a tag or a stream cut: "
            "the metadata tables tags and stream_cuts list the known ones"
        )
    elif number < first.number:
        reason = f"the oldest one in its commit log is {_describe_version(first)}"
    else:
        reason = f"the newest one is {_describe_version(log.version(newest) or first)}"
    raise InvalidOptionError(f"{shown} is not possible on stream {stream}: {reason}.")


def find_point_of_time(pravega: Pravega, stream: Stream, timestamp: int, shown: str) -> Point:
    """Return the end of the newest version that was published at a time (microseconds since 1970) or before.

    In a stream without versions it is the newest watermark of such a time. `shown` is what errors call the time. Raises
    InvalidOptionError for a time in the future, or before all of them.
    """
    _check_past(timestamp, shown)
    log = CommitLog(pravega, stream)
    version = log.find_newest_by(timestamp)
    if version is not None:
        return Point(version.cut, version.number)
    first = log.version(1)
    if first is not None:
        raise InvalidOptionError(
            f"{shown} lies before {_describe_version(first)}, which is the oldest version of stream {stream} in its "
            "commit log. Give that time or a later one."
        )
    marks = _read_marks(pravega, stream, shown)
    point = _find_newest(stream, marks, lambda mark: mark.time * 1000 <= timestamp)  # all writers had reached it
    if point is None:
        raise InvalidOptionError(
            f"{shown} lies before the first watermark of stream {stream}, which is of "
            f"{format_time(marks[0].time * 1000)}. Give a later time."
        )
    return point


def find_point_before_time(pravega: Pravega, stream: Stream, timestamp: int, shown: str, delay: int) -> Point | None:
    """Return the end of the newest version that was published before a time; None if that is before all of them.

    In a stream without versions it is the newest watermark before that time, less a `delay` in milliseconds. Raises
    InvalidOptionError for a time in the future.
    """
    _check_past(timestamp, shown)
    log = CommitLog(pravega, stream)
    version = log.find_newest_by(timestamp - 1)
    if version is not None:
        return Point(version.cut, version.number)
    if log.version(1) is not None:
        return None
    before = timestamp - 1000 * delay
    # No writer had noted that time. Earlier events may still have it, if their writer had not noted it yet.
    return _find_newest(stream, _read_marks(pravega, stream, shown), lambda mark: mark.latest * 1000 + 999 < before)


def _check_past(timestamp: int, shown: str) -> None:
    if timestamp > time.time_ns() // 1000:
        raise InvalidOptionError(f"{shown} lies in the future. Give a past time.")


def find_end_now(pravega: Pravega, stream: Stream) -> Point:
    """Return the end of the stream, between two commits."""
    log = CommitLog(pravega, stream)
    cut, head = log.tail(lambda until: until or measure_tail(pravega, stream))
    version = log.version(head.version)
    return Point(cut, head.version if version is not None and version.cut == cut else None)


def create_tag(
    pravega: Pravega, stream: Stream, name: str, version: str | None = None, *, replace: bool = False
) -> Tag:
    """Name the position of a version (as `find_point_of_version` takes it), or by default the end of the stream now.

    Raises InvalidNameError for a name that cannot be a tag, or without `replace` is one already, InvalidOptionError
    for a position that the stream does not have, StreamNotFoundError, PermissionDeniedError.
    """

    def find() -> tuple[StreamCut, int | None]:
        point = find_end_now(pravega, stream) if version is None else find_point_of_version(pravega, stream, version)
        return point.cut, point.version

    return Tags(pravega, stream).create(name, find, replace=replace)


def _describe_tags(tags: list[Tag], text: str = "") -> str:
    if not tags:
        return "The stream has no tags."
    names = [tag.name for tag in tags]
    near = difflib.get_close_matches(text, names, 1)
    newest = [f"'{tag.name}' ({format_time(tag.created)})" for tag in tags[-_SHOWN_TAGS:]]
    hint = f" Did you mean '{near[0]}'?" if near else ""
    some = "newest tags" if len(tags) > len(newest) else "tags"
    return f"Its {some}, with the times they were made: {', '.join(newest)}.{hint}"


def _describe_version(version: Version) -> str:
    return f"{version.number}, published at {format_time(version.timestamp)}"


def format_time(microseconds: int) -> str:
    """Return a time (microseconds since 1970) in UTC."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()
