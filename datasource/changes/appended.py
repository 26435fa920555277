"""Plans scans of the changes of an event table: each event is an inserted row.

Versions are those of the table's commit log. Events after the newest one, and events that others wrote, belong to the
version that the next commit will make.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.errors import InvalidOptionError

from ..commit_log.commit_log import CommitLog
from ..commit_log.log_table import Version
from ..lake.open_lake import open_lake
from ..positions.identity import find_creation
from ..positions.snapshot import SegmentSlice, cut_slices, find_end_within
from ..scan.conditions import Condition, Sieve
from ..scan.event_planning import EventSelection, Measured, choose_sharing, measure_slices, plan_events
from ..scan.planned_scan import PlannedScan
from ..scan.scan_request import WantedRows
from ..scan.segment_versions import SegmentVersions, map_segment_versions
from ..stream_source.tiered_segments import find_head
from ..tables.change_range import LAST, TIMESTAMP, Bounds
from ..tables.hidden_columns import CHANGE_COLUMNS
from ..tables.open_table import OpenRead, OpenTable
from .changes_offset import ChangesOffset

_VERSION = CHANGE_COLUMNS["_commit_version"]


def plan_appended(read: OpenRead, bounds: Bounds, rows: WantedRows) -> PlannedScan:
    """Fix what a scan of changes reads, now or as an earlier scan of the same changes did.

    The choosing conditions are about the version alone: events of other versions are not read.
    """
    stream, earlier = read.stream, rows.earlier
    log = CommitLog(read.pravega, stream)
    first, last, versions = find_version_range(log, bounds)
    cuts = {version.number: version.cut for version in versions}
    lake = open_lake(read)
    slices = [] if last < first else measure_slices(read, cuts.get(first - 1), cuts.get(last), lake)
    if earlier is not None:
        slices = cut_slices(slices, earlier.tail)
    if last not in cuts:
        # Read after the end was measured, so that every version before it is known.
        versions = log.versions(first)
        for late in [version for version in versions if version.number == last]:
            slices = cut_slices(
                slices, {piece.segment_id: find_end_within(piece.segment_id, late.cut) for piece in slices}
            )
    if earlier is not None:
        versions = [version for version in versions if version.number <= earlier.newest]
    newest = max((version.number for version in versions), default=0)
    by_segment = map_segment_versions(stream, slices, versions, first)
    parts = _cut_by_versions(stream, slices, by_segment, rows.choosing) if rows.choosing else None
    selection = EventSelection(parts, versions=by_segment, sharing=choose_sharing(read, rows))
    return plan_events(read, Measured(slices, newest=newest, lake=lake), rows, selection)


def _cut_by_versions(
    stream: Stream,
    slices: Iterable[SegmentSlice],
    versions: Mapping[str, SegmentVersions],
    conditions: Sequence[Condition],
) -> list[SegmentSlice]:
    """Return the parts of slices whose versions fulfil all conditions; a slice may have several."""
    sieve = Sieve(conditions, StructType([_VERSION]))
    pieces: list[SegmentSlice] = []
    for piece in slices:
        runs, start, before = versions[make_segment_name(stream, piece.segment_id)], piece.start, False
        kept = sieve.mask({_VERSION.name: pa.array(runs.numbers, pa.int64())}).to_pylist()
        for run_end, keep in zip(runs.ends, kept, strict=True):
            end = min(run_end, piece.end)
            if end <= start:
                continue
            if keep and before:
                pieces[-1] = replace(pieces[-1], end=end)
            elif keep:
                pieces.append(SegmentSlice(piece.segment_id, start, end))
            start, before = end, keep
    return pieces


def find_start_of_appended(opened: OpenTable, bounds: Bounds) -> ChangesOffset:
    """Return where a stream of changes without a checkpoint begins."""
    pravega, stream = opened.pravega, opened.stream
    first, _, versions = find_version_range(CommitLog(pravega, stream), bounds)
    before = {version.number: version.cut for version in versions}.get(first - 1)
    return ChangesOffset(before or find_head(opened), first - 1, created=find_creation(pravega, stream))


def plan_new_appended(
    read: OpenRead, columns: StructType, since: ChangesOffset, until: ChangesOffset, query: str
) -> PlannedScan:
    """Fix what a batch of a stream of changes, which a `query` reads, has between two positions."""
    first, last = since.version + 1, until.known or until.version
    versions = CommitLog(read.pravega, read.stream).versions(first, last) if last >= first else []
    lake = open_lake(read)
    slices = measure_slices(read, since.cut, until.cut, lake)
    selection = EventSelection(versions=map_segment_versions(read.stream, slices, versions, first), query=query)
    return plan_events(read, Measured(slices, lake=lake), WantedRows(columns, counted=True), selection)


def find_version_range(log: CommitLog, bounds: Bounds) -> tuple[int, int, list[Version]]:
    """Return the first and the last version within bounds, and the known versions from the one before them on.

    Raises InvalidOptionError if the first version does not follow a known one.
    """
    first, last = _find_versions_between(log, bounds) if bounds.unit == TIMESTAMP else (max(bounds.low, 1), bounds.high)
    versions = log.versions(first - 1)
    if first > 1 and first - 1 not in {version.number for version in versions}:
        newest = log.newest()
        raise InvalidOptionError(
            f"CHANGES FROM VERSION {first} is not possible: the newest version is {newest}, and the next one will be "
            f"{newest + 1}. Start from one of them, or from an earlier one."
        )
    return first, last, versions


def _find_versions_between(log: CommitLog, bounds: Bounds) -> tuple[int, int]:
    """Return the first and the last version published between two times. An unpublished one counts as of now."""
    before = log.find_newest_by(bounds.low - 1)
    first = 1 if before is None else before.number + 1
    if bounds.high == LAST:
        return first, LAST
    now = time.time_ns() // 1000
    newest, newest_before = log.newest(), log.find_newest_by(bounds.high)
    last = 0 if newest_before is None else newest_before.number
    return first, newest + 1 if last == newest and bounds.high >= now else last
