"""Answers the requests of streaming queries about what they read: a table, several streams, or a table's changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TypeAlias, assert_never

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.recent import Recent
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.stream_source.source import MicroBatchEnd, StreamReader, StreamSource
from pyspark_pravega.datasource.table_of_options import load_members
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.sql.refusals import refuse_division

from .. import protocol as r
from ..protocol.service_replies import PlannedRead
from ..queries.scan_planning import make_planned_read
from ..storage.catalogs import Catalog
from ..storage.reporting import READ_AGAIN, explain_dropped_streams, prefix_errors
from ..storage.spelling import name_table, name_table_and_stream, prefix_table

_Origin: TypeAlias = tuple[r.StreamQuery, Mapping[str, str], Pravega]
"""From what a source was opened: where that is the same in a later request, so is the source."""


class StreamingReads:
    """The sources of the streaming queries that run now. Thread-safe.

    A new service opens them again. What is remembered of them only saves time, but for their consumers.
    """

    def __init__(self) -> None:
        self._memory = SourceMemory()
        self._opened: Recent[str, tuple[_Origin, StreamSource]] = Recent()

    def answer(self, catalog: Catalog, request: r.StreamRequest) -> str | Limits | MicroBatchEnd | PlannedRead | None:
        """Carry out a request. Raises the errors of `StreamSource`."""
        query = request.query
        table, changes = query.table, query.table.asked.changes is not None
        name = f"changes of {name_table(catalog, table)}" if changes else name_table(catalog, table)
        with ExitStack() as explained:
            if changes:
                explained.enter_context(prefix_errors("The", f"changes of {name_table_and_stream(catalog, table)}"))
            else:
                explained.enter_context(prefix_table(catalog, table))
                explained.enter_context(explain_dropped_streams(READ_AGAIN))
            source = self._open(catalog, query)
            match request:
                case r.StartOfStream():
                    return source.start()
                case r.LastOfStream():
                    return source.last()
                case r.LimitsOfStream():
                    return source.limits()
                case r.EndOfMicroBatch(since=since, last=last, limits=limits):
                    if last is not None:
                        # With availableNow no commit of the last batch comes, but its offset does, stored by then:
                        # asynchronous progress tracking, which stores it later, is not possible with this trigger.
                        source.commit(since)
                    return source.end(since, last, limits)
                case r.PlanMicroBatch(range=range):
                    return make_planned_read(name, table, source.plan(range), ScanRequest(query.columns))
                case r.PlanRealTime(since=since):
                    return make_planned_read(name, table, source.plan_real_time(since), ScanRequest(query.columns))
                case r.EndOfRealTime(reached=reached):
                    return source.end_of_real_time({int(segment): int(at) for segment, at in reached.items()})
                case r.CommitMicroBatch(until=until):
                    source.commit(until)
                    return None
            assert_never(request)

    def note_stopped(self, checkpoint: str) -> None:
        """Forget a query, after its consumer's last move."""
        self._memory.note_stopped(checkpoint)
        self._opened.pop(checkpoint)

    def _open(self, catalog: Catalog, query: r.StreamQuery) -> StreamSource:
        """Return the source of a query. Before the query has a checkpoint it is asked for its limits alone."""
        origin = query, catalog.conf, catalog.pravega
        earlier = self._opened.find(query.checkpoint)
        if earlier is not None and earlier[0] == origin:
            return earlier[1]
        options = resolve_read(catalog.options, query.table, query.options)
        refuse_division(options)
        opened = open_table(catalog.pravega, query.table, options)
        reader = StreamReader(
            name_table(catalog, query.table),
            query.id,
            query.columns,
            query.checkpoint,
            self._memory,
            catalog.hold,
            load_members,
        )
        source = opened.open_stream(reader)
        self._opened.put(query.checkpoint, (origin, source))
        return source
