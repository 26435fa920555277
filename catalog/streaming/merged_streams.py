"""Several streams that a streaming query reads as one: finds them, and reads them."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import assert_never

from pyspark.sql.types import StructType

from pyspark_pravega.client import cancellation
from pyspark_pravega.datasource.kinds.merged_streams import MergedStreams, check_bounds_of_several
from pyspark_pravega.datasource.scan.event_planning import wants_times
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.stream_source.admission import Limits, limits_of
from pyspark_pravega.datasource.stream_source.memory import FoundStreams, QueryMemory, SourceMemory
from pyspark_pravega.datasource.stream_source.merged_source import MemberStream, MergedTableStream
from pyspark_pravega.datasource.stream_source.planning import StreamedTable, TableStream
from pyspark_pravega.datasource.table_of_options import member_tables, names_of_streams
from pyspark_pravega.datasource.tables.merged_table import check_member
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.datasource.tables.table_name import TableName
from pyspark_pravega.errors import (
    InvalidOptionError,
    SchemaNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql import options as o

from .. import protocol as r
from ..protocol.replies import MicroBatchEnd, PlannedRead
from ..queries.planning import make_planned_read
from ..storage.connections import Catalog
from ..storage.naming import READ_AGAIN, explain_dropped_streams, prefix_errors
from ..tables.stream_tables import identity

_THREADS = 8
_UNFINISHED_SECONDS = 30.0
"""Seconds that a new stream may have no schema before it counts as one that does not fit."""


def answer(
    catalog: Catalog, memory: SourceMemory, request: r.StreamRequest
) -> str | Limits | MicroBatchEnd | PlannedRead | None:
    """Carry out a request of a streaming query whose table has several streams.

    Raises UnsupportedOperationError for real-time mode, InvalidOptionError for options that need one stream.
    """
    if isinstance(request, r.CommitMicroBatch):
        return None
    table = request.table
    name = catalog.named(table.stream.scope, table.stream.name)
    with prefix_errors("Table", name), explain_dropped_streams(READ_AGAIN):
        options = catalog.options(read=request.options, properties=table.scan_properties)
        _check_possible(table, request.columns, options)
        if isinstance(request, r.LimitsOfStream):
            return limits_of(options)
        if isinstance(request, r.PlanRealTime | r.EndOfRealTime):
            raise UnsupportedOperationError(
                f"{name} is several streams, which real-time mode cannot follow. Read one stream, or use another "
                "trigger."
            )
        reading = _MergedReading(catalog, memory, table, request.id, request.columns, options)
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


def _check_possible(table: StreamTable, required: StructType, options: o.Options) -> None:
    check_bounds_of_several(table, options)
    if options.is_set(o.CONSUMER):
        raise InvalidOptionError(
            f"'{options.name(o.CONSUMER)}' is a position in one stream, but {table.stream} is several streams. Leave "
            "it out, or read one stream."
        )
    if wants_times(table, required):
        raise UnsupportedOperationError(
            f"The columns _event_time and _event_time_upper have the watermarks of one stream, but {table.stream} is "
            "several streams. Leave the columns out, or read one stream."
        )


class _MergedReading:
    """Several streams as one streaming query reads them. Offsets are texts of a checkpoint."""

    def __init__(
        self,
        catalog: Catalog,
        memory: SourceMemory,
        table: StreamTable,
        identities: str | None,
        required: StructType,
        options: o.Options,
    ) -> None:
        """Find the streams. `identities` is what `identify_members` returned when the table was loaded.

        Raises DifferentSchemasError for a new stream that does not fit the others.
        """
        self._catalog = catalog
        self._memory = memory
        self._table = table
        self._required = required
        self._options = options
        # The identities are those from the start of the query, so they distinguish it from an earlier one.
        key = (id(catalog.pravega), table.stream, identities, frozenset(options.texts().items()))
        found = memory.found(key, lambda: FoundStreams(time.monotonic(), self._list_loaded(identities)))
        with found.lock:
            if time.monotonic() - found.at >= options.get(o.DISCOVERY_INTERVAL).total_seconds():
                found.streams = self._discover(found)
                found.at = time.monotonic()
            self._streams = found.streams

    def start(self) -> str:
        """Return the offset at which a query without a checkpoint begins."""
        return self._open().start().to_json()

    def last(self) -> str:
        """Return the offset at which the streams end now."""
        return self._open().last().to_json()

    def end(self, since: str, last: str | None, limits: Limits, checkpoint: str) -> MicroBatchEnd:
        """Return where the next micro-batch ends."""
        query = self._memory.query(checkpoint)
        reading = self._open(query)
        begin = reading.read_offset(since)
        bound = None if last is None else reading.read_offset(last)
        end = reading.end(begin, bound, limits, query)
        reached = since if end.offset is begin else end.offset.to_json()
        return MicroBatchEnd(reached, end.latest.to_json(), end.metrics)

    def plan(self, since: str, until: str, checkpoint: str) -> PlannedScan:
        """Plan what a micro-batch reads; dropped streams are left out if the query may continue without them."""
        reading = self._open()
        found = reading.slices(reading.read_offset(since), reading.read_offset(until))
        slices = {name: pieces for name, pieces in found.items() if pieces}
        table = replace(self._table, members=tuple(self._streams[name][0] for name in slices))
        merged = MergedStreams(self._catalog.pravega, table, self._options)
        return merged.plan_slices(list(slices.values()), self._required, checkpoint)

    def _open(self, query: QueryMemory | None = None) -> MergedTableStream:
        query = QueryMemory() if query is None else query
        members = {}
        for name, (table, known) in self._streams.items():
            read = StreamedTable(table, known, self._required, self._options)
            segments = self._memory.segments(self._catalog.pravega, table.stream)
            stream = TableStream(self._catalog.pravega, segments, read)
            members[name] = MemberStream(read, stream, query.member(name))
        return MergedTableStream(members, strict=self._options.get(o.FAIL_ON_DATA_LOSS))

    def _list_loaded(self, identities: str | None) -> dict[str, tuple[StreamTable, str | None]]:
        members = self._table.members
        names = self._options.get(o.STREAMS) or [member.stream.name for member in members]
        return dict(zip(names, zip(members, json.loads(identities or "[]"), strict=True), strict=True))

    def _discover(self, before: FoundStreams) -> dict[str, tuple[StreamTable, str | None]]:
        pravega = self._catalog.pravega
        names = names_of_streams(pravega, self._options)
        if self._options.is_set(o.STREAMS):
            there = set(pravega.controller.list_streams(self._table.stream.scope))
            names = [name for name in names if TableName.parse(name).stream in there]
        found = {name: before.streams[name] for name in names if name in before.streams}
        for name in names:
            if name not in found and (member := self._new_member(name, before.unfinished)) is not None:
                found[name] = (member, identity(self._catalog, member.stream))
        return found

    def _new_member(self, name: str, unfinished: dict[str, float]) -> StreamTable | None:
        """Load the table of a new stream; None if it may soon get its schema, as in the middle of CREATE TABLE.

        Raises DifferentSchemasError for one that does not fit.
        """
        since = unfinished.setdefault(name, time.monotonic())
        overdue = time.monotonic() - since > _UNFINISHED_SECONDS
        try:
            [member] = member_tables(self._catalog.pravega, self._options, [name], self._table.schema)
        except (SchemaNotFoundError, StreamNotFoundError):
            if overdue:
                raise
            return None
        if member.format == "raw" != self._table.format and not overdue:
            return None
        check_member(self._table, member)
        del unfinished[name]
        return member


def identify_members(catalog: Catalog, table: StreamTable) -> str:
    """Return a text that distinguishes the members of a table from streams created again under their names."""

    def of_member(member: StreamTable) -> str | None:
        return identity(catalog, member.stream)

    with ThreadPoolExecutor(_THREADS) as threads:
        return json.dumps(list(threads.map(cancellation.carry_over(of_member), table.members)))
