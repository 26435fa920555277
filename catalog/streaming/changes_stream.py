"""Answers the requests of streaming queries that read the changes of a table."""

from __future__ import annotations

from pyspark_pravega.datasource.changes.changes_offset import BatchRequest, ChangesOffset
from pyspark_pravega.datasource.changes.row_changes_stream import ChangesBatch, ChangesMemory, Checkpoint
from pyspark_pravega.datasource.scan.scan_request import ScanRequest, Search
from pyspark_pravega.datasource.stream_source.admission import Limits, read_limits
from pyspark_pravega.datasource.stream_source.memory import SourceMemory

from .. import protocol as r
from ..protocol.replies import PlannedRead
from ..queries.planning import make_planned_read, open_changes
from ..storage.catalogs import Catalog


def find_start(catalog: Catalog, request: r.StartOfChanges) -> str:
    """Return the offset at which a query without a checkpoint begins."""
    with open_changes(catalog, request.table, request.options) as (_, opened):
        return opened.start_of_changes().to_json()


def find_limits(catalog: Catalog, request: r.LimitsOfChanges) -> Limits:
    """Return the limits in a query's options."""
    with open_changes(catalog, request.table, request.options) as (_, opened):
        return read_limits(opened.options)


def find_end(catalog: Catalog, memory: SourceMemory, request: r.EndOfChanges) -> str:
    """Return the offset at which the next micro-batch ends; its start if there is nothing new."""
    with open_changes(catalog, request.table, request.options) as (_, opened):
        since = ChangesOffset.from_json(request.since)
        last = None if request.last is None else ChangesOffset.from_json(request.last)
        end = opened.end_of_changes(since, BatchRequest(last, request.limits, request.checkpoint, memory))
        return request.since if end is since else end.to_json()


def plan_micro_batch(catalog: Catalog, memory: ChangesMemory, request: r.PlanNewChanges) -> PlannedRead:
    """Plan what a micro-batch reads."""
    batch = ChangesBatch(
        request.columns,
        ChangesOffset.from_json(request.since),
        ChangesOffset.from_json(request.until),
        Checkpoint(request.checkpoint, request.known, frozenset(request.files), request.retain),
        memory,
        Search.of_request(request.found),
    )
    with open_changes(catalog, request.table, request.options) as (name, opened):
        planned = opened.plan_new_changes(batch)
    return make_planned_read(name, opened.table, planned, ScanRequest(request.columns))
