"""Answers the requests of streaming queries about what they read: a table, several streams, or a table's changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.changes_offset import BatchRequest, ChangesOffset
from pyspark_pravega.datasource.changes.row_changes_stream import ChangesBatch, ChangesMemory, Checkpoint
from pyspark_pravega.datasource.kinds.kind import MicroBatchScan
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.event_planning import has_times
from pyspark_pravega.datasource.scan.scan_request import ScanRequest, Search
from pyspark_pravega.datasource.stream_source.admission import Limits, read_limits
from pyspark_pravega.datasource.stream_source.event_time_drift import check_times
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.stream_source.planning import StreamedTable, TableStream
from pyspark_pravega.datasource.stream_source.reading_queries import ReadingQueries
from pyspark_pravega.datasource.stream_source.real_time import follow
from pyspark_pravega.datasource.tables.open_table import resolve_read
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.refusals import refuse_drift

from .. import protocol as r
from ..protocol.replies import MicroBatchEnd, PlannedRead
from ..queries.merged_reading import FollowedStreams, MergedReading, check_followed
from ..queries.planning import make_planned_read, open_changes
from ..storage.catalogs import Catalog
from ..storage.reporting import READ_AGAIN, explain_dropped_streams, prefix_errors
from ..storage.spelling import name_table, name_table_and_stream


def find_start(catalog: Catalog, memory: SourceMemory, request: r.StartOfStream) -> str:
    """Return the offset at which a query without a checkpoint begins."""
    with _open_stream(catalog, memory, request) as (_, stream):
        return stream.start().to_json()


def find_last(catalog: Catalog, memory: SourceMemory, request: r.LastOfStream) -> str:
    """Return the offset at which the table ends now."""
    with _open_stream(catalog, memory, request) as (_, stream):
        return stream.last().to_json()


def find_limits(catalog: Catalog, memory: SourceMemory, request: r.LimitsOfStream) -> Limits:
    """Return the limits in a query's options. Raises InvalidOptionError for a drift in times that a table lacks."""
    with _open_stream(catalog, memory, request) as (read, _):
        check_times(catalog.pravega, [read.table], read.options)
        return read_limits(read.options)


def find_end(
    catalog: Catalog, memory: SourceMemory, queries: ReadingQueries, request: r.EndOfMicroBatch
) -> MicroBatchEnd:
    """Return the offset at which the next micro-batch ends."""
    with _open_stream(catalog, memory, request) as (read, stream):
        since = read.read_offset(request.since)
        _consume(catalog, queries, read, request.checkpoint, since.cut)
        last = None if request.last is None else read.read_offset(request.last)
        if last is not None:
            # With availableNow no commit of the last batch comes, but its offset does, and Spark has stored it by then:
            # asynchronous progress tracking, which stores it later, is not possible with this trigger.
            queries.note_committed(request.checkpoint, since.cut)
        end = stream.end(since, last, request.limits, memory.query(request.checkpoint))
        reached = end.offset
        if reached is not since and has_times(read.table, read.required):
            marks = queries.marks(catalog.pravega, read.stream, request.checkpoint)
            reached = replace(reached, marks=marks.end())
        # The same text, even if the query reads other columns now: else Spark would treat it as new.
        text = request.since if reached is since else reached.to_json()
        return MicroBatchEnd(text, end.latest.to_json(), end.metrics)


def plan_micro_batch(
    catalog: Catalog, memory: SourceMemory, queries: ReadingQueries, request: r.PlanMicroBatch
) -> PlannedRead:
    """Plan what a micro-batch reads."""
    with _open_stream(catalog, memory, request) as (read, stream):
        since, until = read.read_offset(request.since), read.read_offset(request.until)
        begin = since.cut if until.begin is None else StreamCut(read.stream, until.begin)
        _consume(catalog, queries, read, request.checkpoint, begin)
        times = None
        if has_times(read.table, read.required):
            marks = queries.marks(catalog.pravega, read.stream, request.checkpoint)
            known = marks.end() if until.marks is None else until.marks
            times = marks.times(begin.positions, until.cut.positions, known)
        batch = MicroBatchScan(stream.slices(since, until), request.columns, request.checkpoint, times)
        planned = open_table(catalog.pravega, read.table, read.options).plan_micro_batch(batch)
        return make_planned_read(name_table(catalog, read.table), read.table, planned, ScanRequest(request.columns))


def plan_real_time(
    catalog: Catalog, memory: SourceMemory, queries: ReadingQueries, request: r.PlanRealTime
) -> PlannedRead:
    """Plan how the tasks of a real-time batch follow the stream's segments."""
    with _open_stream(catalog, memory, request) as (read, stream):
        if has_times(read.table, read.required):
            raise UnsupportedOperationError(
                "The columns _event_time and _event_time_upper have the watermarks that are known when a batch is "
                "planned, and these are too old in real-time mode. Leave the columns out, or use another trigger."
            )
        refuse_drift(read.options, "real-time mode")
        since = read.read_offset(request.since)
        _consume(catalog, queries, read, request.checkpoint, since.cut)
        batch = MicroBatchScan(stream.open_slices(since), request.columns, request.checkpoint)
        planned = follow(open_table(catalog.pravega, read.table, read.options).plan_micro_batch(batch))
        return make_planned_read(name_table(catalog, read.table), read.table, planned, ScanRequest(request.columns))


def find_end_of_real_time(catalog: Catalog, memory: SourceMemory, request: r.EndOfRealTime) -> str:
    """Return the offset that the tasks of a real-time batch have reached."""
    with _open_stream(catalog, memory, request) as (read, _):
        return read.offset({int(segment): int(offset) for segment, offset in request.reached.items()}).to_json()


def commit_micro_batch(
    catalog: Catalog, memory: SourceMemory, queries: ReadingQueries, request: r.CommitMicroBatch
) -> None:
    """Let the query's consumer, if it has one, release what the query has read."""
    with _open_stream(catalog, memory, request) as (read, _):
        queries.note_committed(request.checkpoint, read.read_offset(request.until).cut)


def _consume(catalog: Catalog, queries: ReadingQueries, read: StreamedTable, checkpoint: str, begin: StreamCut) -> None:
    """Let the query's consumer, if it has one, hold what follows the start of its run's first batch."""
    if (consumer := read.options.get(o.CONSUMER)) is not None:
        queries.consume(catalog.pravega, consumer, begin, checkpoint, catalog.hold)


@contextmanager
def _open_stream(
    catalog: Catalog, memory: SourceMemory, request: r.StreamRequest
) -> Iterator[tuple[StreamedTable, TableStream]]:
    table = request.table
    with prefix_errors("Table", name_table_and_stream(catalog, table)), explain_dropped_streams(READ_AGAIN):
        options = resolve_read(catalog.options, table, request.options)
        read = StreamedTable(table, request.id, request.columns, options)
        yield read, TableStream(catalog.pravega, memory.segments(catalog.pravega, table.stream), read)


def answer_for_several_streams(
    catalog: Catalog, memory: SourceMemory, request: r.StreamRequest
) -> str | Limits | MicroBatchEnd | PlannedRead | None:
    """Carry out a request of a streaming query whose table has several streams.

    Raises UnsupportedOperationError for real-time mode, InvalidOptionError for options that need one stream.
    """
    if isinstance(request, r.CommitMicroBatch):
        return None
    table = request.table
    name = name_table(catalog, table)
    with prefix_errors("Table", name_table_and_stream(catalog, table)), explain_dropped_streams(READ_AGAIN):
        options = resolve_read(catalog.options, table, request.options)
        check_followed(table, request.columns, options)
        if isinstance(request, r.LimitsOfStream):
            check_times(catalog.pravega, table.members, options)
            return read_limits(options)
        if isinstance(request, r.PlanRealTime | r.EndOfRealTime):
            raise UnsupportedOperationError(
                f"{name} is several streams, which real-time mode cannot follow. Read one stream, or use another "
                "trigger."
            )
        reading = MergedReading(catalog, memory, FollowedStreams(table, request.columns, options))
        match request:
            case r.StartOfStream():
                return reading.start()
            case r.LastOfStream():
                return reading.last()
            case r.EndOfMicroBatch(since=since, last=last, limits=limits, checkpoint=checkpoint):
                return reading.end(since, last, limits, checkpoint)
            case r.PlanMicroBatch(since=since, until=until, checkpoint=checkpoint):
                planned = reading.plan(since, until, checkpoint)
                return make_planned_read(name, table, planned, ScanRequest(request.columns))
        assert_never(request)


def find_start_of_changes(catalog: Catalog, request: r.StartOfChanges) -> str:
    """Return the offset at which a query without a checkpoint begins."""
    with open_changes(catalog, request.table, request.options) as (_, opened):
        return opened.start_of_changes().to_json()


def find_limits_of_changes(catalog: Catalog, request: r.LimitsOfChanges) -> Limits:
    """Return the limits in a query's options."""
    with open_changes(catalog, request.table, request.options) as (_, opened):
        return read_limits(opened.options)


def find_end_of_changes(catalog: Catalog, memory: SourceMemory, request: r.EndOfChanges) -> str:
    """Return the offset at which the next micro-batch ends; its start if there is nothing new."""
    with open_changes(catalog, request.table, request.options) as (_, opened):
        since = ChangesOffset.from_json(request.since)
        last = None if request.last is None else ChangesOffset.from_json(request.last)
        end = opened.end_of_changes(since, BatchRequest(last, request.limits, request.checkpoint, memory))
        return request.since if end is since else end.to_json()


def plan_new_changes(catalog: Catalog, memory: ChangesMemory, request: r.PlanNewChanges) -> PlannedRead:
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
