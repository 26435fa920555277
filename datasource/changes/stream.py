"""A stream of the changes of a table, micro-batch by micro-batch: from its positions to the scans between two of them.

A position is a stream cut between transactions, for a table of appended rows with the newest version before it: so that
the same two positions always lead to the same rows, with the same versions.

A change table's rows before a batch are known from the batch before it, see `row_states`. A truncation deletes the rows
that are there at its place, or where it comes late, after later changes of other segments' rows, those that are older.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Generic, TypeVar

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega, cancellation
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import DataLossError, InvalidOptionError
from pyspark_pravega.sql import options as o

from ..commit_log import CommitLog
from ..scan.planning import PlannedScan, measured, plan_events, planned, prepared
from ..scan.snapshot import SegmentSlice, tail_cut
from ..tables.change_range import ChangeRange
from ..tables.stream_table import StreamTable
from .current_rows_planning import group_partitions
from .current_rows_scan import CurrentRowsPlan
from .lineage import by_lineage
from .planning import check_options, row_key, rows_read, segment_versions, truncations_in, version_range
from .rows.history import Truncation
from .scan import NewChangesPartition, NewChangesPlan, NewChangesReader

T = TypeVar("T")
Truncations = tuple[Truncation, ...] | None
"""None where each task sees all of them itself."""

_IDLE_SECONDS = 0.2
"""How long an end that has not moved is good for: Spark asks a hundred times a second."""

_RECENT = 256


@dataclass(frozen=True)
class Position:
    """Where a batch ends, the newest version before it (0 if versions do not count), and where its query began.

    `begin` is None for the position where it begins.
    """

    cut: StreamCut
    version: int
    begin: Position | None = None

    def to_json(self) -> str:
        """The text that Spark keeps in its checkpoint."""
        return json.dumps({"stream": str(self.cut.stream), **self._members()})

    def _members(self) -> dict[str, Any]:
        positions = {str(segment): offset for segment, offset in sorted(self.cut.positions.items())}
        begin = None if self.begin is None else self.begin._members()
        return {"version": self.version, "positions": positions, "begin": begin}

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Read what `to_json` wrote."""
        value = json.loads(text)
        scope, _, name = value["stream"].partition("/")
        return cls._of(Stream(scope, name), value)

    @classmethod
    def _of(cls, stream: Stream, value: dict[str, Any]) -> Position:
        cut = StreamCut(stream, {int(segment): offset for segment, offset in value["positions"].items()})
        return cls(cut, value["version"], None if value["begin"] is None else cls._of(stream, value["begin"]))


class _Recent(Generic[T]):
    """What was found out lately; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, name: Hashable, find: Callable[[], T]) -> T:
        """What is known by a name, else what `find` finds."""
        with self._lock:
            if name in self._found:
                return self._found[name]
        found = find()
        self.put(name, found)
        return found

    def put(self, name: Hashable, found: T) -> None:
        with self._lock:
            self._found[name] = found
            self._found.move_to_end(name)
            while len(self._found) > _RECENT:
                self._found.popitem(last=False)


class ChangesMemory:
    """What batches of streams of changes find out for those after them. It is worth time only."""

    def __init__(self) -> None:
        self.truncations: _Recent[tuple[Truncation, ...]] = _Recent()
        """All up to a position."""
        self.groups: _Recent[list[frozenset[int]]] = _Recent()
        """Sets of segments in groups that share keys. They stay so: of a segment's successors, one is in the set."""


def start_position(pravega: Pravega, table: StreamTable, changes: ChangeRange, options: o.Options) -> Position:
    """Where a stream of changes begins that has no checkpoint yet.

    Raises InvalidOptionError for a range that is none of a stream, or has no sense.
    """
    _check(table, changes, options)
    bounds = changes.bounds()
    if table.of_changes:
        return Position(pravega.controller.head(table.stream), 0)
    first, _, versions = version_range(CommitLog(pravega, table.stream), bounds)
    before = {each.number: each.cut for each in versions}.get(first - 1)
    return Position(before or pravega.controller.head(table.stream), first - 1)


def _check(table: StreamTable, changes: ChangeRange, options: o.Options) -> None:
    check_options(options)
    if changes.end is not None:
        raise InvalidOptionError(
            f"A stream of changes has no end, but {changes.unit} {changes.end} was given as one. Leave it out, or read "
            "with spark.read.changes."
        )
    if table.of_changes and not row_key(table):
        raise InvalidOptionError(
            f"A stream of changes of rows needs their primary key. Set the table property '{o.PRIMARY_KEY.key}', for "
            "example 'id' or 'order_id,line_no', or read with spark.read.changes."
        )
    if changes.net and table.of_changes:
        raise InvalidOptionError(
            "deduplicationMode=netChanges is not possible for a stream of changes of rows: Spark would drop those that "
            "are late by their _commit_timestamp. Leave it out and net the changes of each batch (foreachBatch), or "
            "read with spark.read.changes."
        )


def end_position(pravega: Pravega, table: StreamTable, options: o.Options, since: Position) -> Position:
    """Where the stream ends now, between two transactions; `since` itself, after a pause, if that is where it ends."""
    log = CommitLog(pravega, table.stream, timeout=options.get(o.TRANSACTION_TIMEOUT).total_seconds())

    def measure(published: StreamCut | None) -> StreamCut:
        return published or tail_cut(pravega, table.stream)

    cut, version = log.settled(measure), 0
    if cut == since.cut:
        cancellation.sleep(_IDLE_SECONDS)
        return since
    if not table.of_changes:
        cut, version = log.tail(measure)  # which may wait, as an idle stream need not
    return Position(cut, version, since.begin or since)


def plan_new_changes(
    pravega: Pravega,
    table: StreamTable,
    changes: ChangeRange,
    required: StructType,
    options: o.Options,
    since: Position,
    until: Position,
    checkpoint: str,
    memory: ChangesMemory,
) -> PlannedScan:
    """Fix what a batch reads. `checkpoint` tells this query from others.

    Raises what `plan_changes` does, and InvalidOptionError for positions that are none of the stream.
    """
    _check(table, changes, options)
    if since.begin is None and until.begin is not None:
        since = until.begin  # the first batch is done again, and Spark has asked anew where to begin
    for position in (since, until):
        if position.cut.stream != table.stream or not pravega.controller.stream_cut_valid(position.cut):
            raise InvalidOptionError(
                f"The checkpoint's position {position.cut} is none in stream {table.stream}. Was the stream dropped "
                "and made again? Start the query with a new checkpoint."
            )
    if not table.of_changes:
        return _plan_appended(pravega, table, required, options, since, until)
    plan = rows_read(pravega, table, required, options)
    past, lost = _past(pravega, plan.table, options, since)
    new = measured(pravega, plan.table, options, since.cut, until.cut)
    query = _digest(checkpoint, str(table.stream), table.schema.json(), table.format, dict(plan.table.settings))
    # What scaling made of those where the query began tells groups even if retention has removed what is in between.
    cuts = ((since.begin or since).cut, since.cut, until.cut)
    segments = {piece.segment_id for piece in (*past, *new)}.union(*(cut.positions for cut in cuts))
    old, found = _truncations(pravega, plan, past, new, segments, (query, since, until), memory)
    groups = memory.groups.get((table.stream, frozenset(segments)), lambda: _groups(pravega, table.stream, segments))
    every = (*(old or ()), *(found or ()))
    befores, afters = (
        group_partitions(pravega, table, [[each for each in slices if each.segment_id in group] for group in groups])
        for slices in (past, new)
    )
    partitions = [
        NewChangesPartition(
            before, after, _state(query, since, group, old or ()), _state(query, until, group, every), lost
        )
        for group, before, after in zip(groups, befores, afters, strict=True)
    ]
    partitions = [each for each in partitions if each.before != each.after]
    reader = NewChangesReader(NewChangesPlan(plan, changes.bounds(), old, found), partitions)
    return planned(reader, required, required, new, homes=[each.home for each in partitions])


def _past(pravega: Pravega, table: StreamTable, options: o.Options, since: Position) -> tuple[list[SegmentSlice], bool]:
    """The events of the query before a batch, and whether some of them are there no more."""
    begin = since.begin or since
    try:
        return measured(pravega, table, options, begin.cut, since.cut), False
    except DataLossError:
        return measured(pravega, table, options, None, since.cut), True


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
    segments: set[int],
    between: tuple[str, Position, Position],
    memory: ChangesMemory,
) -> tuple[Truncations, Truncations]:
    """Those before a batch and those in it."""
    if len(segments) < 2:
        return None, None
    query, since, until = between
    old = memory.truncations.get((query, since.cut), lambda: truncations_in(pravega, plan, past))
    found = truncations_in(pravega, plan, new)
    memory.truncations.put((query, until.cut), (*old, *found))
    return old, found


def _groups(pravega: Pravega, stream: Stream, segments: set[int]) -> list[frozenset[int]]:
    found = by_lineage(pravega, stream, [SegmentSlice(each, 0, 0) for each in segments])
    return [frozenset(piece.segment_id for piece in group) for group in found]


def _state(query: str, position: Position, group: frozenset[int], truncations: Sequence[Truncation]) -> str:
    """The name of what is known of a group's rows at a position: what they depend on."""
    places = sorted((each, offset) for each, offset in position.cut.positions.items() if each in group)
    return f"{query}-{places[0][0]}-{_digest(places, [astuple(each) for each in truncations])}"


def _digest(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]
