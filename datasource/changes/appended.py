"""Plans scans of the changes of a table whose every event is a row: each one is a row inserted.

A version is one of the table's commit log. What has come since the newest of them, or was written by others, belongs
to the version that the next commit will make.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, segment_name
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..commit_log.table import Version
from ..positions.snapshot import SegmentSlice, end_in, up_to
from ..scan.bad_events import BadEventRule
from ..scan.conditions import Condition, Sieve
from ..scan.event_plan import SegmentVersions
from ..scan.event_planning import measure_slices, plan_events
from ..scan.planned_scan import EarlierScan, PlannedScan
from ..tables.change_range import LAST, TIMESTAMP, Bounds
from ..tables.hidden_columns import CHANGE_COLUMNS
from ..tables.stream_table import StreamTable
from .position import Position

_VERSION = CHANGE_COLUMNS["_commit_version"]


def plan_appended(
    pravega: Pravega,
    table: StreamTable,
    bounds: Bounds,
    required: StructType,
    options: o.Options,
    rule: BadEventRule,
    *,
    limit: int | None,
    earlier: EarlierScan | None,
    conditions: Sequence[Condition],
) -> PlannedScan:
    """Fix what a scan of changes reads, now or as an earlier scan of the same changes did.

    All `conditions` are about the version alone: events of others are not read.
    """
    log = CommitLog(pravega, table.stream)
    first, last, versions = version_range(log, bounds)
    cuts = {each.number: each.cut for each in versions}
    slices = [] if last < first else measure_slices(pravega, table, options, cuts.get(first - 1), cuts.get(last))
    if earlier is not None:
        slices = up_to(slices, earlier.tail)
    if last not in cuts:
        # Read after the end was measured, so that every version before it is known.
        versions = log.versions(first)
        for late in [each for each in versions if each.number == last]:
            slices = up_to(slices, {piece.segment_id: end_in(piece, late.cut) for piece in slices})
    if earlier is not None:
        versions = [each for each in versions if each.number <= earlier.newest]
    newest = max((each.number for each in versions), default=0)
    by_segment = segment_versions(table.stream, slices, versions, first)
    wanted = _of_versions(table.stream, slices, by_segment, conditions) if conditions else slices
    return replace(
        plan_events(pravega, table, wanted, required, options, rule, limit=limit, counted=True, versions=by_segment),
        newest=newest,
        tail={piece.segment_id: piece.end for piece in slices},
    )


def is_about_versions(condition: Condition) -> bool:
    """Tell whether a condition on changes is only about the version that they belong to."""
    return condition.columns == [_VERSION.name]


def _of_versions(
    stream: Stream,
    slices: Iterable[SegmentSlice],
    versions: Mapping[str, SegmentVersions],
    conditions: Sequence[Condition],
) -> list[SegmentSlice]:
    """Return the parts of slices that have the versions which fulfil all conditions; several of a slice, if need be."""
    sieve = Sieve(conditions, StructType([_VERSION]))
    wanted: list[SegmentSlice] = []
    for piece in slices:
        runs, start, before = versions[segment_name(stream, piece.segment_id)], piece.start, False
        kept = sieve.kept({_VERSION.name: pa.array(runs.numbers, pa.int64())}).to_pylist()
        for end, keep in zip(runs.ends, kept, strict=True):
            if keep and before:
                wanted[-1] = replace(wanted[-1], end=end)
            elif keep:
                wanted.append(SegmentSlice(piece.segment_id, start, end))
            start, before = end, keep
    return wanted


def start_of_appended(pravega: Pravega, stream: Stream, bounds: Bounds) -> Position:
    """Return where a stream of changes begins that has no checkpoint yet."""
    first, _, versions = version_range(CommitLog(pravega, stream), bounds)
    before = {each.number: each.cut for each in versions}.get(first - 1)
    return Position(before or pravega.controller.head(stream), first - 1)


def plan_new_appended(
    pravega: Pravega,
    table: StreamTable,
    required: StructType,
    options: o.Options,
    rule: BadEventRule,
    since: Position,
    until: Position,
) -> PlannedScan:
    """Fix what a batch of a stream of changes reads between two positions."""
    first, last = since.version + 1, until.known or until.version
    versions = CommitLog(pravega, table.stream).versions(first, last) if last >= first else []
    slices = measure_slices(pravega, table, options, since.cut, until.cut)
    by_segment = segment_versions(table.stream, slices, versions, first)
    return plan_events(pravega, table, slices, required, options, rule, limit=None, counted=True, versions=by_segment)


def version_range(log: CommitLog, bounds: Bounds) -> tuple[int, int, list[Version]]:
    """Return the first and the last version within bounds, and the versions that are known from the one before them.

    Raises InvalidOptionError where that is not the end of a version.
    """
    first, last = _versions_between(log, bounds) if bounds.unit == TIMESTAMP else (max(bounds.low, 1), bounds.high)
    versions = log.versions(first - 1)
    if first > 1 and first - 1 not in {each.number for each in versions}:
        newest = log.newest()
        raise InvalidOptionError(
            f"CHANGES FROM VERSION {first} is not possible: the newest version is {newest}, and the next one will be "
            f"{newest + 1}. Start from one of them, or from an earlier one."
        )
    return first, last, versions


def _versions_between(log: CommitLog, bounds: Bounds) -> tuple[int, int]:
    """Return the first and the last version published between two times; what is not published yet counts as of now."""
    before = log.newest_by(bounds.low - 1)
    first = 1 if before is None else before.number + 1
    if bounds.high == LAST:
        return first, LAST
    now = time.time_ns() // 1000
    newest, found = log.newest(), log.newest_by(bounds.high)
    last = 0 if found is None else found.number
    return first, newest + 1 if last == newest and bounds.high >= now else last


def segment_versions(
    stream: Stream, slices: Iterable[SegmentSlice], versions: Sequence[Version], first: int
) -> dict[str, SegmentVersions]:
    """Return the versions that the events of slices belong to, by segment. `versions` are those from the first on."""
    return {segment_name(stream, piece.segment_id): _segment_versions(piece, versions, first) for piece in slices}


def _segment_versions(piece: SegmentSlice, versions: Iterable[Version], first: int) -> SegmentVersions:
    """Return the versions that the events of a slice belong to; those behind the newest belong to the next one."""
    ends, numbers, times = [], [], []
    reached, newest = piece.start, first - 1
    for version in versions:
        newest = max(newest, version.number)
        end = min(end_in(piece, version.cut), piece.end)
        if end > reached and version.number >= first:
            ends.append(end)
            numbers.append(version.number)
            times.append(version.timestamp)
            reached = end
    if reached < piece.end:
        ends.append(piece.end)
        numbers.append(newest + 1)
        times.append(-1)
    return SegmentVersions(tuple(ends), tuple(numbers), tuple(times))
