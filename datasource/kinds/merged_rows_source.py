"""The rows of several streams, as a streaming query reads them as one: it finds new streams on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from pyspark_pravega import errors
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.sql import options as o

from ..positions.identity import identify
from ..positions.snapshot import SegmentSlice
from ..scan.event_planning import has_times
from ..scan.event_times import EventTimes
from ..scan.planned_scan import PlannedScan
from ..stream_source.admission import Limits, read_limits
from ..stream_source.batch_planning import TableStream
from ..stream_source.event_time_drift import check_times
from ..stream_source.memory import QueryMemory
from ..stream_source.merged_source import MemberStream, MergedOffset, MergedTableStream
from ..stream_source.offset import SourceOffset
from ..stream_source.source import BatchRange, MicroBatchEnd, StreamReader, StreamSource
from ..tables.merged_table import MemberChoice, check_member
from ..tables.open_table import OpenTable
from ..tables.stream_table import StreamTable

_UNFINISHED_SECONDS = 30.0
"""Seconds that a new stream may have no schema before it counts as one that does not fit."""


FoundByName: TypeAlias = Mapping[str, tuple[StreamTable, str | None]]
"""Tables of streams, with the identities of these."""
TimedSlices: TypeAlias = tuple[Sequence[SegmentSlice], EventTimes | None]
PlanSlices: TypeAlias = Callable[[StreamTable, Mapping[int, TimedSlices]], PlannedScan]
"""Of a table, and the slices of its members with the times of their rows, by their places."""


class MergedSource(StreamSource):
    """Reads a table of several streams."""

    def __init__(self, opened: OpenTable, reader: StreamReader, plan: PlanSlices) -> None:
        """Take a table and its reader. `plan` fixes what a micro-batch reads of the streams that were found.

        Raises InvalidOptionError for options that need one stream.
        """
        self._opened, self._reader, self._plan = opened, reader, plan
        self._pravega, self._table, self._options = opened.pravega, opened.table, opened.options
        options, stream = self._options, opened.stream
        self._has_times = has_times(self._table, reader.columns)
        self._choice = MemberChoice.of(options, stream.scope)
        streams = [member.stream for member in self._choice.listed]
        if options.is_set(o.CONSUMER) and len(set(streams)) < len(streams):
            raise errors.InvalidOptionError(
                f"'{options.name(o.CONSUMER)}' is one position in each stream, but {stream} has several types of "
                "events of one stream. Leave it out, or read each type in a query of its own."
            )
        self._lock = threading.Lock()
        self._streams, self._looked_at = self._list_loaded(), time.monotonic()
        self._unfinished: dict[str, float] = {}
        """The streams that seem to be under creation, with the times at which they were first seen."""

    def start(self) -> str:
        return self._open().start().to_json()

    def last(self) -> str:
        return self._open().last().to_json()

    def limits(self) -> Limits:
        check_times(self._pravega, self._table.members, self._options)
        return read_limits(self._options)

    def check(self, offset: str) -> None:
        self._open().read_offset(offset)

    def end(self, since: str, last: str | None, limits: Limits) -> MicroBatchEnd:
        reading = self._open()
        begin = reading.read_offset(since)
        self._consume(begin)
        bound = None if last is None else reading.read_offset(last)
        end = reading.end(begin, bound, limits, self._query())
        self._consume(end.offset)  # new streams, of which nothing has been read yet
        reached = end.offset
        if reached is not begin and self._has_times:
            reached, _ = self._note_times(begin, reached)
        text = since if reached is begin else reached.to_json()
        return MicroBatchEnd(text, end.latest.to_json(), end.metrics)

    def plan(self, batch: BatchRange) -> PlannedScan:
        """Plan what a micro-batch reads; dropped streams are left out if the query may continue without them."""
        streams = self._look()
        reading = self._open(streams)
        since, until = reading.read_offset(batch.since), reading.read_offset(batch.until)
        self._consume(since, until)
        pieces_by_name = reading.slices(since, until)
        times = self._note_times(since, until)[1] if self._has_times else {}
        numbers = {name: number for number, name in enumerate(streams)}
        table = replace(self._table, members=tuple(member for member, _ in streams.values()))
        slices = {numbers[name]: (pieces, times.get(name)) for name, pieces in pieces_by_name.items() if pieces}
        return self._plan(table, slices)

    def commit(self, until: str) -> None:
        if self._options.is_set(o.CONSUMER):
            ends = [offset.cut for offset in self._open().read_offset(until).offsets.values()]
            self._act_on(ends, partial(self._reader.memory.note_committed, self._reader.checkpoint))

    def plan_real_time(self, since: str) -> PlannedScan:
        raise errors.UnsupportedOperationError(
            f"{self._reader.name} is several streams, which real-time mode cannot follow. Read one stream, or use "
            "another trigger."
        )

    def _note_times(self, since: MergedOffset, until: MergedOffset) -> tuple[MergedOffset, Mapping[str, EventTimes]]:
        """Return a micro-batch's end with the watermarks that count, by default those of now, and its rows' times."""

        def note(name: str) -> tuple[SourceOffset, EventTimes]:
            offset = until.offsets[name]
            member = name, offset.identity  # a stream may be read by types, or dropped and created again
            marks = self._reader.memory.marks(self._pravega, offset.cut.stream, self._reader.checkpoint, member)
            end = marks.end() if offset.marks is None else offset.marks
            begin = since.offsets.get(name, offset).cut.positions if offset.begin is None else offset.begin
            return replace(offset, marks=end), marks.times(begin, offset.cut.positions, end)

        noted = dict(zip(until.offsets, map_side_by_side(note, until.offsets), strict=True))
        reached = EventTimes.find_common_time((times for _, times in noted.values()), since.time)
        time = reached if until.time is None else until.time
        bounded = {name: times.bound(since.time, time) for name, (_, times) in noted.items()}
        return MergedOffset({name: offset for name, (offset, _) in noted.items()}, time), bounded

    def _consume(self, offset: MergedOffset, until: MergedOffset | None = None) -> None:
        """Let the query's consumers, if it has some, hold what follows an offset, one in each stream.

        A first micro-batch that is repeated may have another start by now: its end `until` says where it began.
        """
        if not self._options.is_set(o.CONSUMER):
            return
        begins = {} if until is None else {name: one.begin for name, one in until.offsets.items()}
        cuts = [
            one.cut if (begin := begins.get(name)) is None else StreamCut(one.cut.stream, begin)
            for name, one in offset.offsets.items()
        ]
        self._act_on(cuts, partial(self._reader.consume, self._opened, several=True))

    def _act_on(self, cuts: Sequence[StreamCut], act: Callable[[StreamCut], None]) -> None:
        """Act on the consumers of all streams, without those that were dropped if the query may go on without them."""
        for cut in cuts:
            try:
                act(cut)
            except (errors.StreamNotFoundError, errors.ConsumerNotFoundError):
                if self._options.get(o.FAIL_ON_DATA_LOSS) or self._pravega.controller.stream_exists(cut.stream):
                    raise

    def _look(self) -> FoundByName:
        """Find the streams, if it is time to look for new ones.

        Raises DifferentSchemasError for a new stream that does not fit the others.
        """
        with self._lock:
            if time.monotonic() - self._looked_at >= self._options.get(o.DISCOVERY_INTERVAL).total_seconds():
                self._streams = self._discover()
                self._looked_at = time.monotonic()
            return self._streams

    def _open(self, streams: FoundByName | None = None) -> MergedTableStream:
        members = {}
        for name, (table, identity) in (self._look() if streams is None else streams).items():
            segments = self._reader.memory.segments(self._pravega, table.stream)
            opened = OpenTable(self._pravega, table, self._options)
            stream = TableStream(opened, segments, identity, self._reader.columns)
            members[name] = MemberStream(stream, self._query().member(name))
        drift = self._options.get(o.MAX_EVENT_TIME_DRIFT)
        return MergedTableStream(members, strict=self._options.get(o.FAIL_ON_DATA_LOSS), drift=drift)

    def _query(self) -> QueryMemory:
        return self._reader.memory.query(self._reader.checkpoint)

    def _list_loaded(self) -> FoundByName:
        scope, table = self._table.stream.scope, self._table
        names = [member.name_in(scope) for member in self._choice.listed] or [one.stream.name for one in table.members]
        return {name: (member, member.identity) for name, member in zip(names, table.members, strict=True)}

    def _discover(self) -> FoundByName:
        names = self._choice.find_existing(self._pravega)
        self._unfinished = {name: since for name, since in self._unfinished.items() if name in names}
        members = {name: self._streams[name] for name in names if name in self._streams}
        for name in names:
            if name not in members and (member := self._load_new_member(name)) is not None:
                members[name] = (member, identify(self._pravega, member.stream))
        return members

    def _load_new_member(self, name: str) -> StreamTable | None:
        """Load the table of a new stream; None if it may soon get its schema, as in the middle of CREATE TABLE.

        Raises DifferentSchemasError for one that does not fit.
        """
        since = self._unfinished.setdefault(name, time.monotonic())
        overdue = time.monotonic() - since > _UNFINISHED_SECONDS
        try:
            [member] = self._reader.load_members(
                self._pravega, self._options, self._choice.scope, [name], self._table.schema
            )
        except (errors.SchemaNotFoundError, errors.StreamNotFoundError):
            if overdue:
                raise
            return None
        if member.is_bytes and not self._table.is_bytes and not overdue:
            return None
        check_member(self._table, member)
        del self._unfinished[name]
        return member
