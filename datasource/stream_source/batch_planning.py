"""Plans a streaming query: where it starts, how far its next micro-batch goes, what that reads, and what is left."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client import cancellation
from pyspark_pravega.client.stream import make_segment_name
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.sql import options as o

from ..commit_log.commit_log import CommitLog
from ..lake.open_lake import open_lake
from ..positions.bounds import describe_bounds, find_end_bound, find_end_option, find_start_bound
from ..positions.identity import StreamIdentity
from ..positions.snapshot import EndCut, SegmentSlice, check_cut, check_order, measure_tail
from ..scan.segment_versions import find_first_unread
from ..tables.open_table import OpenTable
from .admission import NO_LIMITS, Limits, admit
from .event_time_drift import EventTimePace, TimeAhead, keep_in_step
from .frontier import Frontier, SegmentOffsets, StreamSegments, enter_successors, find_frontier, pause_between_looks
from .memory import Admission, QueryMemory
from .offset import START_ANEW, SourceOffset, check_offset, list_columns_read
from .tiered_segments import find_head, join_history, make_walk

LOG = logging.getLogger(__name__)
Offset = TypeVar("Offset")

TOO_FEW_REST = 0.1
"""Pause in seconds while there are too few rows: counting them costs more than looking for events."""
_FEW_SEGMENTS = 16
"""The most segments whose unread bytes are reported one by one."""
_SAMPLE = 64 * 1024
"""Bytes of events that the number of unread events is estimated from."""


@dataclass(frozen=True)
class BatchEnd(Generic[Offset]):
    """Where a micro-batch ends, where its segments end now, and how far the query will then be behind."""

    offset: Offset
    latest: Offset
    metrics: Mapping[str, str]


class TableStream:
    """A table as one streaming query reads it."""

    def __init__(self, opened: OpenTable, segments: StreamSegments, identity: str | None, required: StructType) -> None:
        """Take a table and its stream's `identity`. `required` are the columns it needs, including hidden columns."""
        self._pravega, self.table, self._options = opened.pravega, opened.table, opened.options
        self.stream, self.identity, self._required = opened.stream, identity, required
        self._in_stream, self._segments = segments, join_history(opened, segments)
        self._find_head, self._open_lake = partial(find_head, opened), partial(open_lake, opened)
        timeout = opened.options.get(o.TRANSACTION_TIMEOUT).total_seconds()
        self._log = CommitLog(opened.pravega, opened.stream, timeout=timeout)
        self.walk = make_walk(opened)

    def offset(self, positions: SegmentOffsets, begin: SegmentOffsets | None = None) -> SourceOffset:
        """Return the offset of the positions that are reached; that of a first micro-batch has its `begin`."""
        columns = list_columns_read(self.table.schema, self._required)
        return SourceOffset(StreamCut(self.stream, dict(positions)), self.identity, columns, begin)

    def read_offset(self, text: str) -> SourceOffset:
        """Read an offset from the checkpoint. Raises CheckpointError for one that does not fit."""
        offset = SourceOffset.from_json(text)
        check_offset(offset, self.stream, self.identity, self.table.schema)
        return offset

    def start(self) -> SourceOffset:
        """Return where a query without a checkpoint begins. Raises InvalidOptionError for an invalid start."""
        options, stream = self._options, self.stream
        bound = find_start_bound(self._pravega, stream, options, self.table.event_time_delay)
        if bound is not None and bound.about is not None:
            LOG.info("Stream %s is read from %s: %s", stream, options.text(o.START_TIMESTAMP), bound.about)
        cut = None if bound is None else bound.cut
        end = self._end_bound()
        if options.get(o.START_STREAM_CUT) == "latest":
            cut = self._tail()
        if cut is None:
            cut = self._find_head()
        else:
            check_cut(self._pravega, stream, "start-stream-cut", cut)
            if end is not None:
                check_order(self._pravega, cut, end)
        return self.offset(cut.positions, cut.positions)

    def last(self) -> SourceOffset:
        """Return where a query that reads all present events ends."""
        return self.offset(self._tail().positions)

    def end(
        self, since: SourceOffset, last: SourceOffset | None, limits: Limits, memory: QueryMemory
    ) -> BatchEnd[SourceOffset]:
        """Return where the next micro-batch ends: `since` itself if nothing is new, or not enough.

        Raises DataLossError for events that were removed before the query could read them.
        """
        bounds = self._bounds(last)
        ahead = memory.ahead.take(self._key(since.cut.positions, bounds, limits))
        if ahead is not None:
            tails = self._segments.ends(ahead.ends)
        else:
            frontier = self.frontier(since, last)
            if not frontier.bytes:
                pause_between_looks(len(since.cut.positions))
                return self._end_without_events(since, frontier, memory)
            if last is None and not memory.is_due(self.walk, frontier.begins, frontier.ends, limits):
                cancellation.sleep(TOO_FEW_REST)
                return self._end_without_events(since, frontier, memory)
            ahead, tails = self._admit(frontier, limits, memory.pace), frontier.tails
        memory.begin(ahead.frontier)
        end = self.reached(since, ahead.ends, last)
        reached = end.cut.positions
        metrics = self.measure_progress(reached, tails, memory)
        if ahead.ends != ahead.frontier.ends and limits.min_rows is None and int(metrics["bytesBehind"]) > ahead.bytes:
            memory.ahead.begin(
                self._key(reached, bounds, limits),
                lambda: self._admit(self._frontier(reached, bounds), limits, memory.pace),
            )
        return BatchEnd(end, self.offset(tails), metrics)

    def head(self) -> SourceOffset:
        """Return where the stream begins now."""
        return self.offset(self._find_head().positions)

    def frontier(self, since: SourceOffset, last: SourceOffset | None) -> Frontier:
        """Return the whole transactions that a query can read now between `since`, where it is, and `last`.

        Raises DataLossError for events that were removed before the query could read them.
        """
        bounds = self._bounds(last)
        seen = find_frontier(self._segments, since.cut.positions, *bounds)
        return self._frontier(since.cut.positions, bounds) if seen.bytes or seen.lost else seen

    def reached(self, since: SourceOffset, ends: SegmentOffsets, last: SourceOffset | None) -> SourceOffset:
        """Return the offset of a micro-batch that reads up to `ends`; successors replace completely read segments."""
        positions = enter_successors(self._segments, since.cut.positions, ends, *self._bounds(last))
        return self.offset(positions, since.begin if since.is_first else None)

    def measure_time_ahead(self, frontier: Frontier, pace: EventTimePace) -> TimeAhead | None:
        """Return what the watermarks say of a frontier; None if no watermark lies after unread events."""
        return pace.look(self._pravega, self.stream, frontier)

    def _admit(self, frontier: Frontier, limits: Limits, pace: EventTimePace) -> Admission:
        ends: Mapping[int, int] = frontier.ends
        drift = self._options.get(o.MAX_EVENT_TIME_DRIFT)
        if drift is not None and limits != NO_LIMITS:  # the trigger `once` takes everything
            ends = keep_in_step({"": self.measure_time_ahead(frontier, pace)}, drift).get("", ends)
        return Admission(frontier, admit(self.walk, frontier.begins, ends, limits))

    def _frontier(self, since: SegmentOffsets, bounds: Sequence[StreamCut | None]) -> Frontier:
        return self._measure_frontier(
            lambda: self._log.measure_settled(lambda until: find_frontier(self._segments, since, *bounds, until))
        )

    def _measure_frontier(self, measure: Callable[[], Frontier]) -> Frontier:
        """Measure a frontier, and again if the lake may have what is lost. Raises DataLossError for what is lost."""
        frontier = measure()
        if frontier.lost and self._open_lake() is not None:
            frontier = measure()
        self._check_lost(frontier)
        return frontier

    def _key(self, since: SegmentOffsets, bounds: Sequence[StreamCut | None], limits: Limits) -> Hashable:
        cuts = [since, *({} if bound is None else bound.positions for bound in bounds)]
        return tuple(frozenset(cut.items()) for cut in cuts), limits, self._options.get(o.MAX_EVENT_TIME_DRIFT)

    def _end_without_events(
        self, since: SourceOffset, frontier: Frontier, memory: QueryMemory
    ) -> BatchEnd[SourceOffset]:
        metrics = self.measure_progress(frontier.begins, frontier.tails, memory)
        return BatchEnd(since, self.offset(frontier.tails), metrics)

    def slices(self, since: SourceOffset, until: SourceOffset) -> list[SegmentSlice]:
        """Return what a micro-batch reads. Raises DataLossError for removed events."""
        before = since.cut.positions if until.begin is None else until.begin
        shown = f"{since.cut} and {until.cut}"
        frontier = self._measure_frontier(lambda: self._find_range(before, until.cut.positions, shown))
        return [
            SegmentSlice(segment, begin, frontier.ends[segment])
            for segment, begin in frontier.begins.items()
            if begin < frontier.ends[segment]
        ]

    def _find_range(self, before: SegmentOffsets, after: SegmentOffsets, shown: str) -> Frontier:
        """Return what lies between two positions. Raises CheckpointError if they do not follow each other."""
        infos = self._segments.infos({*before, *after})
        frontier = Frontier({}, {})
        for segment in sorted(infos.keys() | before.keys() | after.keys()):
            begin, info = before.get(segment, 0), infos.get(segment)
            end = after.get(segment, self._segments.find_sealed_end(segment))
            if end is None and info is not None and info.sealed:
                end = info.write_offset
            if info is None:
                if end is None or begin < end:
                    frontier.lost.append((segment, begin, end))
                continue
            if end is None:
                raise errors.CheckpointError(f"The checkpoint's offsets {shown} do not follow each other. {START_ANEW}")
            if begin < info.start_offset and begin < end:
                frontier.lost.append((segment, begin, min(info.start_offset, end)))
            frontier.begins[segment], frontier.ends[segment] = max(begin, info.start_offset), end
        return frontier

    def open_slices(self, since: SourceOffset) -> list[SegmentSlice]:
        """Return empty slices from which real-time mode follows the segments. Raises DataLossError like `end`."""
        options = self._options
        if (end := find_end_option(options)) is not None and self._end_bound() is not None:
            raise errors.InvalidOptionError(
                f"'{options.name(end)}'='{options.text(end)}' ends the query, but real-time mode has no end. Leave the "
                "option out, or use another trigger."
            )
        frontier = find_frontier(self._in_stream, since.cut.positions)
        self._check_lost(frontier)
        return [SegmentSlice(segment, begin, begin) for segment, begin in sorted(frontier.begins.items())]

    def _bounds(self, last: SourceOffset | None) -> Sequence[StreamCut | None]:
        """Return the cuts that a micro-batch must not pass."""
        return None if last is None else last.cut, self._end_bound()

    def _end_bound(self) -> EndCut | None:
        options = self._options
        return self._segments.bound(f"{self.identity} {describe_bounds(options)[1]}", self._find_end_bound)

    def _find_end_bound(self) -> EndCut | None:
        stream = self.stream
        bound = find_end_bound(self._pravega, stream, self._options)
        if bound is None:
            return None
        check_cut(self._pravega, stream, "end-stream-cut", bound.cut)
        before, _ = self._pravega.controller.list_segments_between(StreamCut(stream, {}), bound.cut)
        return EndCut(stream, bound.cut.positions, frozenset(before))

    def _tail(self) -> StreamCut:
        """Measure where the stream ends."""
        return self._log.measure_settled(lambda published: published or measure_tail(self._pravega, self.stream))

    def _check_lost(self, frontier: Frontier) -> None:
        if not frontier.lost:
            return
        self._check_same_stream()
        stream, options = self.stream, self._options
        if options.get(o.FAIL_ON_DATA_LOSS):
            open_ended = any(end is None for _, _, end in frontier.lost)
            unknown = " The end of a removed segment is unknown, so nothing may have been lost." if open_ended else ""
            raise errors.DataLossError(
                f"{_describe_ranges(frontier.lost)} of stream {stream} were removed before this query could read "
                f"them.{unknown} "
                f"Start the query once with the read option '{options.name(o.FAIL_ON_DATA_LOSS)}' set to false to "
                "continue with what is left."
            )

    def _check_same_stream(self) -> None:
        stream = self.stream
        if not self._pravega.controller.stream_exists(stream):
            raise errors.StreamNotFoundError.dropped(
                f"There is no stream '{stream.name}' in scope '{stream.scope}' any more: it has been dropped. If "
                "it is recreated, start the query with a new checkpoint location."
            )
        identity = self.identity
        origin = "" if identity is None else StreamIdentity.parse(identity).origin
        if origin and origin != f"{stream}/{self._pravega.known_streams.origin(stream)}":
            raise errors.CheckpointError(
                f"Stream {stream} was dropped and recreated while the query was reading it. {START_ANEW}"
            )

    def measure_progress(self, reached: SegmentOffsets, tail: SegmentOffsets, memory: QueryMemory) -> Mapping[str, str]:
        """Return the metrics that Spark reports of a query; `tail` are the ends of the segments that it has `reached`.

        A query at the tail costs nothing. Bytes are those that the stream has now; the number of events is estimated
        from the size of the next ones. Seconds are those since the publication of the oldest version that is not
        completely read; they are left out if there are no versions.
        """
        behind, later = self._measure_bytes_behind(reached, tail)
        total = sum(behind.values())
        metrics = {"bytesBehind": str(total)}
        if len(behind) <= _FEW_SEGMENTS:
            for segment, size in sorted(behind.items()):
                name = make_segment_name(self.stream, segment).removeprefix(f"{self.stream}/")
                metrics[f"bytesBehind.{name}"] = str(size)
        if total == 0:
            metrics["estimatedEventsBehind"] = metrics["secondsBehind"] = "0"
        else:
            metrics["estimatedEventsBehind"] = str(self._estimate_events(behind, reached))
            if (seconds := self._measure_seconds_behind(reached, later, memory)) is not None:
                metrics["secondsBehind"] = f"{seconds:.1f}"
        if memory.lost_ranges:
            metrics["lostBytes"] = str(memory.lost_bytes)
            metrics["lostRanges"] = str(memory.lost_ranges)
        return metrics

    def _measure_bytes_behind(
        self, reached: SegmentOffsets, tail: SegmentOffsets
    ) -> tuple[dict[int, int], Collection[int]]:
        """Return the unread bytes of each segment, and the segments that follow those in `reached`."""
        if reached.keys() <= tail.keys() and all(
            self._segments.find_sealed_end(segment) is None for segment in reached
        ):
            return {segment: tail[segment] - offset for segment, offset in reached.items()}, ()
        cut = StreamCut(self.stream, dict(reached))
        later, _ = self._pravega.controller.list_segments_between(cut, None)
        infos = self._segments.infos({*reached, *later})
        behind = {
            segment: max(info.write_offset - max(reached.get(segment, 0), info.start_offset), 0)
            for segment, info in infos.items()
        }
        return behind, set(later) - reached.keys()

    def _measure_seconds_behind(
        self, reached: SegmentOffsets, later: Collection[int], memory: QueryMemory
    ) -> float | None:
        try:
            unread = find_first_unread(self._log, reached, later, memory.unread_version)
        except errors.PermissionDeniedError:
            return None
        if unread is None:
            return None
        memory.unread_version = unread.number
        return max(time.time() - unread.timestamp / 1_000_000, 0.0)

    def _estimate_events(self, behind: Mapping[int, int], reached: SegmentOffsets) -> int:
        largest = max(behind, key=lambda segment: behind[segment])
        start = reached.get(largest, 0)
        sample = self.walk(largest, start, start + behind[largest], _SAMPLE, None)
        if not sample.events:  # the next event is larger than the sample
            return max(sum(behind.values()) // max(behind[largest], 1), 1)
        return max(round(sum(behind.values()) * sample.events / (sample.offset - start)), 1)


def _describe_ranges(lost: Sequence[tuple[int, int, int | None]]) -> str:
    texts = [
        f"bytes {first:,} to {'the end' if end is None else f'{end:,}'} of segment {segment}"
        for segment, first, end in lost[:10]
    ]
    more = [f"and ranges of {len(lost) - 10} more segments"] if len(lost) > 10 else []
    text = ", ".join([*texts, *more])
    return text[0].upper() + text[1:]
