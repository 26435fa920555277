"""Plans scans and changes, and replies with them to Spark's readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pyspark_pravega.datasource.changes.appended import is_about_versions
from pyspark_pravega.datasource.changes.position import Position, Wanted
from pyspark_pravega.datasource.changes.row_changes_stream import ChangesMemory, Checkpoint
from pyspark_pravega.datasource.changes.truncations import FOUND, Search
from pyspark_pravega.datasource.kinds.kind import WantedRows
from pyspark_pravega.datasource.kinds.opening import kind_of
from pyspark_pravega.datasource.positions.bounds import bounds_text
from pyspark_pravega.datasource.scan.aggregating_reader import aggregated
from pyspark_pravega.datasource.scan.aggregation import Aggregation, can_begin
from pyspark_pravega.datasource.scan.borders import events_by_log
from pyspark_pravega.datasource.scan.conditions import Condition, taken
from pyspark_pravega.datasource.scan.places import Places, is_about_places
from pyspark_pravega.datasource.scan.planned_scan import EarlierScan, PlannedScan
from pyspark_pravega.datasource.scan.reader import SegmentScanReader
from pyspark_pravega.datasource.scan.sieving_reader import columns_to_read, sieved
from pyspark_pravega.datasource.spark_functions import PYTHON, pickled_read
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.tables.hidden_columns import fields_by_name
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.formats.core.arrow_types import strings_for_char_types
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.replies import PlannedRead, PlannedTasks, ScanEnds
from ..storage.connections import Catalog
from ..storage.naming import errors_about
from ..storage.spelling import subject, table_name
from ..tables import time_travel
from ..tables.time_travel import check_column_options
from . import changes


def planned_read(
    name: str,
    table: StreamTable,
    columns: StructType,
    planned: PlannedScan,
    ends: ScanEnds | None = None,
    limit: int | None = None,
    aggregation: Aggregation | None = None,
    conditions: Sequence[Condition] = (),
    columnar: bool = True,
) -> PlannedRead:
    """Return the reply of a planned scan of what has this name. `columns` are those that Spark asked for.

    `conditions` are those that the scan evaluates. `columnar`: Spark gets columns, not rows.
    """
    shown = ", ".join(columns.fieldNames()) or "none"
    text = f"{name} ({table.format}) columns: {shown}; segments: {planned.segments}, bytes: {planned.bytes}"
    if planned.keyed is not None:
        text += "; routing key: {} of {} segments".format(*planned.keyed)
    if aggregation is not None:
        text += f"; aggregates: {aggregation}"
    if conditions:
        text += f"; filters: {', '.join(map(str, conditions))}"
    return PlannedRead(
        tasks=_tasks(planned.reader, planned.schema, planned.output) if planned.whole else None,
        search=None if planned.search is None else _tasks(planned.search, FOUND, FOUND),
        schema=planned.schema,
        affinities=tuple(planned.affinities),
        bytes=planned.bytes,
        description=text if limit is None else f"{text}; limit: {limit}",
        ends=ends,
        rows=planned.rows,
        columnar=columnar,
        known=planned.known,
    )


def _tasks(reader: DataSourceReader, schema: StructType, output: StructType) -> PlannedTasks:
    function, partitions = pickled_read(reader, output)
    return PlannedTasks(function, PYTHON, tuple(partitions), schema, output)


def plan_scan(catalog: Catalog, request: r.PlanScan) -> PlannedRead:
    """Plan a scan of a table."""
    table = request.table
    check_column_options(catalog, table, request.options)
    name = table_name(catalog, table)
    ends = request.ends or ScanEnds()
    kind, aggregation = kind_of(table), request.aggregation
    conditions, places = request.conditions, None
    if request.every is not None:
        conditions += tuple(compress(request.of_joins, taken(request.of_joins, request.every)))
    if kind.events_are_rows:
        about_places = [each for each in conditions if is_about_places(each, table.schema)]
        conditions = tuple(each for each in conditions if each not in about_places)
        places = Places(about_places) if about_places else None
    if aggregation is None:
        required, limit = request.columns, _limit(request)
    else:
        required, limit = aggregation.operands(request.columns), None  # a limit of groups is none of events
    with errors_about("Table", subject(catalog, table)):
        read = time_travel.without_sparks(table, request.options)
        options = catalog.options(read=read, properties=table.scan_properties)
        # All scans of a table in one query read up to the same tail; Spark loads the table anew for the next query.
        bounds = bounds_text(options)
        known = ends.find(*bounds)
        wanted = WantedRows(
            limit=None if conditions else limit,
            few=bool(conditions) and limit is not None,
            tail=None if known is None else known.offsets(),
            places=places,
            conditions=conditions if options.get(o.PUSH_DOWN_ROUTING_KEY) else (),
            search=Search.of_request(request.found),
            counted=True,
        )
        planned = kind.plan_scan(catalog.pravega, table, _to_read(required, conditions, request.every), options, wanted)
    if known is None:
        ends = ends.with_end(*bounds, planned.tail)
    planned = sieved(_for_cores(planned, request.cores), conditions, required, limit)
    if aggregation is not None:
        if aggregation.only_counts_rows and not request.conditions:
            planned = replace(planned, known=events_by_log(catalog.pravega, table.stream, planned))
        planned = aggregated(planned, aggregation, request.columns)
    columnar = options.get(o.COLUMNAR_READS)
    return planned_read(name, table, required, planned, ends, limit, aggregation, request.conditions, columnar)


def _for_cores(planned: PlannedScan, cores: int) -> PlannedScan:
    """Let small slices share as few tasks as keep the cores busy."""
    if isinstance(planned.reader, SegmentScanReader):
        return replace(planned, reader=planned.reader.for_cores(cores))
    return planned


def take_conditions(catalog: Catalog, request: r.TakeConditions) -> list[bool]:
    """Tell which conditions the tasks of a scan evaluate, so that Spark need not."""
    table, given = request.table, request.options
    with errors_about("Table", subject(catalog, table)):
        given = time_travel.without_sparks(table, given)
        read = given if table.changes is None else changes.without_sparks(given)
        options = catalog.options(read=read, properties=table.scan_properties)
    if not options.get(o.PUSH_DOWN_FILTERS):
        return [False] * len(request.conditions)
    columns = strings_for_char_types(StructType(list(fields_by_name(request.columns).values())))
    assert isinstance(columns, StructType)
    return taken(request.conditions, columns)


def take_aggregation(catalog: Catalog, request: r.TakeAggregation) -> bool:
    """Tell whether the tasks of a scan begin an aggregation."""
    table = request.table
    if table.changes is not None:
        return False
    with errors_about("Table", subject(catalog, table)):
        read = time_travel.without_sparks(table, request.options)
        options = catalog.options(read=read, properties=table.scan_properties)
    return options.get(o.PUSH_DOWN_AGGREGATES) and can_begin(request.aggregation, request.written, request.columns)


def plan_changes(catalog: Catalog, request: r.PlanChanges) -> PlannedRead:
    """Plan a query with CHANGES."""
    known, limit = None if request.ends is None else request.ends.ends[0], _limit(request)
    kind, conditions = kind_of(request.table), request.conditions
    about_versions = [each for each in conditions if kind.events_are_rows and is_about_versions(each)]
    conditions = tuple(each for each in conditions if each not in about_versions)
    with changes.asked_for(catalog, request.table, request.options) as asked:
        planned = kind.plan_changes(
            catalog.pravega,
            asked.table,
            asked.range,
            _to_read(request.columns, conditions, request.every),
            asked.options,
            limit=None if conditions else limit,
            conditions=about_versions,
            earlier=None if known is None else EarlierScan(known.offsets(), known.newest),
            search=Search.of_request(request.found),
        )
    # CHANGES has bounds of its own, which are those of the table.
    ends = ScanEnds().with_end("", "", planned.tail, planned.newest)
    planned = sieved(_for_cores(planned, request.cores), conditions, request.columns, limit)
    columnar = asked.options.get(o.COLUMNAR_READS)
    return planned_read(
        asked.name, asked.table, request.columns, planned, ends, limit, None, request.conditions, columnar
    )


def end_of_changes(catalog: Catalog, request: r.EndOfChanges, memory: SourceMemory) -> str:
    """Return where a micro-batch of a stream of changes ends, as JSON; where it begins if there is none."""
    with changes.asked_for(catalog, request.table, request.options) as asked:
        since = Position.from_json(request.since)
        last = None if request.last is None else Position.from_json(request.last)
        wanted = Wanted(last, request.limits, request.checkpoint, memory)
        end = kind_of(asked.table).end_of_changes(catalog.pravega, asked.table, asked.options, since, wanted)
        return request.since if end is since else end.to_json()


def plan_new_changes(catalog: Catalog, request: r.PlanNewChanges, memory: ChangesMemory) -> PlannedRead:
    """Plan a micro-batch of a stream of changes."""
    with changes.asked_for(catalog, request.table, request.options) as asked:
        planned = kind_of(asked.table).plan_new_changes(
            catalog.pravega,
            asked.table,
            asked.range,
            request.columns,
            asked.options,
            Position.from_json(request.since),
            Position.from_json(request.until),
            Checkpoint(request.checkpoint, request.known, frozenset(request.files), request.retain),
            memory,
            Search.of_request(request.found),
        )
    return planned_read(asked.name, asked.table, request.columns, planned)


def _limit(request: r.PlanScan | r.PlanChanges) -> int | None:
    return request.limit if request.limit >= 0 else None


def _to_read(required: StructType, conditions: Sequence[Condition], every: StructType | None) -> StructType:
    return required if every is None else columns_to_read(required, conditions, every)
