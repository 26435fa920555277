"""Carries out the requests to the catalog service."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias, assert_never

from pyspark.sql.types import StructType

from pyspark_pravega.client.cancellation import shielded
from pyspark_pravega.datasource.changes.appended import is_about_versions
from pyspark_pravega.datasource.changes.batch_end import Wanted
from pyspark_pravega.datasource.changes.position import Position
from pyspark_pravega.datasource.changes.row_changes_stream import ChangesMemory, Checkpoint
from pyspark_pravega.datasource.changes.truncation_search import Search
from pyspark_pravega.datasource.insert.ledger import Epoch
from pyspark_pravega.datasource.kinds.dispatch import kind_of
from pyspark_pravega.datasource.scan.aggregating_reader import aggregated
from pyspark_pravega.datasource.scan.aggregation import can_begin
from pyspark_pravega.datasource.scan.bounds import bounds_text
from pyspark_pravega.datasource.scan.conditions import Condition, taken
from pyspark_pravega.datasource.scan.places import Places, is_about_places
from pyspark_pravega.datasource.scan.planned_scan import EarlierScan
from pyspark_pravega.datasource.scan.sieving_reader import columns_to_read, sieved
from pyspark_pravega.datasource.stream_source.limits import Limits, limits_of
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.stream_source.reading_queries import ReadingQueries
from pyspark_pravega.datasource.tables.hidden_columns import fields_by_name
from pyspark_pravega.errors import StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import strings_for_char_types
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refusal

from . import changes, namespaces, several, sources, streams, tables, tables_of_streams, time_travel
from . import requests as r
from .altering.columns import takes_change
from .altering.properties import alter
from .connections import Catalog, Connections
from .dropping import drop_stream
from .functions import key_space
from .inserts import Inserts
from .metadata import dispatch as metadata
from .metadata.dispatch import belongs_to_stream
from .naming import WRITE_AGAIN, errors_about, errors_about_dropped_streams
from .reads import planned_read
from .replies import (
    InsertBegun,
    KeySpace,
    MetadataDescription,
    MetadataRows,
    MicroBatchEnd,
    PlannedRead,
    ScanEnds,
    SourceDescription,
    TableDescription,
)
from .spelling import stream_named, subject, table_name
from .truncating import truncate

Reply: TypeAlias = (
    TableDescription
    | MetadataDescription
    | MetadataRows
    | SourceDescription
    | KeySpace
    | PlannedRead
    | InsertBegun
    | MicroBatchEnd
    | Limits
    | str
    | int
    | bool
    | list[str]
    | list[bool]
    | dict[str, str]
    | None
)
"""Of `replies`, or the plain value that a request's description names."""


class Operations:
    """Carries out requests; thread-safe."""

    def __init__(self) -> None:
        self._connections = Connections()
        self._inserts = Inserts()
        self._changes = ChangesMemory()
        self._source = SourceMemory()
        self._queries = ReadingQueries()

    def answer(self, number: int, envelope: r.Envelope) -> Reply:
        """Carry one request out, the call of this number; raises what went wrong."""
        request = envelope.request
        if isinstance(request, r.LoadSource):
            conf = sources.conf_of(envelope.conf, request)
            with self._connections.catalog(conf) as catalog:
                return sources.load(catalog, conf, request)
        with self._connections.catalog(envelope.conf) as catalog:
            return self._answer(number, catalog, request)

    def take_back(self, number: int) -> None:
        """Abort the INSERT that was begun by a call whose answer nobody has read."""
        self._inserts.abort_begun_by(number)

    def abort_open_inserts(self) -> list[threading.Thread]:
        """Begin to abort all open INSERTs, whose driver is gone; return the threads that do."""
        return self._inserts.abort_all()

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def _answer(self, number: int, catalog: Catalog, request: r.CatalogRequest) -> Reply:
        if isinstance(request, r.StreamRequest) and request.table.members:
            return several.answer(catalog, self._source, request)
        match request:
            case r.DefaultNamespace():
                return namespaces.default_namespace(catalog)
            case r.ListNamespaces():
                return namespaces.list_namespaces(catalog)
            case r.NamespaceExists(namespace):
                return namespaces.namespace_exists(catalog, namespace)
            case r.LoadNamespace(namespace):
                return namespaces.load_namespace(catalog, namespace)
            case r.CreateNamespace(namespace, properties):
                namespaces.create_namespace(catalog, namespace, properties)
                return None
            case r.AlterNamespace(namespace, changed):
                namespaces.alter_namespace(catalog, namespace, changed)
                return None
            case r.DropNamespace(namespace, cascade):
                return namespaces.drop_namespace(catalog, namespace, cascade)
            case r.ListTables(namespace):
                return tables.list_tables(catalog, namespace)
            case r.LoadTable(namespace, name, options, writing, at) if belongs_to_stream(namespace):
                return metadata.load(catalog, namespace, name, options, writing, at)
            case r.LoadTable(namespace, name, options, writing, at):
                return time_travel.at(catalog, tables.load(catalog, namespace, name, options, writing), at)
            case r.LoadChangelog(namespace, name, options, range):
                return changes.load_changes(catalog, namespace, name, range, options)
            case r.ReadMetadata(namespace, name):
                return metadata.rows(catalog, namespace, name)
            case r.TableExists(namespace, name, False) if belongs_to_stream(namespace):
                return metadata.exists(catalog, namespace, name)
            case r.TableExists(namespace, name, creating):
                return tables.exists(catalog, namespace, name, creating)
            case r.CreateTable():
                return _create_table(catalog, request)
            case r.SettleTable(table, schema, options, output_mode):
                with shielded():
                    return tables_of_streams.settle(catalog, table, schema, options, output_mode)
            case r.AlterTable(namespace, name, _) if belongs_to_stream(namespace):
                metadata.refuse_change(catalog, namespace, name)
                raise StreamNotFoundError(f"There is no table {catalog.named(*namespace, name)}.")
            case r.AlterTable(namespace, name, table_changes):
                with shielded():
                    return alter(catalog, namespace, name, table_changes)
            case r.DropTable(namespace, name) if belongs_to_stream(namespace):
                return metadata.refuse_change(catalog, namespace, name)
            case r.DropTable(namespace, name):
                with shielded():
                    return tables.drop(catalog, namespace, name)
            case r.UndoCreation(table):
                with shielded():
                    drop_stream(catalog, table.stream)
                return None
            case r.TakesChange(table, change):
                return takes_change(table, change)
            case r.LoadSegments(namespace, name):
                return key_space(catalog, stream_named(catalog, namespace, name))
            case r.TruncateTable(table):
                with shielded():
                    truncate(catalog, table)
                return None
            case r.Refuse(namespace, name, statement):
                if catalog.by_options and statement == "INSERT OVERWRITE":
                    statement = "mode('overwrite')"
                raise UnsupportedOperationError(refusal(statement, catalog.named(*namespace, name)))
            case r.PlanScan():
                return _plan_scan(catalog, request)
            case r.TakeConditions():
                return _take_conditions(catalog, request)
            case r.TakeAggregation():
                return _take_aggregation(catalog, request)
            case r.PlanChanges():
                return _plan_changes(catalog, request)
            case r.StartOfChanges(table, options):
                with changes.asked_for(catalog, table, options) as asked:
                    kind = kind_of(asked.table)
                    return kind.start_of_changes(catalog.pravega, asked.table, asked.range, asked.options).to_json()
            case r.EndOfChanges():
                return _end_of_changes(catalog, request, self._source)
            case r.LimitsOfChanges(table, options):
                with changes.asked_for(catalog, table, options) as asked:
                    return limits_of(asked.options)
            case r.PlanNewChanges():
                return _plan_new_changes(catalog, request, self._changes)
            case r.StartOfStream():
                return streams.start_of_stream(catalog, self._source, request)
            case r.LastOfStream():
                return streams.last_of_stream(catalog, self._source, request)
            case r.LimitsOfStream():
                return streams.limits_of_stream(catalog, self._source, request)
            case r.EndOfMicroBatch():
                return streams.end_of_micro_batch(catalog, self._source, self._queries, request)
            case r.PlanMicroBatch():
                return streams.plan_micro_batch(catalog, self._source, self._queries, request)
            case r.PlanRealTime():
                return streams.plan_real_time(catalog, self._source, self._queries, request)
            case r.EndOfRealTime():
                return streams.end_of_real_time(catalog, self._source, request)
            case r.CommitMicroBatch():
                streams.commit_micro_batch(catalog, self._source, self._queries, request)
                return None
            case r.StopStream(checkpoint=checkpoint):
                with shielded():
                    self._queries.stopped(checkpoint)
                    self._source.forget(checkpoint)
                return None
            case r.BeginInsert() | r.BeginEpoch():
                return self._begin_insert(number, catalog, request)
            case r.CommitInsert(table, insert, messages, again):
                return self._inserts.commit(catalog, table, insert, messages, again)
            case r.CommitEpoch(table, insert, messages, again, query, run, number, offsets):
                epoch = Epoch.of_query(query, number, run, offsets)
                return self._inserts.commit(catalog, table, insert, messages, again, epoch)
            case r.AbortInsert(table, insert):
                self._inserts.abort(catalog, table, insert)
                return None
        assert_never(request)

    def _begin_insert(self, number: int, catalog: Catalog, request: r.BeginInsert | r.BeginEpoch) -> InsertBegun:
        table, given, query = request.table, request.options, None
        with errors_about("Table", subject(catalog, table)):
            if isinstance(request, r.BeginEpoch):
                given, query = tables_of_streams.write_options(table, given), request.query
            options = catalog.options(write=given)
            table = kind_of(table).prepare_insert(catalog.pravega, table, request.schema, options)
        with errors_about_dropped_streams(WRITE_AGAIN):
            return self._inserts.begin(number, catalog, table, request.schema, request.tasks, given, query)


def _create_table(catalog: Catalog, request: r.CreateTable) -> TableDescription:
    return tables.create(
        catalog,
        request.namespace,
        request.name,
        request.schema,
        request.partitions,
        request.properties,
        request.adopt,
        request.constraints,
        request.defaults,
    )


def _plan_scan(catalog: Catalog, request: r.PlanScan) -> PlannedRead:
    table = request.table
    name = table_name(catalog, table)
    ends = request.ends or ScanEnds()
    kind, aggregation = kind_of(table), request.aggregation
    conditions, places = request.conditions, None
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
        planned = kind.plan_scan(
            catalog.pravega,
            table,
            _to_read(required, conditions, request.every),
            options,
            limit=None if conditions else limit,
            few=bool(conditions) and limit is not None,
            count_bad_events=True,
            tail=None if known is None else known.offsets(),
            search=Search.of_request(request.found),
            places=places,
            conditions=conditions if options.get(o.PUSH_DOWN_ROUTING_KEY) else (),
        )
    if known is None:
        ends = ends.with_end(*bounds, planned.tail)
    planned = sieved(planned, conditions, required, limit)
    if aggregation is not None:
        planned = aggregated(planned, aggregation, request.columns)
    columnar = options.get(o.COLUMNAR_READS)
    return planned_read(name, table, required, planned, ends, limit, aggregation, request.conditions, columnar)


def _take_conditions(catalog: Catalog, request: r.TakeConditions) -> list[bool]:
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


def _take_aggregation(catalog: Catalog, request: r.TakeAggregation) -> bool:
    table = request.table
    with errors_about("Table", subject(catalog, table)):
        read = time_travel.without_sparks(table, request.options)
        options = catalog.options(read=read, properties=table.scan_properties)
    return (
        options.get(o.PUSH_DOWN_AGGREGATES)
        and table.changes is None
        and can_begin(request.aggregation, request.written, request.columns)
    )


def _plan_changes(catalog: Catalog, request: r.PlanChanges) -> PlannedRead:
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
    planned = sieved(planned, conditions, request.columns, limit)
    columnar = asked.options.get(o.COLUMNAR_READS)
    return planned_read(
        asked.name, asked.table, request.columns, planned, ends, limit, None, request.conditions, columnar
    )


def _end_of_changes(catalog: Catalog, request: r.EndOfChanges, memory: SourceMemory) -> str:
    with changes.asked_for(catalog, request.table, request.options) as asked:
        since = Position.from_json(request.since)
        last = None if request.last is None else Position.from_json(request.last)
        wanted = Wanted(last, request.limits, request.checkpoint, memory)
        end = kind_of(asked.table).end_of_changes(catalog.pravega, asked.table, asked.options, since, wanted)
        return request.since if end is since else end.to_json()


def _plan_new_changes(catalog: Catalog, request: r.PlanNewChanges, memory: ChangesMemory) -> PlannedRead:
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


__all__ = ["Operations", "Reply"]
