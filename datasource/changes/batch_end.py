"""Where a batch of a stream of changes ends: where the stream ends, or as far before that as its limits want.

A batch that limits cut may end within a transaction, never within an event. Then the segments that it reads are those
of a micro-batch of a plain stream: the successors of a segment come after it, in a batch of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.sql import options as o

from ..commit_log import CommitLog
from ..stream_source.admission import Walker, admitted
from ..stream_source.frontier import end_within, entered, find_frontier
from ..stream_source.limits import Limits
from ..stream_source.memory import SourceMemory
from .position import Position, check_positions, end_position


@dataclass(frozen=True)
class Wanted:
    """How far a batch may go: within `limits` (None: to the end), and not beyond `last`, if it is there.

    `checkpoint` tells the query from others.
    """

    last: Position | None
    limits: Limits | None
    checkpoint: str
    memory: SourceMemory


def end_of_batch(
    pravega: Pravega, stream: Stream, options: o.Options, since: Position, wanted: Wanted, *, versioned: bool
) -> Position:
    """Return where the next batch ends: `since` itself if there is nothing new, or not enough.

    `versioned`: whether the position tells the newest version before it. Raises InvalidOptionError for positions that
    are none of the stream.
    """
    target = wanted.last or end_position(pravega, stream, options, since, versioned=versioned)
    if target.cut == since.cut:
        return since
    if wanted.limits is None:
        return target
    check_positions(pravega, stream, since, target)
    segments = wanted.memory.segments(pravega, stream)
    frontier = find_frontier(segments, since.cut.positions, target.cut)
    walker = Walker(pravega, stream, fail_on_data_loss=options.get(o.FAIL_ON_DATA_LOSS))
    query = wanted.memory.query(wanted.checkpoint)
    if wanted.last is None and not query.is_due(walker, frontier, wanted.limits):
        return since
    query.begin(frontier)
    ends = admitted(walker, frontier.begins, frontier.ends, wanted.limits)
    reached = entered(segments, since.cut.positions, ends, target.cut)
    if reached == since.cut.positions:
        return since
    if reached == target.cut.positions:
        return Position(target.cut, target.version, since.begin or since)
    version = _newest_before(pravega, stream, since, target, reached) if versioned else 0
    known = target.version if versioned else None
    return Position(StreamCut(stream, reached), version, since.begin or since, known)


def _newest_before(
    pravega: Pravega, stream: Stream, since: Position, target: Position, positions: Mapping[int, int]
) -> int:
    """Return the newest version whose rows lie before these positions; an older one where that cannot be told."""
    newest = since.version
    for version in CommitLog(pravega, stream).versions(since.version + 1, target.version):
        if any(offset < end_within(segment, version.cut) for segment, offset in positions.items()):
            break
        newest = version.number
    return newest
