"""Plans scans of rows and of changes: opens the table, and describes the plan to Spark's readers."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import compress

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.changes.truncations import FOUND
from pyspark_pravega.datasource.kinds.kind import TableKind
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.positions.bounds import describe_bounds
from pyspark_pravega.datasource.scan.aggregates.aggregation import can_begin
from pyspark_pravega.datasource.scan.conditions import Condition, can_evaluate
from pyspark_pravega.datasource.scan.planned_scan import EarlierScan, PlannedScan, RowSource
from pyspark_pravega.datasource.scan.scan_request import ScanRequest, Search
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_read
from pyspark_pravega.datasource.tables.bad_events import PERMISSIVE
from pyspark_pravega.datasource.tables.change_range import ChangeRange
from pyspark_pravega.datasource.tables.hidden_columns import map_fields_by_name
from pyspark_pravega.datasource.tables.open_table import drop_changes_options, resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.formats.core.arrow_types import replace_char_types
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.service_replies import PlannedRead, PlannedTasks, ScanEnd, ScanEnds, TableDescription
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.spelling import name_table, name_table_and_stream, prefix_table
from ..tables.named_table import NamedTable
from ..tables.time_travel import check_column_options


@contextmanager
def open_changes(catalog: Catalog, table: StreamTable, options: Mapping[str, str]) -> Iterator[tuple[str, TableKind]]:
    """Open the table of a query with CHANGES, with its name for readers; errors in the body name its changes."""
    with prefix_errors("The", f"changes of {name_table_and_stream(catalog, table)}"):
        resolved = resolve_read(catalog.options, table, options)
        yield f"changes of {name_table(catalog, table)}", open_table(catalog.pravega, table, resolved)


def load_changes(named: NamedTable, changes: ChangeRange, options: Mapping[str, str]) -> TableDescription:
    """Describe the changes of a table in a range, for a query with these options.

    Raises the errors of `NamedTable.load_for`.
    """
    options = drop_changes_options(options)
    described = named.load_for("CHANGES", options)
    resolved = resolve_read(named.catalog.options, described.table, options)
    with prefix_errors("Table", described.name):
        return describe_changes(described, changes, resolved)


def describe_changes(described: TableDescription, changes: ChangeRange, options: o.Options) -> TableDescription:
    """Describe the changes of a table in a range. Raises InvalidOptionError for a wrong range."""
    table = described.table
    schema = find_table_kind(table).changes_schema_of(table, permissive=options.get(o.MODE) == PERMISSIVE)
    changes.bounds()
    return replace(
        described, schema=schema, table=table.as_asked(changes=changes), of_changes=True, metadata_columns=()
    )


def make_planned_read(
    name: str,
    table: StreamTable,
    planned: PlannedScan,
    request: ScanRequest,
    ends: ScanEnds | None = None,
    *,
    columnar: bool = True,
) -> PlannedRead:
    """Return the reply for a planned scan of what has this name. `columnar` says that Spark gets columns, not rows."""
    shown = ", ".join(request.row_columns.fieldNames()) or "none"
    text = f"{name} ({table.format}) columns: {shown}; segments: {planned.segments}, bytes: {planned.bytes}"
    if planned.keyed is not None:
        text += "; routing key: {} of {} segments".format(*planned.keyed)
    text += "".join(f"; {bound}: {how}" for bound, how in planned.about.items())
    if request.aggregation is not None:
        text += f"; aggregates: {request.aggregation}"
    if request.conditions:
        text += f"; filters: {', '.join(map(str, request.conditions))}"
    if request.row_limit is not None:
        text += f"; limit: {request.row_limit}"
    return PlannedRead(
        tasks=pickle_tasks(planned.source) if planned.whole else None,
        search=None if planned.search is None else pickle_tasks(RowSource(planned.search, FOUND, FOUND)),
        schema=planned.source.schema,
        affinities=tuple(planned.affinities),
        bytes=planned.bytes,
        description=text,
        ends=ends,
        rows=planned.rows,
        columnar=columnar,
        known=planned.known,
    )


def pickle_tasks(source: RowSource) -> PlannedTasks:
    """Return the tasks that read the rows of a source."""
    function, partitions = pickle_read(source.reader, source.output)
    return PlannedTasks(function, PYTHON, tuple(partitions), source.schema, source.output)


def plan_scan(catalog: Catalog, request: r.PlanScan) -> PlannedRead:
    table = request.table
    if table.asked.changes is not None:
        return _plan_changes(catalog, request)
    check_column_options(catalog, table, request.options)
    ends = request.ends or ScanEnds()
    with prefix_table(catalog, table):
        options = resolve_read(catalog.options, table, request.options)
        # All scans of a table in one query read up to the same tail; for the next query Spark loads the table again.
        start, until = describe_bounds(options)
        bounds = start, until if table.asked.as_of is None else "as of"
        end = ends.find(*bounds)
        scan = _make_request(request, end)
        planned = open_table(catalog.pravega, table, options).plan_scan(scan)
    if end is None:
        ends = ends.with_end(*bounds, planned.tail)
    shown = replace(scan, conditions=request.conditions)
    columnar = options.get(o.COLUMNAR_READS)
    return make_planned_read(name_table(catalog, table), table, planned, shown, ends, columnar=columnar)


def _make_request(request: r.PlanScan, end: ScanEnd | None) -> ScanRequest:
    """Return what Spark asks of a scan. `end` is the end of an earlier scan in the same query."""
    conditions = request.conditions
    hints: tuple[Condition, ...] = ()
    if request.every is not None:
        evaluable = can_evaluate(request.of_joins, request.every)
        conditions += tuple(compress(request.of_joins, evaluable))
        hints = tuple(compress(request.of_joins, map(operator.not_, evaluable)))
    return ScanRequest(
        request.columns,
        conditions,
        request.every,
        hints,
        limit=request.limit if request.limit >= 0 else None,
        aggregation=request.aggregation,
        cores=request.cores,
        earlier=None if end is None else EarlierScan(dict(end.tail), end.newest),
        search=Search.of_request(request.found),
        files=request.files,
        counted=True,
    )


def take_conditions(catalog: Catalog, request: r.TakeConditions) -> list[bool]:
    """Return for each condition whether the scan's tasks evaluate it, so that Spark need not."""
    table = request.table
    with prefix_table(catalog, table):
        options = resolve_read(catalog.options, table, request.options)
    if not options.get(o.PUSH_DOWN_FILTERS):
        return [False] * len(request.conditions)
    columns = replace_char_types(StructType(list(map_fields_by_name(request.columns).values())))
    return can_evaluate(request.conditions, columns)


def take_aggregation(catalog: Catalog, request: r.TakeAggregation) -> bool:
    """Return whether the scan's tasks begin an aggregation."""
    table = request.table
    if table.asked.changes is not None:
        return False
    with prefix_table(catalog, table):
        options = resolve_read(catalog.options, table, request.options)
    return options.get(o.PUSH_DOWN_AGGREGATES) and can_begin(request.aggregation, request.written, request.columns)


def _plan_changes(catalog: Catalog, request: r.PlanScan) -> PlannedRead:
    scan = _make_request(request, None if request.ends is None else request.ends.ends[0])
    with open_changes(catalog, request.table, request.options) as (name, opened):
        planned = opened.plan_scan(scan)
    # CHANGES has its own bounds, which are part of the table.
    ends = ScanEnds().with_end("", "", planned.tail, planned.newest)
    columnar = opened.options.get(o.COLUMNAR_READS)
    return make_planned_read(name, opened.table, planned, scan, ends, columnar=columnar)
