"""The rows of a table of one stream, as a streaming query reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from pyspark.sql.types import StructType

from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.sql.refusals import refuse_streaming_options

from ..positions.snapshot import SegmentSlice
from ..scan.event_planning import has_times, has_versions
from ..scan.event_times import EventTimes
from ..scan.planned_scan import PlannedScan
from ..stream_source.admission import Limits, read_limits
from ..stream_source.batch_planning import TableStream
from ..stream_source.event_time_drift import check_times
from ..stream_source.reading_queries import KnownMarks
from ..stream_source.real_time import follow
from ..stream_source.source import BatchRange, MicroBatchEnd, StreamReader, StreamSource
from ..tables.open_table import OpenTable

PlanMicroBatch: TypeAlias = Callable[[Sequence[SegmentSlice], StructType, str, EventTimes | None], PlannedScan]
"""Of the slices, the columns, the query, and the times of its rows."""


class RowsSource(StreamSource):
    """Reads a table of events. A consumer, if the query has one, holds back what it has yet to read."""

    def __init__(self, opened: OpenTable, reader: StreamReader, plan: PlanMicroBatch) -> None:
        """Take a table and its reader. `plan` fixes what a micro-batch reads."""
        self._opened, self._reader, self._plan_micro_batch = opened, reader, plan
        segments = reader.memory.segments(opened.pravega, opened.stream)
        self._stream = TableStream(opened, segments, reader.id, reader.columns)
        self._has_times = has_times(opened.table, reader.columns)

    def start(self) -> str:
        return self._stream.start().to_json()

    def last(self) -> str:
        return self._stream.last().to_json()

    def limits(self) -> Limits:
        check_times(self._opened.pravega, [self._opened.table], self._opened.options)
        return read_limits(self._opened.options)

    def check(self, offset: str) -> None:
        self._stream.read_offset(offset)

    def end(self, since: str, last: str | None, limits: Limits) -> MicroBatchEnd:
        begin = self._stream.read_offset(since)
        self._reader.consume(self._opened, begin.cut)
        bound = None if last is None else self._stream.read_offset(last)
        end = self._stream.end(begin, bound, limits, self._reader.memory.query(self._reader.checkpoint))
        reached = end.offset
        if reached is not begin and self._has_times:
            reached = replace(reached, marks=self._marks().end())
        # The same text, even if the query reads other columns now: else Spark would treat it as new.
        text = since if reached is begin else reached.to_json()
        return MicroBatchEnd(text, end.latest.to_json(), end.metrics)

    def plan(self, batch: BatchRange) -> PlannedScan:
        since, until = self._stream.read_offset(batch.since), self._stream.read_offset(batch.until)
        begin = since.cut if until.begin is None else StreamCut(self._opened.stream, until.begin)
        self._reader.consume(self._opened, begin)
        times = None
        if self._has_times:
            marks = self._marks()
            last_mark = marks.end() if until.marks is None else until.marks
            times = marks.times(begin.positions, until.cut.positions, last_mark)
        return self._plan(self._stream.slices(since, until), times)

    def commit(self, until: str) -> None:
        self._reader.memory.note_committed(self._reader.checkpoint, self._stream.read_offset(until).cut)

    def plan_real_time(self, since: str) -> PlannedScan:
        if self._has_times or has_versions(self._opened.table, self._reader.columns):
            raise UnsupportedOperationError(
                "The columns _event_time, _event_time_upper, _commit_version and _commit_timestamp have what is known "
                "when a batch is planned, which is too old in real-time mode. Leave the columns out, or use another "
                "trigger."
            )
        refuse_streaming_options(self._opened.options, "real-time mode")
        begin = self._stream.read_offset(since)
        self._reader.consume(self._opened, begin.cut)
        return follow(self._plan(self._stream.open_slices(begin)))

    def end_of_real_time(self, reached: Mapping[int, int]) -> str:
        return self._stream.offset(reached).to_json()

    def _plan(self, slices: list[SegmentSlice], times: EventTimes | None = None) -> PlannedScan:
        return self._plan_micro_batch(slices, self._reader.columns, self._reader.checkpoint, times)

    def _marks(self) -> KnownMarks:
        return self._reader.memory.marks(self._opened.pravega, self._opened.stream, self._reader.checkpoint)
