"""Streaming queries without Spark: micro-batch by micro-batch, with the events that each reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.kinds.opening import load
from pyspark_pravega.datasource.stream_source.admission import read_limits
from pyspark_pravega.datasource.stream_source.batch_planning import BatchEnd, TableStream
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.stream_source.offset import SourceOffset
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.sql import options as o


@dataclass
class Batch:
    """A micro-batch: where it ends, and its events by segment, with the bytes that they take."""

    end: SourceOffset
    events: dict[int, list[bytes]]
    bytes: int

    @property
    def count(self) -> int:
        return sum(map(len, self.events.values()))


@dataclass
class Query:
    """A streaming query. `memory` is that of its service; a new one is that of a driver started again."""

    pravega: Pravega
    stream: Stream
    options: Mapping[str, str] = field(default_factory=dict)
    identity: str | None = None
    memory: SourceMemory = field(default_factory=SourceMemory)

    def read(self) -> tuple[OpenTable, TableStream]:
        """Return the table and its stream, as a call of the service makes them."""
        table = load(self.pravega, self.stream).table
        opened = OpenTable(self.pravega, table, o.resolve(read=self.options))
        segments = self.memory.segments(self.pravega, self.stream)
        return opened, TableStream(opened, segments, self.identity, table.schema)

    def start(self) -> SourceOffset:
        """Return where the query starts."""
        return self.read()[1].start()

    def next(self, since: SourceOffset, last: SourceOffset | None = None) -> Batch | None:
        """Read the next micro-batch, or None."""
        end = self.end(since, last).offset
        if end is since:
            return None
        return self.batch(since, SourceOffset.from_json(end.to_json()))

    def end(self, since: SourceOffset, last: SourceOffset | None = None) -> BatchEnd[SourceOffset]:
        """Return where the next micro-batch ends."""
        opened, stream = self.read()
        return stream.end(since, last, read_limits(opened.options), self.memory.query("checkpoint"))

    def batch(self, since: SourceOffset, end: SourceOffset) -> Batch:
        """Read what lies between two offsets."""
        events: dict[int, list[bytes]] = {}
        size = 0
        for piece in self.read()[1].slices(since, end):
            found = events.setdefault(piece.segment_id, [])
            size += piece.end - piece.start
            for window in SegmentRangeReader(
                self.pravega.segments, self.stream, piece.segment_id, piece.start, piece.end
            ):
                for start, length in zip(window.starts.tolist(), window.lengths.tolist(), strict=True):
                    found.append(bytes(window.data[start : start + length]))
        return Batch(end, events, size)

    def batches(self, since: SourceOffset | None = None) -> Iterator[Batch]:
        """Read micro-batches until there is nothing new."""
        since = self.start() if since is None else since
        while (batch := self.next(since)) is not None:
            yield batch
            since = batch.end
