"""Bounds of a scan or a stream: from the options to stream cuts.

A bound is a stream cut, a version of the table's commit log, the position of a consumer, or a time, which stands for
the versions published then. In a stream without versions, which only other programs write, a time stands for the
watermarks of its writers: they say how far these had come in event time at some positions. That is approximate: events
near a position may belong to either side.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.errors import ConsumerInUseError, ConsumerNotFoundError, InvalidOptionError, StreamNotFoundError
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version


def find_consumer_cut(pravega: Pravega, stream: Stream, options: o.Options) -> StreamCut:
    """Return the position of the consumer in the options; the read does not move it.

    Raises InvalidOptionError if no consumer is named, ConsumerNotFoundError if the stream has none of that name,
    ConsumerInUseError for a reader group whose readers keep the position, StreamNotFoundError, PermissionDeniedError.
    """
    start = f"'{options.name(o.START_STREAM_CUT)}'='{o.AT_CONSUMER}'"
    name = options.get(o.CONSUMER)
    if name is None:
        raise InvalidOptionError(f"{start} needs '{o.CONSUMER.key}', the consumer where the read begins. Give both.")
    consumers = {one.name: one for one in list_consumers(pravega, stream) if one.scope == stream.scope}
    consumer = consumers.get(name)
    if consumer is None:
        near = difflib.get_close_matches(name, consumers, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConsumerNotFoundError(
            f"{start}: stream {stream} has no consumer '{name}'. Its consumers: "
            f"{', '.join(sorted(consumers)) or 'none'}.{hint} The procedure create_consumer makes one, and so does a "
            "streaming query with another start."
        )
    if consumer.position is None:
        raise ConsumerInUseError(
            f"{start}: '{name}' is a reader group of other clients, which keep the positions of its readers to "
            "themselves. Name a consumer of this package, or give a stream cut."
        )
    return consumer.position


FIRST_MILLIS, LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999 in milliseconds since 1970. Writers may note other numbers, which are not times."""


@dataclass(frozen=True)
class MarkedTimes:
    """The watermarks of a stream whose numbers are times, oldest first. Times are microseconds since 1970."""

    stream: Stream
    marks: tuple[Watermark, ...]

    @classmethod
    def of(cls, pravega: Pravega, stream: Stream) -> MarkedTimes:
        """Read all watermarks of a stream. Raises PermissionDeniedError."""
        try:
            numbered = read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))
            marks = tuple(mark for _, mark in numbered if FIRST_MILLIS <= mark.time <= mark.latest <= LAST_MILLIS)
        except StreamNotFoundError:  # made by a server older than watermarks
            marks = ()
        return cls(stream, marks)

    def find_last_by(self, time: int) -> tuple[StreamCut, int] | None:
        """Return the newest position that all writers had reached by a time, and its own time."""
        return self._find_newest(lambda mark: mark.time * 1000 <= time)

    def find_last_before(self, time: int) -> tuple[StreamCut, int] | None:
        """Return the newest position at which no writer had noted a time, and its own time.

        Events before it may still have that time, if their writer had not noted it yet.
        """
        return self._find_newest(lambda mark: mark.latest * 1000 + 999 < time)

    def _find_newest(self, fits: Callable[[Watermark], bool]) -> tuple[StreamCut, int] | None:
        for mark in reversed(self.marks):
            if fits(mark):
                # Writers note -1 for segments that they have not written to.
                positions = {segment: max(0, offset) for segment, offset in mark.positions.items()}
                return StreamCut(self.stream, positions), mark.time * 1000
        return None


STARTS: tuple[o.Option[Any], ...] = (o.START_STREAM_CUT, o.START_VERSION, o.START_TIMESTAMP)
ENDS: tuple[o.Option[Any], ...] = (o.END_STREAM_CUT, o.END_VERSION, o.END_TIMESTAMP)
_OPEN_ENDS = ("earliest", "latest", "unbounded")
_NAMES = {o.START_STREAM_CUT.key: ("earliest", "latest", o.AT_CONSUMER), o.END_STREAM_CUT.key: ("latest",)}
"""The names that may stand for a stream cut, for error messages."""


@dataclass(frozen=True)
class Bound:
    """Where a read begins or ends: a cut, None for an open end.

    `about` says in words by which watermark it was found, if it stands for a time only approximately.
    """

    cut: StreamCut | None
    about: str | None = None


def find_start_bound(pravega: Pravega, stream: Stream, options: o.Options, delay: int = 0) -> Bound:
    """Return where a read begins; None for the oldest event, and for `latest`, which is not a cut.

    `delay`: by how many milliseconds the times that the stream's writers note are earlier than the latest they wrote.

    Raises InvalidOptionError for a bound that the stream does not have and for more than one bound, and the errors of
    `find_consumer_cut`.
    """
    option = _find_only(options, STARTS)
    if options.get(o.START_STREAM_CUT) == o.AT_CONSUMER:
        return Bound(find_consumer_cut(pravega, stream, options))
    log = CommitLog(pravega, stream)
    if option is o.START_VERSION:
        first = options.require(o.START_VERSION)
        return Bound(None if first == 1 else _find_cut(log, stream, options, option, first - 1))
    if option is o.START_TIMESTAMP:
        time = _read_microseconds(options, o.START_TIMESTAMP)
        oldest = _find_oldest(pravega, stream, log, options, o.START_TIMESTAMP)
        if isinstance(oldest, MarkedTimes):
            return _make_bound_of_mark(oldest.find_last_before(time - 1000 * delay))
        before = log.find_newest_by(time - 1)
        return Bound(None if before is None else before.cut)
    return Bound(read_named_cut(options, o.START_STREAM_CUT))


def find_end_bound(pravega: Pravega, stream: Stream, options: o.Options) -> Bound:
    """Return where a read ends; None for the end of the stream.

    Raises InvalidOptionError for a bound that the stream does not have, and for more than one.
    """
    option = _find_only(options, ENDS)
    log = CommitLog(pravega, stream)
    if option is o.END_VERSION:
        last = options.require(o.END_VERSION)
        return Bound(_find_cut(log, stream, options, option, last))
    if option is o.END_TIMESTAMP:
        time = _read_microseconds(options, o.END_TIMESTAMP)
        oldest = _find_oldest(pravega, stream, log, options, o.END_TIMESTAMP)
        shown = f"'{options.name(option)}'='{options.text(option)}'"
        if isinstance(oldest, MarkedTimes):
            return _make_bound_of_mark(require_mark(oldest, time, shown))
        within = log.find_newest_by(time)
        if within is None:
            raise InvalidOptionError(
                f"{shown} lies before the first version of stream {stream}, which was published at "
                f"{format_time(oldest.timestamp)}. Give a later time."
            )
        return Bound(within.cut)
    return Bound(read_named_cut(options, o.END_STREAM_CUT))


def _make_bound_of_mark(mark: tuple[StreamCut, int] | None) -> Bound:
    return Bound(None) if mark is None else Bound(mark[0], describe_mark(mark[1]))


def require_mark(marked: MarkedTimes, time: int, shown_time: str) -> tuple[StreamCut, int]:
    """Return the newest position that all writers had reached by a time, and its own time.

    `shown_time` is what errors call the time. Raises InvalidOptionError if it lies before the first watermark.
    """
    mark = marked.find_last_by(time)
    if mark is None:
        raise InvalidOptionError(
            f"{shown_time} lies before the first watermark of stream {marked.stream}, which is of "
            f"{format_time(marked.marks[0].time * 1000)}. Give a later time."
        )
    return mark


def describe_mark(time: int) -> str:
    """Return the words for a position that was found by the watermark of a time (microseconds since 1970)."""
    return f"about, by the watermark of {format_time(time)}"


def read_named_cut(options: o.Options, option: o.Option[str]) -> StreamCut | None:
    """Return the stream cut that an option names, None for an open end. Raises InvalidOptionError."""
    text = options.get(option)
    if text in _OPEN_ENDS:
        return None
    try:
        return StreamCut.from_text(text)
    except InvalidOptionError as error:
        names = _NAMES[option.key]
        allowed = ", ".join(f"'{name}'" for name in names[:-1])
        allowed = f"{allowed} or '{names[-1]}'" if allowed else f"'{names[-1]}'"
        near = difflib.get_close_matches(text.lower(), names, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise InvalidOptionError(f"'{options.name(option)}': {error.message}, or {allowed}.{hint}") from None


def describe_bounds(options: o.Options) -> tuple[str, str]:
    """Return two texts: the first is equal for reads with the same start, the second for those with the same end."""
    start, end = (
        ",".join(f"{option.key}={options.text(option)}" for option in group if options.is_set(option))
        for group in (STARTS, ENDS)
    )
    return start, end


def check_unbounded(options: o.Options, what: str) -> None:
    """Raise InvalidOptionError if options give bounds to a read that cannot have them; `what` says why."""
    for option in (*STARTS, *ENDS):
        if options.is_set(option) and options.get(option) not in ("earliest", "unbounded"):
            raise InvalidOptionError(f"{what} Leave '{options.name(option)}' out.")


def find_end_option(options: o.Options) -> o.Option[Any] | None:
    """Return the option that gives a read its end, None if none is set. Raises InvalidOptionError for two of them."""
    return _find_only(options, ENDS)


def has_end(options: Mapping[str, str]) -> bool:
    """Return whether the options of a streaming read give it an end, which then lies in the past."""
    read = o.resolve(read=options, env={})
    option = find_end_option(read)
    return option is not None and read.get(option) not in _OPEN_ENDS


def _find_only(options: o.Options, group: tuple[o.Option[Any], ...]) -> o.Option[Any] | None:
    options_set = [option for option in group if options.is_set(option)]
    if len(options_set) > 1:
        names = " and ".join(f"'{options.name(option)}'" for option in options_set)
        raise InvalidOptionError(f"{names} are given, but a read can have only one of them. Leave the others out.")
    return options_set[0] if options_set else None


def _find_cut(log: CommitLog, stream: Stream, options: o.Options, option: o.Option[Any], number: int) -> StreamCut:
    if (version := log.version(number)) is not None:
        return version.cut
    newest = log.newest()
    if not newest:
        allowed = "it has no versions, because nothing was committed to it. Leave the option out"
    else:
        allowed = f"its newest version is {newest}. Give an existing one"
    raise InvalidOptionError(
        f"'{options.name(option)}'='{options.text(option)}' does not fit stream {stream}: {allowed}."
    )


def _find_oldest(
    pravega: Pravega, stream: Stream, log: CommitLog, options: o.Options, option: o.Option[datetime | None]
) -> Version | MarkedTimes:
    """Return the oldest version, or the watermarks of a stream without versions, by which a time can be a bound.

    Raises InvalidOptionError if it cannot be one.
    """
    oldest: Version | MarkedTimes | None = log.version(1)
    if oldest is None:
        oldest = MarkedTimes.of(pravega, stream)
        if not oldest.marks:
            raise InvalidOptionError(
                f"'{options.name(option)}' cannot be used on stream {stream}: no INSERT or streaming query has "
                "committed to it, and its writers note no times, from which Pravega makes watermarks. Give "
                "'start-stream-cut' or 'end-stream-cut' instead."
            )
    moment = options.require(option)
    if moment.timestamp() > time.time():
        raise InvalidOptionError(
            f"'{options.name(option)}'='{moment.isoformat()}' lies in the future. Give a past time."
        )
    return oldest


def _read_microseconds(options: o.Options, option: o.Option[datetime | None]) -> int:
    return round(options.require(option).timestamp() * 1_000_000)


def format_time(microseconds: int) -> str:
    """Return a time (microseconds since 1970) in UTC."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()
