"""A stream of the changes of a table, micro-batch by micro-batch: from its positions to the scans between two of them.

A position is a stream cut between transactions, for a table of appended rows with the newest version known there: so
that the same two positions always lead to the same rows, with the same versions.

A change table's rows before a batch are known from the batch before it, see `row_states`. A truncation deletes the rows
that are there at its place, or where it comes late, after later changes of other segments' rows, those that are older.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.change_range import ChangeRange
from pyspark_pravega.datasource.changes_planning import (
    check_options,
    rows_read,
    segment_versions,
    truncations_in,
    version_range,
)
from pyspark_pravega.datasource.changes_scan import NewChangesPartition, NewChangesPlan, NewChangesReader
from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.datasource.current_rows_planning import group_partitions
from pyspark_pravega.datasource.current_rows_scan import CurrentRowsPlan
from pyspark_pravega.datasource.lineage import by_lineage
from pyspark_pravega.datasource.planning import PlannedScan, measured, plan_events, planned, prepared
from pyspark_pravega.datasource.row_history import Truncation
from pyspark_pravega.datasource.snapshot import SegmentSlice, tail_cut
from pyspark_pravega.datasource.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o

_IDLE_SECONDS = 0.1
"""How long to wait before an end that has not moved is measured once more: Spark asks a hundred times a second."""

_KNOWN_POSITIONS = 256


@dataclass(frozen=True)
class Position:
    """Where a batch ends: `version` is the newest one known there, 0 if there is none or versions do not count."""

    cut: StreamCut
    version: int

    def to_json(self) -> str:
        """The text that Spark keeps in its checkpoint."""
        positions = {str(segment): offset for segment, offset in sorted(self.cut.positions.items())}
        return json.dumps({"stream": str(self.cut.stream), "version": self.version, "positions": positions})

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Read what `to_json` wrote."""
        value = json.loads(text)
        scope, _, name = value["stream"].partition("/")
        positions = {int(segment): offset for segment, offset in value["positions"].items()}
        return cls(StreamCut(Stream(scope, name), positions), value["version"])


class KnownTruncations:
    """The truncations up to the latest positions, so that a batch need not look for those before it; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[str, tuple[Truncation, ...]] = OrderedDict()

    def get(self, name: str) -> tuple[Truncation, ...] | None:
        """Those up to a position, None if they are not known."""
        with self._lock:
            return self._found.get(name)

    def put(self, name: str, found: tuple[Truncation, ...]) -> None:
        """Remember them."""
        with self._lock:
            self._found[name] = found
            self._found.move_to_end(name)
            while len(self._found) > _KNOWN_POSITIONS:
                self._found.popitem(last=False)


def start_position(pravega: Pravega, table: StreamTable, changes: ChangeRange, options: o.Options) -> Position:
    """Where a stream of changes begins that has no checkpoint yet.

    Raises InvalidOptionError for a range that is none of a stream, or has no sense.
    """
    check_options(options)
    if changes.end is not None:
        raise InvalidOptionError(
            f"A stream of changes has no end, but {changes.unit} {changes.end} was given as one. Leave it out, or read "
            "with spark.read.changes."
        )
    if changes.net and table.of_changes:
        raise InvalidOptionError(
            "deduplicationMode=netChanges is not possible for a stream of changes of rows: Spark would drop those that "
            "are late by their _commit_timestamp. Leave it out and net the changes of each batch (foreachBatch), or "
            "read with spark.read.changes."
        )
    bounds = changes.bounds()
    if table.of_changes:
        return Position(pravega.controller.head(table.stream), 0)
    first, _, versions = version_range(CommitLog(pravega, table.stream), bounds)
    before = {each.number: each.cut for each in versions}.get(first - 1)
    return Position(before or pravega.controller.head(table.stream), first - 1)


def end_position(pravega: Pravega, table: StreamTable, options: o.Options, since: Position) -> Position:
    """Where the stream ends now, between two transactions; `since` itself where nothing has come after a while."""
    found = _end_position(pravega, table, options, since)
    if found is since:
        time.sleep(_IDLE_SECONDS)
        found = _end_position(pravega, table, options, since)
    return found


def _end_position(pravega: Pravega, table: StreamTable, options: o.Options, since: Position) -> Position:
    log = CommitLog(pravega, table.stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())
    cut = log.settled(lambda published: published or tail_cut(pravega, table.stream))
    if cut == since.cut:
        return since
    if table.of_changes:
        return Position(cut, 0)
    # Read after the end was measured: a version that is published in between has its end behind it.
    return Position(cut, max([since.version, *(each.number for each in log.versions(since.version + 1))]))


def plan_new_changes(
    pravega: Pravega,
    table: StreamTable,
    changes: ChangeRange,
    required: StructType,
    options: o.Options,
    since: Position,
    until: Position,
    checkpoint: str,
    known: KnownTruncations,
) -> PlannedScan:
    """Fix what a batch reads. `checkpoint` tells this query from others.

    Raises what `plan_changes` does, and InvalidOptionError for positions that are none of the stream.
    """
    for position in (since, until):
        if position.cut.stream != table.stream or not pravega.controller.stream_cut_valid(position.cut):
            raise InvalidOptionError(
                f"The checkpoint's position {position.cut} is none in stream {table.stream}. Was the stream dropped "
                "and made again? Start the query with a new checkpoint."
            )
    if not table.of_changes:
        return _plan_appended(pravega, table, required, options, since, until)
    plan = rows_read(pravega, table, required, options)
    table = plan.table
    past = measured(pravega, table, options, None, since.cut)
    new = measured(pravega, table, options, since.cut, until.cut)
    query = _digest(checkpoint, str(table.stream), table.schema.json(), table.format, dict(table.settings))
    old, found = _truncations(pravega, plan, past, new, (_name(query, since), _name(query, until)), known)
    every = _partitions(pravega, table, past, new, query, since, until)
    partitions = [each for each in every if found or each.new.pieces]
    reader = NewChangesReader(NewChangesPlan(plan, changes.bounds(), old, found), partitions)
    return planned(reader, required, required, new)


def _plan_appended(
    pravega: Pravega, table: StreamTable, required: StructType, options: o.Options, since: Position, until: Position
) -> PlannedScan:
    table, rule = prepared(pravega, table, options)
    first = since.version + 1
    versions = CommitLog(pravega, table.stream).versions(first, until.version)
    slices = measured(pravega, table, options, since.cut, until.cut)
    by_segment = segment_versions(table.stream, slices, versions, first)
    return plan_events(pravega, table, slices, required, options, rule, limit=None, counted=True, versions=by_segment)


def _truncations(
    pravega: Pravega,
    plan: CurrentRowsPlan,
    past: Sequence[SegmentSlice],
    new: Sequence[SegmentSlice],
    names: tuple[str, str],
    known: KnownTruncations,
) -> tuple[tuple[Truncation, ...] | None, tuple[Truncation, ...] | None]:
    """Those before a batch and those in it; None where each task sees all of them itself."""
    if len({piece.segment_id for piece in (*past, *new)}) < 2:
        return None, None
    before, after = names
    old = known.get(before)
    if old is None:
        old = truncations_in(pravega, plan, past)
    found = truncations_in(pravega, plan, new)
    known.put(after, (*old, *found))
    return old, found


def _partitions(
    pravega: Pravega,
    table: StreamTable,
    past: Sequence[SegmentSlice],
    new: Sequence[SegmentSlice],
    query: str,
    since: Position,
    until: Position,
) -> list[NewChangesPartition]:
    """One for each group of segments that share keys."""
    ids = {piece.segment_id for piece in (*past, *new)} | set(since.cut.positions) | set(until.cut.positions)
    groups = by_lineage(pravega, table.stream, [SegmentSlice(each, 0, 0) for each in ids])
    members = [[piece.segment_id for piece in group] for group in groups]
    parts = [
        group_partitions(pravega, table, [[each for each in slices if each.segment_id in group] for group in members])
        for slices in (past, new)
    ]
    return [
        NewChangesPartition(before, after, _state(query, since, group), _state(query, until, group))
        for group, before, after in zip(members, *parts, strict=True)
    ]


def _state(query: str, position: Position, group: Sequence[int]) -> str:
    """The name of what is known of a group's rows at a position."""
    positions = position.cut.positions
    return f"{query}-{_digest([(segment, positions[segment]) for segment in sorted(group) if segment in positions])}"


def _name(query: str, position: Position) -> str:
    return f"{query} {position.to_json()}"


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]
