"""Carries out the requests to the catalog service."""

from __future__ import annotations

import logging
import threading
from contextlib import nullcontext
from typing import TypeAlias, assert_never

from pyspark_pravega.client.cancellation import shield
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.change_task import ChangesWriter
from pyspark_pravega.datasource.insert.ledger import Epoch
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.positions.bounds import has_end
from pyspark_pravega.datasource.scan.noted_borders import NotedBorders
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.stream_source.source import MicroBatchEnd
from pyspark_pravega.errors import PravegaError

from . import protocol as r
from .altering.column_changes import can_evolve
from .creation.making import create
from .metadata.registered_schemas import describe_lake
from .name_resolution import find_named, undo_creation
from .procedures import calling as procedures
from .protocol.service_replies import InsertBegun, Reply
from .queries import relations, scan_planning, sources
from .running.tending import QueryServers
from .storage.catalogs import Catalog, Connections
from .storage.reporting import WRITE_AGAIN, explain_dropped_streams
from .storage.spelling import prefix_table
from .streaming import sink_tables
from .streaming.micro_batches import StreamingReads
from .tables import namespaces, stream_tables, views
from .tables.named_table import TableInScope
from .tables.time_travel import check_column_options
from .writing import insert_start
from .writing.automatic_compaction import AutomaticCompactions
from .writing.entry_epochs import begin_keyed_write
from .writing.open_writes import Inserts
from .writing.row_changes import Statement, choose_writer, make_commit

LOG = logging.getLogger(__name__)
Answer: TypeAlias = Reply | MicroBatchEnd | Limits | str | int | bool | list[str] | list[bool] | dict[str, str] | None
"""A reply, or the plain value that a request's description names."""


_RUN_TO_END = (
    r.SettleTable,
    r.AlterTable,
    r.DropTable,
    r.UndoCreation,
    r.TruncateTable,
    r.PutView,
    r.RenameView,
    r.DropView,
    r.CallProcedure,
    r.ReleaseQueries,
    r.StopStream,
)
"""Requests that are carried out as a whole, even if nobody waits for them any longer."""


class Operations:
    """Carries out requests; thread-safe."""

    def __init__(self) -> None:
        self._connections = Connections()
        self._inserts = Inserts()
        self._compactions = AutomaticCompactions()
        self._reads = StreamingReads()
        self._servers = QueryServers()

    def answer(self, number: int, envelope: r.Envelope) -> Answer:
        """Carry out the request of the call with this number, and return its reply. Raises what went wrong."""
        request = envelope.request
        if isinstance(request, r.LoadSource):
            conf = sources.resolve_conf(envelope.conf, request)
            with self._connections.catalog(conf) as catalog:
                return sources.load(catalog, conf, request)
        with self._connections.catalog(envelope.conf) as catalog:
            with shield() if isinstance(request, _RUN_TO_END) else nullcontext():
                return self._answer(number, catalog, request)

    def take_back(self, number: int) -> None:
        """Abort the INSERT of a call whose answer nobody has read."""
        self._inserts.abort_begun_by(number)

    def abort_open_inserts(self) -> list[threading.Thread]:
        """Begin to abort all open INSERTs, whose driver is gone; return the threads that do it."""
        return self._inserts.abort_all()

    def close(self) -> None:
        """Let other servers run the driver's queries, and close all connections."""
        try:
            self._servers.release_all(self._connections)
        except PravegaError as error:
            LOG.debug("Leases of queries are left to end by themselves: %s", error)
        self._connections.close()

    def _answer(self, number: int, catalog: Catalog, request: r.CatalogRequest) -> Answer:
        if isinstance(request, r.StreamRequest):
            return self._reads.answer(catalog, request)
        match request:
            case r.DefaultNamespace():
                return namespaces.find_default_namespace(catalog)
            case r.ListNamespaces():
                return namespaces.list_namespaces(catalog)
            case r.NamespaceExists(namespace):
                return namespaces.has_namespace(catalog, namespace)
            case r.LoadNamespace(namespace):
                return namespaces.load_namespace(catalog, namespace)
            case r.CreateNamespace(namespace, properties):
                namespaces.create_namespace(catalog, namespace, properties)
            case r.AlterNamespace(namespace, changed):
                namespaces.alter_namespace(catalog, namespace, changed)
            case r.DropNamespace(namespace, cascade):
                return namespaces.drop_namespace(catalog, namespace, cascade)
            case r.ListViews(namespace):
                return views.list_views(catalog, namespace)
            case r.PutView():
                views.put(catalog, request)
            case r.RenameView():
                views.rename(catalog, request, request.new)
            case r.DropView():
                return views.drop(catalog, request)
            case r.ListRelations(namespace):
                return relations.list_relations(catalog, namespace)
            case r.ListTables(namespace):
                return relations.list_tables(catalog, namespace)
            case r.LoadTable():
                return find_named(catalog, request).load(request)
            case r.LoadChangelog(options=options, range=range):
                return scan_planning.load_changes(find_named(catalog, request), range, options)
            case r.DescribeLake(table):
                return describe_lake(catalog, table)
            case r.ReadMetadata(options=options):
                return find_named(catalog, request).read_rows(options)
            case r.TableExists(creating=True):
                return find_named(catalog, request).confirm_existence()
            case r.TableExists():
                return find_named(catalog, request).exists()
            case r.HintOfTable():
                in_scope = isinstance(find_named(catalog, request), TableInScope)
                return relations.suggest_table(catalog, request) if in_scope else ""
            case r.CreateTable():
                return create(catalog, request)
            case r.SettleTable(table, schema, options, output_mode):
                return sink_tables.settle(catalog, table, schema, options, output_mode)
            case r.AlterTable(changes=table_changes):
                return find_named(catalog, request).alter(table_changes)
            case r.DropTable():
                return find_named(catalog, request).drop()
            case r.UndoCreation(table, id):
                undo_creation(catalog, table, id)
            case r.TakesChange(table, change):
                return can_evolve(table, change)
            case r.LoadSegments():
                return find_named(catalog, request).find_key_space()
            case r.TruncateTable(table):
                stream_tables.truncate(catalog, table)
            case r.Refuse(statement=statement, table=loaded):
                find_named(catalog, request).refuse(statement, loaded)
            case r.ListProcedures() | r.LoadProcedure() | r.CallProcedure():
                return procedures.answer(catalog, self._servers, request)
            case r.HaveEnds(reads):
                return all(map(has_end, reads))
            case r.TendQueries(server, reports):
                return self._servers.get(catalog, server).tend(catalog, reports)
            case r.ReleaseQueries(server):
                self._servers.release(catalog, server)
            case r.WakeQueries():
                self._servers.wake()
            case r.PlanScan():
                return scan_planning.plan_scan(catalog, request)
            case r.CheckColumnOptions():
                check_column_options(catalog, request.table, request.options)
            case r.TakeConditions():
                return scan_planning.take_conditions(catalog, request)
            case r.TakeAggregation():
                return scan_planning.take_aggregation(catalog, request)
            case r.NoteBorders(table, numbers):
                if not table.members:  # nobody knows of which one these are
                    NotedBorders(catalog.pravega, table.stream).remember(numbers)
            case r.StopStream(checkpoint=checkpoint):
                self._reads.note_stopped(checkpoint)
            case r.BeginInsert():
                return self._begin_insert(number, catalog, request)
            case r.BeginChanges():
                return self._begin_changes(number, catalog, request)
            case r.BeginKeyedWrite():
                return begin_keyed_write(catalog, request)
            case r.CommitInsert():
                return self._commit_insert(catalog, request)
            case r.AbortInsert(table, insert):
                self._inserts.abort(catalog, table, insert)
            case _:
                assert_never(request)
        return None

    def _begin_insert(self, number: int, catalog: Catalog, request: r.BeginInsert) -> InsertBegun:
        table, written_options, micro_batch = request.table, request.options, None
        with prefix_table(catalog, table):
            if isinstance(request, r.BeginEpoch):
                written_options = insert_start.select_write_options(table, written_options)
                micro_batch = insert_start.MicroBatch(request.query, request.run, request.epoch)
            options = catalog.options(write=written_options)
            prepared = open_table(catalog.pravega, table, options).prepare_insert(request.schema)
            writer = choose_writer(catalog, prepared, request)
        with explain_dropped_streams(WRITE_AGAIN):
            start = insert_start.InsertStart(
                number, request.schema, request.tasks, written_options, micro_batch, writer
            )
            return self._inserts.begin(catalog, prepared, start)

    def _begin_changes(self, number: int, catalog: Catalog, request: r.BeginChanges) -> InsertBegun:
        table = request.table
        with prefix_table(catalog, table):
            write_options = insert_start.select_statement_options(request.options)
            prepared = open_table(catalog.pravega, table, catalog.options(write=write_options)).prepare_changes()
            CommitLog(catalog.pravega, table.stream).make_ready()
        with explain_dropped_streams(WRITE_AGAIN):
            start = insert_start.InsertStart(number, table.schema, request.tasks, write_options, writer=ChangesWriter)
            return self._inserts.begin(catalog, prepared, start)

    def _commit_insert(self, catalog: Catalog, request: r.CommitInsert) -> int:
        epoch = None
        if isinstance(request, r.CommitEpoch):
            epoch = Epoch.of_query(request.query, request.epoch, request.run, request.offsets, request.watermark)
        statement = Statement.of(request)
        checked = None if statement is None else make_commit(catalog, statement, again=request.again)
        end = insert_start.InsertEnd(request.insert, request.messages, request.again, epoch, checked)
        rows = self._inserts.commit(catalog, request.table, end)
        if request.insert.kind in (insert_start.WriteKind.TRANSACTION, insert_start.WriteKind.SINGLE_TASK):
            self._compactions.consider(catalog, request.table)
        return rows
