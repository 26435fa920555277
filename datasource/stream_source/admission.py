"""Admission: how far a micro-batch may go into each segment without passing its limits, always between two events.

A query that is not behind pays nothing for it: the offsets alone show that its backlog is within the limits. Otherwise
each segment gets a share of the limits in proportion to its backlog, so that segments stay in step, and a walk over the
headers of its events (in all segments at the same time) finds the last border within. The rest of the limits then goes
to the segments with the largest backlogs. At least one event is admitted, however large it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.segments.range_reader import SMALLEST_EVENT, Border
from pyspark_pravega.sql import options as o

_WORTH = 8
"""The rest of a limit is worth another walk if it is more than 1/8 of it."""

Key = TypeVar("Key", bound=Hashable)
"""What names a segment."""
Walk: TypeAlias = Callable[[Key, int, int, int | None, int | None], Border]
"""Finds the last border between events of a segment, from a start to an end, within the most bytes and events."""


@dataclass(frozen=True)
class Limits:
    """The most bytes and rows of a micro-batch, which waits for `min_rows` or `max_delay_ms`. None: any number."""

    max_bytes: int | None = None
    max_rows: int | None = None
    min_rows: int | None = None
    max_delay_ms: int = 0


NO_LIMITS = Limits()


def read_limits(options: o.Options) -> Limits:
    """Return the limits that the options of a streaming query give."""
    return Limits(
        max_bytes=options.get(o.MAX_BYTES_PER_TRIGGER),
        max_rows=options.get(o.MAX_ROWS_PER_TRIGGER),
        min_rows=options.get(o.MIN_ROWS_PER_TRIGGER),
        max_delay_ms=round(options.get(o.MAX_TRIGGER_DELAY).total_seconds() * 1000),
    )


def admit(walk: Walk[Key], begins: Mapping[Key, int], ends: Mapping[Key, int], limits: Limits) -> dict[Key, int]:
    """Return how far a batch may go between `begins` and `ends`: offsets by segment, between events."""
    backlog = {segment: ends[segment] - begin for segment, begin in begins.items() if ends[segment] > begin}
    total = sum(backlog.values())
    within_bytes = limits.max_bytes is None or total <= limits.max_bytes
    if within_bytes and (limits.max_rows is None or total // SMALLEST_EVENT <= limits.max_rows):
        return dict(ends)

    def compute_share(limit: int | None, segment: Key) -> int | None:
        return None if limit is None else limit * backlog[segment] // total

    def walk_share(segment: Key) -> Border:
        shares = compute_share(limits.max_bytes, segment), compute_share(limits.max_rows, segment)
        return walk(segment, begins[segment], ends[segment], *shares)

    walked = dict(zip(backlog, cancellation.map_side_by_side(walk_share, backlog), strict=True))
    reached = {**begins, **{segment: result.offset for segment, result in walked.items()}}
    left_bytes = _subtract(limits.max_bytes, sum(result.offset - begins[segment] for segment, result in walked.items()))
    left_rows = _subtract(limits.max_rows, sum(result.events for result in walked.values()))
    for segment in sorted(backlog, key=lambda segment: reached[segment] - ends[segment]):
        if not _is_worth(left_bytes, limits.max_bytes) or not _is_worth(left_rows, limits.max_rows):
            break
        more = walk(segment, reached[segment], ends[segment], left_bytes, left_rows)
        left_bytes, left_rows = _subtract(left_bytes, more.offset - reached[segment]), _subtract(left_rows, more.events)
        reached[segment] = more.offset
    if reached == dict(begins):
        largest = max(backlog, key=lambda segment: backlog[segment])
        reached[largest] = walk(largest, begins[largest], ends[largest], None, 1).offset
    return reached


def count_up_to(walk: Walk[Key], begins: Mapping[Key, int], ends: Mapping[Key, int], enough: int) -> int:
    """Return the number of events between two positions, at most `enough`."""
    backlog = {segment: ends[segment] - begin for segment, begin in begins.items() if ends[segment] > begin}
    if sum(backlog.values()) // SMALLEST_EVENT < enough:
        return 0  # there cannot be enough, however small the events are
    count = 0
    for segment in backlog:
        if count < enough:
            count += walk(segment, begins[segment], ends[segment], None, enough - count).events
    return count


def _subtract(left: int | None, used: int) -> int | None:
    return None if left is None else left - used


def _is_worth(left: int | None, limit: int | None) -> bool:
    return left is None or limit is None or left * _WORTH > limit
