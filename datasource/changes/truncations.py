"""Searches events for truncations before a scan begins, and remembers them, so that no event is searched twice.

A truncation may lie in another segment than the rows that it clears. The marks of snapshots are found with them.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.key_value.key_value_table import MAX_VALUE_BYTES, NOT_EXISTS
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.errors import ConditionalUpdateError, KeyValueTableNotFoundError, PermissionDeniedError
from pyspark_pravega.formats.changes.feed import PRIMARY_KEY

from ..commit_log.log_table import TABLE_NAME, compute_row_number, make_row_key, write_in_table
from ..positions.snapshot import SegmentSlice
from ..scan.planned_scan import PlannedReader
from ..scan.scan_request import Search
from ..tables.stream_table import StreamTable
from ..workers.connections import borrow_connection, hash_config
from .group_planning import can_clear_rows, make_partitions
from .group_reader import GroupPartition, GroupPlan, find_clearings
from .rows.clearing import AllClearings, Clearing, list_members, read_clearing

_LOG = logging.getLogger(__name__)

FOUND = StructType([StructField("found", StringType())])
"""The schema of a search by tasks, whose texts go back to planning."""
_FORMAT = 3
"""Before format 2, marks of snapshots were not searched for; before 3, not those of rows whose `op` is `c`."""

_HERE: Recent[Hashable, SearchedRanges] = Recent()
"""Searches that could not be written, by cluster and login, stream and settings."""


@dataclass(frozen=True)
class SearchedRanges:
    """Searched ranges of segments, by segment as first and last offset, and the clearings in them."""

    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    truncations: tuple[Clearing, ...] = ()

    @classmethod
    def of(cls, ranges: Mapping[int, tuple[int, int]], clearings: Iterable[Clearing]) -> SearchedRanges:
        """Return searched ranges with the clearings that lie in them, in order."""
        within = []
        for clearing in set(clearings):
            first, last = ranges.get(clearing.segment, (0, 0))
            if first <= clearing.moment.offset < last:
                within.append(clearing)
        return cls(ranges, tuple(sorted(within, key=lambda one: (one.segment, one.moment.offset))))

    def list_unsearched(self, slices: Iterable[SegmentSlice]) -> list[SegmentSlice]:
        """Return the parts of slices that are not searched yet."""
        left = []
        for piece in slices:
            first, last = self.ranges.get(piece.segment_id, (0, -1))
            is_searched = first <= piece.start <= last
            left.append(replace(piece, start=max(piece.start, last)) if is_searched else piece)
        return [piece for piece in left if piece.start < piece.end]

    def find_truncations_among(self, slices: Iterable[SegmentSlice]) -> tuple[Clearing, ...]:
        """Return the truncations in slices, all of which are searched."""
        ranges = {piece.segment_id: (piece.start, piece.end) for piece in slices}
        return SearchedRanges.of(ranges, self.truncations).truncations

    def join(self, other: SearchedRanges) -> SearchedRanges:
        """Return the union; if two ranges of a segment do not meet, only the longer one."""
        ranges = dict(self.ranges)
        for segment, (first, last) in other.ranges.items():
            mine = ranges.get(segment, (first, last))
            if first <= mine[1] and mine[0] <= last:
                ranges[segment] = min(first, mine[0]), max(last, mine[1])
            else:
                ranges[segment] = max(mine, (first, last), key=lambda bounds: bounds[1] - bounds[0])
        return SearchedRanges.of(ranges, (*self.truncations, *other.truncations))

    def limit_to(self, segments: Iterable[int]) -> SearchedRanges:
        chosen = set(segments)
        ranges = {segment: ends for segment, ends in self.ranges.items() if segment in chosen}
        return SearchedRanges.of(ranges, self.truncations)

    def to_json(self) -> str:
        ranges = [[segment, *ends] for segment, ends in sorted(self.ranges.items())]
        truncations: list[Any] = []
        marks: list[Any] = []
        for origin, segment, moment, *mark in map(list_members, self.truncations):
            (marks if mark else truncations).append([origin, segment, *moment, *mark])
        value = {"format": _FORMAT, "ranges": ranges, "truncations": truncations, "marks": marks}
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> SearchedRanges:
        """Read what `to_json` wrote; empty for a format that this release does not know."""
        value: dict[str, Any] = json.loads(text)
        if value["format"] != _FORMAT:
            return cls()
        ranges = {segment: (first, last) for segment, first, last in value["ranges"]}
        members = (*value["truncations"], *value["marks"])
        # A moment has four members.
        return cls.of(ranges, [read_clearing(origin, at, more[:4], *more[4:]) for origin, at, *more in members])


class TruncationMemory:
    """Remembers the searches of one stream, for one way of reading its events."""

    def __init__(self, pravega: Pravega, table: StreamTable) -> None:
        """Send nothing yet."""
        # The primary key does not matter: a truncation has no key.
        settings = {name: value for name, value in table.settings.items() if name != PRIMARY_KEY}
        shown = json.dumps([table.format, table.framing, sorted(settings.items())])
        self._key = make_row_key(table.stream, compute_row_number(shown))
        self._name = (hash_config(pravega.config), table.stream, self._key)
        self._rows = pravega.key_value_table(table.stream.scope, TABLE_NAME)
        self._stream = table.stream

    def recall(self) -> SearchedRanges:
        return self._row()[0].join(_HERE.find(self._name) or SearchedRanges())

    def remember(self, searched: SearchedRanges, slices: Sequence[SegmentSlice]) -> None:
        """Add the result of a search of these slices."""
        try:
            write_in_table(self._rows, lambda: self._write(searched, slices))
        except PermissionDeniedError:
            self._remember_here(searched)

    def _remember_here(self, searched: SearchedRanges) -> None:
        _HERE.put(self._name, searched.join(_HERE.find(self._name) or SearchedRanges()))

    def _write(self, searched: SearchedRanges, slices: Sequence[SegmentSlice]) -> None:
        former, version = self._row()
        every = former.join(searched)
        for candidate in (every, every.limit_to(piece.segment_id for piece in slices)):
            value = zlib.compress(candidate.to_json().encode())
            if len(value) <= MAX_VALUE_BYTES:
                break
        else:
            _LOG.warning("Stream %s has too many truncations to remember them all.", self._stream)
            return self._remember_here(searched)
        try:
            self._rows.put(self._key, value, version)
        except ConditionalUpdateError:
            # Another query has stored its own search meanwhile, so the next query will search these slices again.
            self._remember_here(searched)

    def _row(self) -> tuple[SearchedRanges, int]:
        try:
            entry = self._rows.get(self._key)
        except (KeyValueTableNotFoundError, PermissionDeniedError):
            return SearchedRanges(), NOT_EXISTS
        if entry is None:
            return SearchedRanges(), NOT_EXISTS
        return SearchedRanges.from_json(zlib.decompress(entry.value)), entry.version


@dataclass(frozen=True)
class SearchNeeded:
    """There are more events to search; `reader` does that in tasks. It is None if the scan does not run yet."""

    reader: SearchReader | None


def find_truncations(
    pravega: Pravega, plan: GroupPlan, slices: Sequence[SegmentSlice], search: Search
) -> tuple[Clearing, ...] | SearchNeeded:
    """Return the truncations among these events, if the table may have any.

    Raises MalformedEventError if one of them cannot be read.
    """
    if not can_clear_rows(plan.table) or not slices:
        return ()
    memory = TruncationMemory(pravega, plan.table)
    searched = memory.recall()
    if search.found:
        new = reduce(SearchedRanges.join, map(SearchedRanges.from_json, search.found))
        searched = searched.join(new)
        memory.remember(searched, slices)
    rest = searched.list_unsearched(slices)
    if not rest:
        return searched.find_truncations_among(slices)
    if search.most is not None and sum(piece.end - piece.start for piece in rest) > search.most:
        partitions = make_partitions(pravega, plan.table, [[piece] for piece in rest])
        return SearchNeeded(SearchReader(plan, partitions) if search.most else None)
    searched = reduce(SearchedRanges.join, map_side_by_side(partial(_search, pravega, plan), rest), searched)
    memory.remember(searched, slices)
    return searched.find_truncations_among(slices)


def _search(pravega: Pravega, plan: GroupPlan, piece: SegmentSlice) -> SearchedRanges:
    clearings = AllClearings()
    find_clearings(pravega, plan, [piece], clearings)
    return SearchedRanges({piece.segment_id: (piece.start, piece.end)}, (*clearings.all, *clearings.marks))


class SearchReader(PlannedReader[GroupPlan, GroupPartition]):
    """One partition for each segment; its rows have the columns FOUND."""

    def batches(self, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
        with borrow_connection(self.plan.config) as pravega:
            pravega.segments.seed(self.plan.table.stream, partition.token, partition.endpoints)
            texts = [_search(pravega, self.plan, piece).to_json() for piece in partition.pieces]
        yield pa.record_batch([pa.array(texts, pa.string())], names=FOUND.names)
