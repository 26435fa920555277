"""Finds the position that a version, a tag, a stream cut or a time stands for, and checks that reads can end there."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, get_segment_epoch
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import DataLossError, InvalidOptionError
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version
from ..tables.change_range import AsOf
from .bounds import MarkedTimes, describe_mark, find_end_option, format_time, require_mark
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


def find_point_of_version(pravega: Pravega, stream: Stream, text: str, shown: str = "VERSION AS OF") -> Point:
    """Return the point that a version stands for: its number, a tag, or the text of a stream cut.

    `shown` is what errors call it. Raises InvalidOptionError if the stream has no such point; names the nearest ones.
    """
    text = text.strip()
    if text.isdecimal() and len(text) < 19:
        return _find_point_of_number(pravega, stream, int(text), shown)
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


def find_point_of_time(pravega: Pravega, stream: Stream, timestamp: int) -> Point:
    """Return the end of the newest version that was published at a time (microseconds since 1970) or before.

    In a stream without versions it is the newest watermark of such a time. Raises InvalidOptionError for a time in the
    future, or before all of them.
    """
    shown = f"TIMESTAMP AS OF '{format_time(timestamp)}'"
    if timestamp > time.time_ns() // 1000:
        raise InvalidOptionError(f"{shown} lies in the future. Give a past time.")
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
    marked = MarkedTimes.of(pravega, stream)
    if marked.marks:
        cut, reached = require_mark(marked, timestamp, shown)
        return Point(cut, about=describe_mark(reached))
    raise InvalidOptionError(
        f"{shown} is not possible on stream {stream}: no INSERT or streaming query has committed to it, and its "
        "writers note no times, from which Pravega makes watermarks. "
        f"{_describe_tags(Tags(pravega, stream).all())} Give "
        "VERSION AS OF with a tag or a stream cut: the metadata table stream_cuts lists the known ones."
    )


def find_end_now(pravega: Pravega, stream: Stream) -> Point:
    """Return the end of the stream, between two commits."""
    log = CommitLog(pravega, stream)
    cut, newest = log.tail(lambda until: until or measure_tail(pravega, stream))
    version = log.version(newest)
    return Point(cut, newest if version is not None and version.cut == cut else None)


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


def find_end_as_of(pravega: Pravega, stream: Stream, as_of: AsOf, options: o.Options) -> StreamCut:
    """Return the cut at which a read of a former state of a table ends.

    Raises InvalidOptionError if an option gives it another end, and DataLossError if events right before that position
    were removed, unless that is to be ignored.
    """
    if (option := find_end_option(options)) is not None:
        raise InvalidOptionError(
            f"'{options.name(option)}' and {as_of.asked} are both given, but a read has one end. Leave one of them out."
        )
    cut = StreamCut.from_text(as_of.cut)
    if options.get(o.FAIL_ON_DATA_LOSS) and _is_removed(pravega, cut):
        raise DataLossError(
            f"{as_of.asked} is not possible on stream {stream}: retention or truncation has removed events up "
            "to that position or beyond it. Ask for a later one (the metadata table history has the versions), or set "
            "'fail-on-data-loss' to false to read what is left."
        )
    return cut


def _is_removed(pravega: Pravega, cut: StreamCut) -> bool:
    """Return whether the stream begins after a cut in some segment, or at the cut after its events were removed."""
    head = pravega.controller.head(cut.stream)
    if head.positions == cut.positions:
        return any(offset or get_segment_epoch(segment) for segment, offset in cut.positions.items())
    try:
        pravega.controller.list_segments_between(head, cut)
    except InvalidOptionError:
        return True
    return False


def _find_point_of_number(pravega: Pravega, stream: Stream, number: int, shown: str) -> Point:
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
    raise InvalidOptionError(f"{shown} {number} is not possible on stream {stream}: {reason}.")


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
