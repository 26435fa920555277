"""Decides, for Spark and for Python programs alike, which part of a query a scan does, and assembles the scan.

A sieve is a part of it: it takes rows away by conditions of the query, before they become rows of the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega.sql import options as o

from ..tables.hidden_columns import CHANGE_COLUMNS, map_fields_by_name
from ..tables.open_table import OpenTable
from .aggregates.aggregating_reader import begin_aggregates
from .aggregates.aggregation import is_exact_in_any_order
from .borders import count_events_by_log
from .conditions import Condition, Sieve, can_evaluate
from .counts import Counts, find_counts
from .planned_scan import PlannedReader, PlannedScan, RowSource
from .scan_request import ScanRequest, WantedRows


@dataclass(frozen=True)
class SievingPlan:
    """The reader of the rows, the conditions that they must fulfil, and the part of them that is returned."""

    reader: PlannedReader[Any, Any]
    conditions: tuple[Condition, ...]
    read: StructType
    """The columns of the reader's rows, to which the conditions refer."""
    columns: int
    """How many of them, from the first one on, are returned."""
    counted: bool
    """Whether batches of the reader may hold counts."""
    limit: int | None
    """The rows that are enough for one partition; None: all."""


class SievingReader(PlannedReader[SievingPlan, InputPartition]):
    """The partitions of another reader, without the rows that do not fulfil all conditions.

    Spark does not evaluate the conditions again. The other reader decodes the events of all rows, so that the same
    events are bad, and are counted, as without conditions.
    """

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        plan, left = self.plan, self.plan.limit
        sieve = Sieve(plan.conditions, plan.read)
        names = plan.read.fieldNames()
        schema, counts = None, Counts()
        for batch in plan.reader.batches(partition):
            if plan.counted and find_counts(batch) is not None:
                yield self._select_returned(batch)
                continue
            mask = sieve.mask(dict(zip(names, batch.columns, strict=False)))
            counts.sieved += len(mask) - mask.true_count
            schema = batch.schema
            if not mask.true_count:
                continue
            rows = self._select_returned(batch)
            if mask.true_count < len(mask):
                rows = rows.filter(mask)
            if left is not None:
                rows = rows.slice(0, left)
                left -= rows.num_rows
            yield rows
            if left == 0:
                break
        if plan.counted and schema is not None:
            yield from map(self._select_returned, counts.batches(schema))

    def _select_returned(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places = list(range(self.plan.columns))
        return batch.select([*places, batch.num_columns - 1] if self.plan.counted else places)


def choose_columns_to_read(required: StructType, conditions: Sequence[Condition], every: StructType) -> StructType:
    """Return the columns that a scan reads to evaluate conditions: the required ones come first.

    `every` are the columns that the table has for Spark.
    """
    fields, names = map_fields_by_name(every), set(required.names)
    extra = dict.fromkeys(name for condition in conditions for name in condition.columns if name not in names)
    return StructType([*required.fields, *(fields[name] for name in extra)])


def sieve(source: RowSource, conditions: Sequence[Condition], required: StructType, limit: int | None) -> RowSource:
    """Return the required columns of the rows that fulfil the conditions; the source has `choose_columns_to_read`'s.

    If no column is required, there is one with arbitrary values. The `limit` applies to each task.
    """
    if not conditions:
        return source
    count = max(len(required), 1)
    schema = StructType(source.schema.fields[:count])
    # Where tasks count, columns are nullable in what they make.
    output = StructType([*source.output.fields[:count], *source.output.fields[len(source.schema) :]])
    plan = SievingPlan(source.reader, tuple(conditions), source.schema, count, source.counted, limit)
    return RowSource(SievingReader(plan, source.reader.planned), schema, output)


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
        exact = _select_exact_hints(request) if opened.options.get(o.PUSH_DOWN_FILTERS) else []
        sieved = tuple(condition for condition in request.conditions if not chooses(condition))
        required, limit = request.row_columns, request.row_limit
        filtered = bool(sieved) or request.filtered
        by_key = opened.options.get(o.PUSH_DOWN_ROUTING_KEY)
        rows = WantedRows(
            columns=required if request.every is None else choose_columns_to_read(required, sieved, request.every),
            limit=None if filtered else limit,
            few=filtered and limit is not None,
            choosing=[condition for condition in (*request.conditions, *exact) if chooses(condition)],
            conditions=(*sieved, *request.hints) if by_key else (),
            earlier=request.earlier,
            search=request.search,
            files=request.files,
            counted=request.counted,
            cores=request.cores,
            any_order=request.aggregation is not None and is_exact_in_any_order(request.aggregation, request.columns),
        )
        return cls(opened, request, rows, sieved)

    def finish(self, planned: PlannedScan) -> PlannedScan:
        """Add what tasks do with the wanted rows to the plan of these."""
        request, count, aggregation = self.request, None, self.request.aggregation
        source = sieve(planned.source, self.sieved, request.row_columns, request.row_limit)
        if aggregation is not None:
            if aggregation.only_counts_rows and not request.conditions:
                count = count_events_by_log(self.opened.pravega, self.opened.stream, planned)
            source = begin_aggregates(source, aggregation, request.columns)
        return replace(planned, source=source, known=count)


def _select_exact_hints(request: ScanRequest) -> list[Condition]:
    """Return the hints that a scan evaluates exactly as the caller does."""
    every = request.columns if request.every is None else request.every
    return [condition for condition in request.hints if can_evaluate([condition], every) == [True]]
