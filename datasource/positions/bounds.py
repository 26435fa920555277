"""Bounds of a scan or a stream: from the options to stream cuts.

A bound is a stream cut, a version of the table's commit log, the position of a consumer or reader group, or a time.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import find_group_position, list_reader_groups
from pyspark_pravega.client.stream import Stream, get_segment_epoch
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import ConsumerInUseError, ConsumerNotFoundError, DataLossError, InvalidOptionError
from pyspark_pravega.sql import options as o

from ..tables.change_range import AsOf
from .lake_history import History
from .points_in_time import Point, find_point_before_time, find_point_of_number, find_point_of_time


def find_group_cut(pravega: Pravega, stream: Stream, options: o.Options) -> StreamCut:
    """Return the position of the consumer or reader group at which options let a read begin; the read does not move it.

    Raises InvalidOptionError if no consumer is named, ConsumerNotFoundError if none of that name reads the stream,
    ConsumerInUseError if it has no position, StreamNotFoundError, PermissionDeniedError.
    """
    text = options.get(o.START_STREAM_CUT)
    start = f"'{options.name(o.START_STREAM_CUT)}'='{text}'"
    name = options.get(o.CONSUMER) if text == o.AT_CONSUMER else text[len(o.AT_GROUP) :]
    if name is None:
        raise InvalidOptionError(f"{start} needs '{o.CONSUMER.key}', the consumer where the read begins. Give both.")
    group = pravega.controller.reader_group(stream.scope, name) if name else None
    if group is None or stream not in group.streams:
        names = [one.name for one in list_reader_groups(pravega, stream)]
        kind, cure = "reader group", "The client that reads with a group creates it."
        if text == o.AT_CONSUMER:
            kind = "consumer"
            cure = "The procedure create_consumer makes one, and so does a streaming query with another start."
        raise ConsumerNotFoundError(
            f"{start}: stream {stream} has no {kind} '{name}'. Its consumers and reader groups: "
            f"{', '.join(names) or 'none'}.{_suggest(name, names)} {cure}"
        )
    position = find_group_position(pravega, stream, group.scope, group.name)
    if position is None:
        raise ConsumerInUseError(
            f"{start}: '{name}' has no position in stream {stream} now: it is being created, is of an older stream of "
            "this name, has read one of several segments that were merged, or has come to its end. Let its readers go "
            "on and make a checkpoint, or give a stream cut."
        )
    return position


STARTS: tuple[o.Option[Any], ...] = (o.START_STREAM_CUT, o.START_VERSION, o.START_TIMESTAMP)
ENDS: tuple[o.Option[Any], ...] = (o.END_STREAM_CUT, o.END_VERSION, o.END_TIMESTAMP)
_OPEN_ENDS = ("earliest", "latest", "unbounded")
_NAMES = {
    o.START_STREAM_CUT.key: ("earliest", "latest", o.AT_CONSUMER, f"{o.AT_GROUP}<name>"),
    o.END_STREAM_CUT.key: ("latest",),
}
"""The names that may stand for a stream cut, for error messages."""


def find_start_bound(pravega: Pravega, stream: Stream, options: o.Options, delay: int = 0) -> Point | None:
    """Return where a read begins; None for the oldest event, and for `latest`, which is not a cut.

    `delay`: by how many milliseconds the times that the stream's writers note are earlier than the latest they wrote.

    Raises InvalidOptionError for a bound that the stream does not have and for more than one bound, and the errors of
    `find_group_cut`.
    """
    option = _find_only(options, STARTS)
    if (start := options.get(o.START_STREAM_CUT)) == o.AT_CONSUMER or start.startswith(o.AT_GROUP):
        return Point(find_group_cut(pravega, stream, options))
    if option is o.START_VERSION:
        first = options.require(o.START_VERSION)
        return None if first == 1 else find_point_of_number(pravega, stream, first - 1, _show(options, option))
    if option is o.START_TIMESTAMP:
        time = _read_microseconds(options, o.START_TIMESTAMP)
        return find_point_before_time(pravega, stream, time, _show(options, option), delay)
    return _read_named_cut(options, o.START_STREAM_CUT, stream)


def find_end_bound(pravega: Pravega, stream: Stream, options: o.Options) -> Point | None:
    """Return where a read ends; None for the end of the stream.

    Raises InvalidOptionError for a bound that the stream does not have, and for more than one.
    """
    option = _find_only(options, ENDS)
    if option is o.END_VERSION:
        last = options.require(o.END_VERSION)
        return find_point_of_number(pravega, stream, last, _show(options, option))
    if option is o.END_TIMESTAMP:
        time = _read_microseconds(options, o.END_TIMESTAMP)
        return find_point_of_time(pravega, stream, time, _show(options, option))
    return _read_named_cut(options, o.END_STREAM_CUT, stream)


def _show(options: o.Options, option: o.Option[Any]) -> str:
    return f"'{options.name(option)}'='{options.text(option)}'"


def find_end_as_of(
    pravega: Pravega, stream: Stream, as_of: AsOf, options: o.Options, history: History | None = None
) -> StreamCut:
    """Return the cut at which a read of a former state of a table, with its history, ends.

    Raises InvalidOptionError if an option gives it another end, and DataLossError if events right before that position
    were removed, unless that is to be ignored.
    """
    if (option := find_end_option(options)) is not None:
        raise InvalidOptionError(
            f"'{options.name(option)}' and {as_of.asked} are both given, but a read has one end. Leave one of them out."
        )
    cut = StreamCut.from_text(as_of.cut)
    head = pravega.controller.head(stream) if history is None else history.begin
    if options.get(o.FAIL_ON_DATA_LOSS) and _is_removed(pravega, head, cut):
        raise DataLossError(
            f"{as_of.asked} is not possible on stream {stream}: retention or truncation has removed events up "
            "to that position or beyond it. Ask for a later one (the metadata table history has the versions), or set "
            "'fail-on-data-loss' to false to read what is left."
        )
    return cut


def _is_removed(pravega: Pravega, head: StreamCut, cut: StreamCut) -> bool:
    """Return whether the stream begins after a cut in some segment, or at the cut after its events were removed."""
    if head.positions == cut.positions:
        return any(offset or get_segment_epoch(segment) for segment, offset in cut.positions.items())
    try:
        pravega.controller.list_segments_between(head, cut)
    except InvalidOptionError:
        return True
    return False


def _read_named_cut(options: o.Options, option: o.Option[str], stream: Stream) -> Point | None:
    """Return the stream cut that an option names, of several that of a stream; None for an open end."""
    text = options.get(option)
    if text in _OPEN_ENDS:
        return None
    try:
        cuts = [StreamCut.from_text(each) for each in text.split(";")]
        own = [cut for cut in cuts if cut.stream == stream] or cuts
        if len(own) == 1:
            return Point(own[0])
        raise InvalidOptionError(f"it has {len(cuts)} stream cuts; give one of stream {stream} among them")
    except InvalidOptionError as error:
        names = _NAMES[option.key]
        allowed = ", ".join(f"'{name}'" for name in names[:-1])
        allowed = f"{allowed} or '{names[-1]}'" if allowed else f"'{names[-1]}'"
        hint = _suggest(text.lower(), names)
        raise InvalidOptionError(f"'{options.name(option)}': {error.message}, or {allowed}.{hint}") from None


def _suggest(text: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(text, list(names), 1)
    return f" Did you mean '{near[0]}'?" if near else ""


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


def _read_microseconds(options: o.Options, option: o.Option[datetime | None]) -> int:
    return round(options.require(option).timestamp() * 1_000_000)
