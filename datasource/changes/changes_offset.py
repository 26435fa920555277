"""Offsets of a stream of changes: where its batches end, and the checks that all queries with CHANGES share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import CheckpointError, InvalidOptionError, PermissionDeniedError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_consumer, refuse_streaming_options

from ..commit_log.commit_log import CommitLog
from ..positions.bounds import check_unbounded
from ..positions.identity import Creation, StreamIdentity, find_creation, make_creation_member, read_creation_member
from ..positions.snapshot import find_end_within, measure_tail
from ..stream_source.admission import Limits, admit
from ..stream_source.frontier import check_reached, enter_successors, find_frontier, pause_between_looks
from ..stream_source.offset import describe_other_stream
from ..stream_source.source import StreamReader
from ..stream_source.tiered_segments import join_history, make_walk
from ..tables.change_range import ChangeRange
from ..tables.open_table import OpenTable

_IDLE_SECONDS = 0.2
"""Pause at the end of a sealed stream, because Spark asks a hundred times a second."""


@dataclass(frozen=True)
class ChangesOffset:
    """The end of a micro-batch: the newest version before it (0 without versions), and where its query began.

    `begin` is None for the first offset of a query. `known` is the newest version that existed, if a limit ended the
    batch before it. `created`: a segment, and when it was created (see `datasource/positions/identity.py`); a begin has
    none of its own.
    """

    cut: StreamCut
    version: int
    begin: ChangesOffset | None = None
    known: int | None = None
    created: Creation | None = None

    def to_json(self) -> str:
        """Return the text that Spark keeps in its checkpoint."""
        return json.dumps({"stream": str(self.cut.stream), **self._members(), **make_creation_member(self.created)})

    def _members(self) -> dict[str, Any]:
        positions = {str(segment): offset for segment, offset in sorted(self.cut.positions.items())}
        begin = None if self.begin is None else self.begin._members()
        known = {} if self.known is None else {"known": self.known}
        return {"version": self.version, "positions": positions, "begin": begin, **known}

    @classmethod
    def from_json(cls, text: str) -> ChangesOffset:
        """Read what `to_json` wrote. Raises CheckpointError for anything else."""
        try:
            value = json.loads(text)
            scope, _, name = value["stream"].partition("/")
            return replace(cls._of(Stream(scope, name), value), created=read_creation_member(value))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CheckpointError(
                f"The checkpoint is damaged, or belongs to another kind of query: its position {text} is not one of a "
                "stream of changes. Start the query with a new checkpoint location."
            ) from None

    @classmethod
    def _of(cls, stream: Stream, value: dict[str, Any]) -> ChangesOffset:
        cut = StreamCut(stream, {int(segment): offset for segment, offset in value["positions"].items()})
        begin = None if value["begin"] is None else cls._of(stream, value["begin"])
        return cls(cut, value["version"], begin, value.get("known"))


def check_options(options: o.Options, *, streaming: bool = False) -> None:
    """Raise InvalidOptionError for options that CHANGES does not have: bounds of a scan, and those of micro-batches."""
    if not streaming:
        refuse_consumer(options, "a batch of CHANGES", begins=False)
    refuse_streaming_options(options, "CHANGES")
    check_unbounded(options, "CHANGES has bounds of its own.")


def check_endless(changes: ChangeRange, options: o.Options) -> None:
    """Raise InvalidOptionError for a range that a stream of changes cannot have."""
    check_options(options, streaming=True)
    if changes.end is not None:
        raise InvalidOptionError(
            f"A stream of changes has no end, but {changes.unit} {changes.end} was given as one. Leave it out, or read "
            "with spark.read.changes."
        )


def check_positions(pravega: Pravega, stream: Stream, since: ChangesOffset, until: ChangesOffset) -> ChangesOffset:
    """Return where a batch between two positions begins.

    Raises CheckpointError for positions that do not exist in the stream, or are those of another cluster.
    """
    _check_creation(pravega, stream, since, until)
    if since.begin is None and until.begin is not None:
        since = until.begin  # Spark repeats the first batch, and has asked again where to begin
    checks = [run_in_background(partial(_check_cut, pravega, stream, position.cut)) for position in (since, until)]
    for done in checks:
        done()
    return since


def _check_creation(pravega: Pravega, stream: Stream, *positions: ChangesOffset) -> None:
    present = StreamIdentity("", find_creation(pravega, stream))
    for position in positions:
        former = StreamIdentity("", position.created)
        if former.is_of_other_time(present):
            raise CheckpointError(describe_other_stream(stream, str(former), str(present)))


def _check_cut(pravega: Pravega, stream: Stream, cut: StreamCut) -> None:
    if cut.stream != stream or not pravega.known_streams.is_cut(cut):
        raise CheckpointError(
            f"The checkpoint's position {cut} does not exist in stream {stream}. Was the stream dropped "
            "and recreated? Start the query with a new checkpoint location."
        )


def find_tail(
    pravega: Pravega, stream: Stream, options: o.Options, segments: Sequence[int] = (), *, needs_log: bool = True
) -> ChangesOffset:
    """Return where the stream ends now, between two transactions, with the newest version before it.

    `segments` are segments that were current. A user who may not read the log gets version 0, unless it `needs_log`.
    """
    log = CommitLog(pravega, stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())

    def measure(published: StreamCut | None) -> StreamCut:
        return published or measure_tail(pravega, stream, segments)

    try:
        cut, head = log.tail(measure)
        version = head.version
    except PermissionDeniedError:
        if needs_log:
            raise
        cut, version = log.measure_settled(measure), 0
    return ChangesOffset(cut, version, created=find_creation(pravega, stream))


def find_end_position(
    pravega: Pravega, stream: Stream, options: o.Options, since: ChangesOffset, *, needs_log: bool = True
) -> ChangesOffset:
    """Return where the stream ends now, as `find_tail`; `since` itself, after a pause, if it still ends there."""
    if _is_still(pravega, stream, since.cut):
        pause_between_looks(len(since.cut.positions))
        return since
    tail = find_tail(pravega, stream, options, tuple(since.cut.positions), needs_log=needs_log)
    if tail.cut == since.cut:  # its segments are sealed, and no others follow
        cancellation.sleep(_IDLE_SECONDS)
        return since
    return replace(tail, begin=_find_begin(since))


def _find_begin(since: ChangesOffset) -> ChangesOffset:
    return replace(since.begin or since, created=None)


def _is_still(pravega: Pravega, stream: Stream, end: StreamCut) -> bool:
    """Return whether a stream still ends at a cut: no segment of it has grown, or was sealed or removed."""
    infos = pravega.segments.segment_infos(stream, end.positions)
    check_reached(stream, end.positions, infos)
    return infos.keys() == end.positions.keys() and not any(
        info.sealed or info.write_offset != end.positions[segment] for segment, info in infos.items()
    )


def find_end_of_batch(
    opened: OpenTable,
    reader: StreamReader,
    since: ChangesOffset,
    last: ChangesOffset | None,
    limits: Limits,
    *,
    needs_log: bool,
) -> ChangesOffset:
    """Return where the next batch ends: not beyond `last`, or `since` itself if there is nothing new, or not enough.

    Raises CheckpointError for positions that do not exist in the stream, or are those of another cluster.
    """
    pravega, stream, options = opened.pravega, opened.stream, opened.options
    _check_creation(pravega, stream, since)
    target = last or find_end_position(pravega, stream, options, since, needs_log=needs_log)
    if target.cut == since.cut:
        return since
    check_positions(pravega, stream, since, target)
    segments = join_history(opened, reader.memory.segments(pravega, stream))
    frontier = find_frontier(segments, since.cut.positions, target.cut)
    walk = make_walk(opened)
    query = reader.memory.query(reader.checkpoint)
    if last is None and not query.is_due(walk, frontier.begins, frontier.ends, limits):
        return since
    query.begin(frontier)
    ends = admit(walk, frontier.begins, frontier.ends, limits)
    reached = enter_successors(segments, since.cut.positions, ends, target.cut)
    if reached == since.cut.positions:
        return since
    if reached == target.cut.positions:
        return replace(target, begin=_find_begin(since), known=None)
    version = _find_newest_before(pravega, stream, since, target, reached)
    return ChangesOffset(StreamCut(stream, reached), version, _find_begin(since), target.version, target.created)


def _find_newest_before(
    pravega: Pravega, stream: Stream, since: ChangesOffset, target: ChangesOffset, positions: Mapping[int, int]
) -> int:
    """Return the newest version whose rows lie before these positions, or an older one if that is unknown."""
    newest = since.version
    for version in CommitLog(pravega, stream).versions(since.version + 1, target.version):
        if any(offset < find_end_within(segment, version.cut) for segment, offset in positions.items()):
            break
        newest = version.number
    return newest
