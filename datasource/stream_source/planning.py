"""Where a streaming query starts, how far its next micro-batch goes, and what that reads."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import CheckpointError, DataLossError, StreamNotFoundError
from pyspark_pravega.sql import options as o

from ..commit_log import CommitLog, origin_of
from ..scan.event_planning import named_cut
from ..scan.snapshot import SegmentSlice, check_cut, tail_cut
from ..tables.stream_table import StreamTable
from .admission import Walker, admitted, count_up_to
from .frontier import Frontier, Positions, StreamSegments, entered, find_frontier
from .limits import NO_LIMITS, Limits
from .offset import SourceOffset, check_offset, columns_read

_REMEMBERED = 256


class Pacing:
    """When a query's last micro-batch began, for those that wait until there is enough for another."""

    def __init__(self) -> None:
        self._began: float | None = None

    def is_due(self, walker: Walker, frontier: Frontier, limits: Limits) -> bool:
        """Tell whether there is enough for a micro-batch, or the time is over; the first one is always due."""
        now = time.monotonic()
        if limits.min_rows is not None and self._began is not None:
            waits = (now - self._began) * 1000 < limits.max_delay_ms
            if waits and count_up_to(walker, frontier.begins, frontier.ends, limits.min_rows) < limits.min_rows:
                return False
        self._began = now
        return True


class SourceMemory:
    """Keeps what streaming queries found out about streams' segments, and their pacing. Thread-safe.

    It only saves time, but for the pacing: with another service a micro-batch may begin early.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: OrderedDict[tuple[str, Stream], StreamSegments] = OrderedDict()
        self._pacing: OrderedDict[str, Pacing] = OrderedDict()

    def pacing(self, checkpoint: str) -> Pacing:
        """Return the pacing of the query with a checkpoint."""
        with self._lock:
            found = self._pacing.setdefault(checkpoint, Pacing())
            self._pacing.move_to_end(checkpoint)
            while len(self._pacing) > _REMEMBERED:
                self._pacing.popitem(last=False)
            return found

    def segments(self, pravega: Pravega, stream: Stream) -> StreamSegments:
        """Return what is known of a stream's segments."""
        key = (str(pravega.config.controller_uri), stream)
        with self._lock:
            found = self._streams.get(key)
            if found is None or found.pravega is not pravega:
                found = self._streams[key] = StreamSegments(pravega, stream)
            self._streams.move_to_end(key)
            while len(self._streams) > _REMEMBERED:
                self._streams.popitem(last=False)
            return found


@dataclass(frozen=True)
class StreamedTable:
    """A table as one streaming query reads it. `required` are the columns it needs, metadata columns among them."""

    table: StreamTable
    identity: str | None
    required: StructType
    options: o.Options

    @property
    def stream(self) -> Stream:
        """Return the table's stream."""
        return self.table.stream

    def offset(self, positions: Positions) -> SourceOffset:
        """Return the offset of positions reached."""
        columns = columns_read(self.table.schema, self.required)
        return SourceOffset(StreamCut(self.stream, dict(positions)), self.identity, columns)

    def read_offset(self, text: str) -> SourceOffset:
        """Read an offset from the checkpoint. Raises CheckpointError for one that does not fit."""
        offset = SourceOffset.from_json(text)
        check_offset(offset, self.stream, self.identity, self.table.schema)
        return offset


class TableStream:
    """One streaming query's table, at one cluster."""

    def __init__(self, pravega: Pravega, segments: StreamSegments, read: StreamedTable) -> None:
        self._pravega = pravega
        self._segments = segments
        self._read = read
        self._log = CommitLog(pravega, read.stream, timeout=read.options.get(o.TRANSACTION_TIMEOUT).total_seconds())

    def start(self) -> SourceOffset:
        """Return where a query begins that has no checkpoint. Raises InvalidOptionError for a place that is none."""
        if self._read.options.get(o.START_STREAM_CUT) == "latest":
            return self._read.offset(self._tail().positions)
        cut = named_cut(self._read.options, o.START_STREAM_CUT)
        if cut is not None:
            check_cut(self._pravega, self._read.stream, o.START_STREAM_CUT.key, cut)
        return self._read.offset((cut or self._pravega.controller.head(self._read.stream)).positions)

    def last(self) -> SourceOffset:
        """Return where a query ends that reads what there is now."""
        return self._read.offset(self._tail().positions)

    def end(
        self, since: SourceOffset, last: SourceOffset | None, limits: Limits = NO_LIMITS, pacing: Pacing | None = None
    ) -> SourceOffset:
        """Return where the next micro-batch ends: `since` itself if there is nothing new, or not enough.

        Raises DataLossError for events that were removed before the query could read them.
        """
        bounds = [None if last is None else last.cut, self._end_bound()]
        seen = find_frontier(self._segments, since.cut.positions, *bounds)
        if not seen.bytes and not seen.lost:
            return since
        frontier = self._log.settled(lambda until: find_frontier(self._segments, since.cut.positions, *bounds, until))
        self._check_lost(frontier)
        if not frontier.bytes:
            return since
        walker = Walker(self._pravega, self._read.stream, fail_on_data_loss=self._read.options.get(o.FAIL_ON_DATA_LOSS))
        if last is None and pacing is not None and not pacing.is_due(walker, frontier, limits):
            return since
        ends = admitted(walker, frontier.begins, frontier.ends, limits)
        return self._read.offset(entered(self._segments, ends, *bounds))

    def slices(self, since: SourceOffset, until: SourceOffset) -> list[SegmentSlice]:
        """Return what a micro-batch reads. Raises DataLossError for events that are there no more."""
        before, after = since.cut.positions, until.cut.positions
        infos = self._segments.infos({*before, *after})
        frontier = Frontier({}, {})
        for segment in sorted(infos.keys() | before.keys() | after.keys()):
            begin, info = before.get(segment, 0), infos.get(segment)
            end = after.get(segment, self._segments.sealed_end(segment))
            if info is None:
                if end is None or begin < end:
                    frontier.lost.append((segment, begin, end))
                continue
            assert end is not None, "a segment that was left is sealed"
            if begin < info.start_offset and begin < end:
                frontier.lost.append((segment, begin, min(info.start_offset, end)))
            frontier.begins[segment], frontier.ends[segment] = max(begin, info.start_offset), end
        self._check_lost(frontier)
        return [
            SegmentSlice(segment, begin, frontier.ends[segment])
            for segment, begin in frontier.begins.items()
            if begin < frontier.ends[segment]
        ]

    def _end_bound(self) -> StreamCut | None:
        return named_cut(self._read.options, o.END_STREAM_CUT)

    def _tail(self) -> StreamCut:
        """Measure where the stream ends; of a sealed one, the ends of its last segments."""
        cut = self._log.settled(lambda published: published or tail_cut(self._pravega, self._read.stream))
        if cut.positions:
            return cut
        positions: Positions = self._pravega.controller.head(self._read.stream).positions
        while True:
            ends = find_frontier(self._segments, positions).ends
            if ends == positions:
                return StreamCut(self._read.stream, ends)
            positions = ends

    def _check_lost(self, frontier: Frontier) -> None:
        if not frontier.lost:
            return
        stream = self._read.stream
        if any(end is None for _, _, end in frontier.lost):
            self._check_same_stream()
        if self._read.options.get(o.FAIL_ON_DATA_LOSS):
            raise DataLossError(
                f"{_ranges(frontier.lost)} of stream {stream} were removed before this query could read them. Set "
                "'fail-on-data-loss' to false to go on with what is left."
            )

    def _check_same_stream(self) -> None:
        stream = self._read.stream
        if not self._pravega.controller.stream_exists(stream):
            raise StreamNotFoundError(f"There is no stream '{stream.name}' in scope '{stream.scope}' any more.")
        identity = self._read.identity
        if identity is not None and identity != f"{stream}/{origin_of(self._pravega, stream)}":
            raise CheckpointError(
                f"Stream {stream} was dropped and made again while the query was reading it. Start the query with a "
                "new checkpoint location."
            )


def _ranges(lost: Sequence[tuple[int, int, int | None]]) -> str:
    texts = [
        f"bytes {first:,} to {'the end' if end is None else f'{end:,}'} of segment {segment}"
        for segment, first, end in lost[:10]
    ]
    more = [f"and ranges of {len(lost) - 10} more segments"] if len(lost) > 10 else []
    text = ", ".join([*texts, *more])
    return text[0].upper() + text[1:]


__all__ = ["SourceMemory", "StreamedTable", "TableStream"]
