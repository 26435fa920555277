"""Several streams as one reader follows them: finds new ones, and says how far a batch goes and what it reads."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.kinds.merged_streams import MergedStreams, check_merged_bounds
from pyspark_pravega.datasource.scan.event_planning import has_times
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.stream_source.admission import Limits
from pyspark_pravega.datasource.stream_source.memory import FoundStreams, QueryMemory, SourceMemory
from pyspark_pravega.datasource.stream_source.merged_source import MemberStream, MergedTableStream
from pyspark_pravega.datasource.stream_source.planning import StreamedTable, TableStream
from pyspark_pravega.datasource.table_of_options import load_members
from pyspark_pravega.datasource.tables.merged_table import MemberChoice, check_member
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import (
    InvalidOptionError,
    SchemaNotFoundError,
    StreamNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.sql import options as o

from ..protocol.replies import MicroBatchEnd
from ..storage.catalogs import Catalog
from ..tables.description import identify_stream

_UNFINISHED_SECONDS = 30.0
"""Seconds that a new stream may have no schema before it counts as one that does not fit."""


def check_followed(table: StreamTable, required: StructType, options: o.Options) -> None:
    """Raise InvalidOptionError or UnsupportedOperationError for options and columns that need one stream."""
    check_merged_bounds(table, options)
    if options.is_set(o.CONSUMER):
        raise InvalidOptionError(
            f"'{options.name(o.CONSUMER)}' is a position in one stream, but {table.stream} is several streams. Leave "
            "it out, or read one stream."
        )
    if has_times(table, required):
        raise UnsupportedOperationError(
            f"The columns _event_time and _event_time_upper have the watermarks of one stream, but {table.stream} is "
            "several streams. Leave the columns out, or read one stream."
        )


@dataclass(frozen=True)
class FollowedStreams:
    """A table of several streams as one reader follows it, with the columns that the reader needs."""

    table: StreamTable
    required: StructType
    options: o.Options


class MergedReading:
    """Several streams as one streaming query reads them. Offsets are texts of a checkpoint."""

    def __init__(self, catalog: Catalog, memory: SourceMemory, followed: FollowedStreams) -> None:
        """Find the streams. `memory` has what earlier readings of the same streams found.

        Raises DifferentSchemasError for a new stream that does not fit the others.
        """
        self._catalog = catalog
        self._memory = memory
        self._table, self._required, self._options = followed.table, followed.required, followed.options
        self._choice = MemberChoice.of(self._options, self._table.stream.scope)
        # What the members were at the start of the query distinguishes it from one before they were changed.
        members = tuple((one.stream, one.identity, one.schema.json(), one.schema_text) for one in self._table.members)
        key = (id(catalog.pravega), self._table.stream, members, frozenset(self._options.texts().items()))
        found = memory.found(key, lambda: FoundStreams(time.monotonic(), self._list_loaded()))
        with found.lock:
            if time.monotonic() - found.at >= self._options.get(o.DISCOVERY_INTERVAL).total_seconds():
                found.streams = self._discover(found)
                found.at = time.monotonic()
            self._streams = found.streams

    def start(self) -> str:
        """Return the offset at which a query without a checkpoint begins."""
        return self._open().start().to_json()

    def check(self, since: str) -> None:
        """Raise CheckpointError or DataLossError for an offset at which reading cannot continue."""
        self._open().read_offset(since)

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
        numbers = {name: number for number, name in enumerate(self._streams)}
        table = replace(self._table, members=tuple(member for member, _ in self._streams.values()))
        merged = MergedStreams(self._catalog.pravega, table, self._options)
        slices = {numbers[name]: pieces for name, pieces in found.items() if pieces}
        return merged.plan_slices(slices, self._required, checkpoint)

    def _open(self, query: QueryMemory | None = None) -> MergedTableStream:
        query = QueryMemory() if query is None else query
        members = {}
        for name, (table, known) in self._streams.items():
            read = StreamedTable(table, known, self._required, self._options)
            segments = self._memory.segments(self._catalog.pravega, table.stream)
            stream = TableStream(self._catalog.pravega, segments, read)
            members[name] = MemberStream(read, stream, query.member(name))
        drift = self._options.get(o.MAX_EVENT_TIME_DRIFT)
        return MergedTableStream(members, strict=self._options.get(o.FAIL_ON_DATA_LOSS), drift=drift)

    def _list_loaded(self) -> dict[str, tuple[StreamTable, str | None]]:
        scope, table = self._table.stream.scope, self._table
        names = [member.name_in(scope) for member in self._choice.listed] or [one.stream.name for one in table.members]
        return {name: (member, member.identity) for name, member in zip(names, table.members, strict=True)}

    def _discover(self, before: FoundStreams) -> dict[str, tuple[StreamTable, str | None]]:
        names = self._choice.find_existing(self._catalog.pravega)
        before.unfinished = {name: since for name, since in before.unfinished.items() if name in names}
        found = {name: before.streams[name] for name in names if name in before.streams}
        for name in names:
            if name not in found and (member := self._load_new_member(name, before.unfinished)) is not None:
                found[name] = (member, identify_stream(self._catalog, member.stream))
        return found

    def _load_new_member(self, name: str, unfinished: dict[str, float]) -> StreamTable | None:
        """Load the table of a new stream; None if it may soon get its schema, as in the middle of CREATE TABLE.

        Raises DifferentSchemasError for one that does not fit.
        """
        since = unfinished.setdefault(name, time.monotonic())
        overdue = time.monotonic() - since > _UNFINISHED_SECONDS
        try:
            [member] = load_members(
                self._catalog.pravega, self._options, self._choice.scope, [name], self._table.schema
            )
        except (SchemaNotFoundError, StreamNotFoundError):
            if overdue:
                raise
            return None
        if member.format == "raw" != self._table.format and not overdue:
            return None
        check_member(self._table, member)
        del unfinished[name]
        return member
