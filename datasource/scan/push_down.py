"""Decides, for Spark and for Python programs alike, which part of a query a scan does, and assembles the scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark_pravega.sql import options as o

from ..tables.hidden_columns import CHANGE_COLUMNS
from ..tables.open_table import OpenTable
from .aggregates.aggregating_reader import begin_aggregates
from .borders import count_events_by_log
from .conditions import Condition, can_evaluate
from .planned_scan import PlannedScan, RowSource
from .reader import SegmentScanReader
from .scan_request import ScanRequest, WantedRows
from .sieving_reader import choose_columns_to_read, sieve

_VERSION = CHANGE_COLUMNS["_commit_version"]


def is_about_versions(condition: Condition) -> bool:
    """Return whether a condition on changes is only about their version."""
    return condition.columns == [_VERSION.name]


@dataclass(frozen=True)
class PushDown:
    """What a scan does for a query: the rows that it reads, and how tasks filter and aggregate them."""

    opened: OpenTable
    request: ScanRequest
    wanted: WantedRows
    sieved: Sequence[Condition]
    """The sieve: conditions that tasks evaluate on the rows."""

    @classmethod
    def of(cls, opened: OpenTable, request: ScanRequest, chooses: Callable[[Condition], bool]) -> PushDown:
        """Decide what a scan does. `chooses` says whether a condition can choose events before they are decoded."""
        exact = _exact_hints(request) if opened.options.get(o.PUSH_DOWN_FILTERS) else []
        sieved = tuple(condition for condition in request.conditions if not chooses(condition))
        required, limit = request.row_columns, request.row_limit
        filtered = bool(sieved) or request.filtered
        by_key = opened.options.get(o.PUSH_DOWN_ROUTING_KEY)
        wanted = WantedRows(
            columns=required if request.every is None else choose_columns_to_read(required, sieved, request.every),
            limit=None if filtered else limit,
            few=filtered and limit is not None,
            choosing=[condition for condition in (*request.conditions, *exact) if chooses(condition)],
            conditions=(*sieved, *request.hints) if by_key else (),
            earlier=request.earlier,
            search=request.search,
            files=request.files,
            counted=request.counted,
        )
        return cls(opened, request, wanted, sieved)

    def finish(self, planned: PlannedScan) -> PlannedScan:
        """Add what tasks do with the wanted rows to the plan of these."""
        request, known, aggregation = self.request, None, self.request.aggregation
        source = sieve(self._for_cores(planned.source), self.sieved, request.row_columns, request.row_limit)
        if aggregation is not None:
            if aggregation.only_counts_rows and not request.conditions:
                known = count_events_by_log(self.opened.pravega, self.opened.stream, planned)
            source = begin_aggregates(source, aggregation, request.columns)
        return replace(planned, source=source, known=known)

    def _for_cores(self, source: RowSource) -> RowSource:
        """Let small slices share tasks, as long as there are enough tasks to keep the cores busy."""
        cores = self.request.cores
        if cores is None or not isinstance(source.reader, SegmentScanReader):
            return source
        return replace(source, reader=source.reader.for_cores(cores))


def _exact_hints(request: ScanRequest) -> list[Condition]:
    """Return the hints that a scan evaluates exactly as the caller does."""
    every = request.columns if request.every is None else request.every
    return [condition for condition in request.hints if can_evaluate([condition], every) == [True]]
