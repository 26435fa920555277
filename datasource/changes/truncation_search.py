"""Searches events for truncations before a scan begins: one may lie in another segment than the rows it clears.

Only events that nobody has searched yet are read, see `truncation_memory`. Few of them are read where the scan is
planned, many by tasks of their own, one for each segment. EXPLAIN needs none of it, so a scan is planned twice: without
a search until it is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import carried

from ..scan.reader import PlannedReader
from ..scan.snapshot import SegmentSlice
from ..worker_connections import lent
from .group_planning import clears, group_partitions
from .group_reader import GroupPartition, GroupPlan, find_clearings
from .rows.clearing import AllClearings, Clearing
from .truncation_memory import Searched, TruncationMemory

_FEW_BYTES = 16 << 20
"""What is searched while a scan is planned: it takes less time than to start tasks."""
_THREADS = 8

FOUND = StructType([StructField("found", StringType())])
"""The rows of a search by tasks, whose texts go back to planning."""


@dataclass(frozen=True)
class Search:
    """What planning may do to find truncations: search up to `most` bytes (None: any number of them).

    `found` are the rows of a search by tasks that was asked for before.
    """

    most: int | None = None
    found: tuple[str, ...] = ()

    @classmethod
    def of_request(cls, found: tuple[str, ...] | None) -> Search:
        """Return the search for a request of Spark: none (None) before it runs the scan, few bytes then."""
        return cls(0) if found is None else cls(_FEW_BYTES, found)


@dataclass(frozen=True)
class Unsearched:
    """Says that there are more events to search; `reader` does in tasks, None where the scan is not run yet."""

    reader: SearchReader | None


def truncations_in(
    pravega: Pravega, plan: GroupPlan, slices: Sequence[SegmentSlice], search: Search
) -> tuple[Clearing, ...] | Unsearched:
    """Return the truncations among these events, as far as they count.

    Raises MalformedEventError when one of them cannot be read.
    """
    if not clears(plan.table) or not slices:
        return ()
    memory = TruncationMemory(pravega, plan.table)
    known = memory.recall()
    if search.found:
        new = reduce(Searched.joined, map(Searched.from_json, search.found))
        known = known.joined(new)
        memory.remember(known, slices)
    rest = known.rest(slices)
    if not rest:
        return known.among(slices)
    if search.most is not None and sum(piece.end - piece.start for piece in rest) > search.most:
        partitions = group_partitions(pravega, plan.table, [[piece] for piece in rest])
        return Unsearched(SearchReader(plan, partitions) if search.most else None)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="truncations") as pool:
        known = reduce(Searched.joined, pool.map(carried(partial(_search, pravega, plan)), rest), known)
    memory.remember(known, slices)
    return known.among(slices)


def _search(pravega: Pravega, plan: GroupPlan, piece: SegmentSlice) -> Searched:
    found = AllClearings()
    find_clearings(pravega, plan, [piece], found)
    return Searched({piece.segment_id: (piece.start, piece.end)}, (*found.all, *found.marks))


class SearchReader(PlannedReader[GroupPlan, GroupPartition]):
    """One partition per segment; its rows are FOUND."""

    def batches(self, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
        """Search the new events of one segment."""
        with lent(self._plan.config) as pravega:
            pravega.segments.seed_token(self._plan.table.stream, partition.token)
            for segment, endpoint in partition.endpoints.items():
                pravega.segments.seed_location(self._plan.table.stream, segment, endpoint)
            found = [_search(pravega, self._plan, piece).to_json() for piece in partition.pieces]
        yield pa.record_batch([pa.array(found, pa.string())], names=FOUND.names)
