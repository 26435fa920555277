"""The task's side of a write without a transaction: encode, route, and append to the segments of the stream itself.

Events are visible as soon as they are stored. A segment that a scaling seals has stored the events before its end; the
other ones go to its successors, and the events of a key keep their order.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega, cancellation, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.routing import SegmentRouter
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES, frame_by_place, split
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import (
    EventTooLargeError,
    InvalidRowError,
    SegmentSealedError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamSealedError,
)
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import find_format

from ..tables.stream_table import REGISTRY_CODECS, StreamTable
from ..workers.connections import borrow_connection
from ..workers.user_errors import concise
from .noted_times import ReachedTime, note_stored
from .routes import key_positions
from .task import InsertMessage

LOG = logging.getLogger(__name__)

_UNFLUSHED_BYTES = 8 << 20
"""The bytes of one segment's events that are kept until they are known to be stored."""
_SCALING_SECONDS = 0.05
_AWAY = (ServerFailedError, ServerTimeoutError, ServerUnavailableError)


@dataclass(frozen=True)
class PlainSpec:
    """The plan that all tasks of one write share. `lossy`: rows that the servers do not accept are given up."""

    table: StreamTable
    config: ClientConfig
    schema: StructType
    encoding_id: int | None
    lossy: bool


class PlainWriter(DataSourceArrowWriter):
    """Spark's writer for tasks that append as they go."""

    def __init__(self, spec: PlainSpec) -> None:
        self._spec = spec

    @concise
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition; all of it is stored when this returns.

        Raises InvalidRowError, EventTooLargeError, StreamSealedError, and for servers that do not answer
        ServerUnavailableError, ServerTimeoutError or ServerFailedError. Rows before the error may be stored.
        """
        spec, table = self._spec, self._spec.table
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        encoder = find_format(table.format).encoder(
            spec.schema, table.schema_text, spec.encoding_id, REGISTRY_CODECS[table.codec], table.settings
        )
        positions = key_positions(table, spec.schema, partition)
        rows = stored = size = retries = 0
        reached = ReachedTime(table)
        appenders = None
        with borrow_connection(spec.config) as pravega:
            try:
                appenders = _Appenders(pravega, table.stream)
                for batch in iterator:
                    rows += batch.num_rows
                    reached.take(batch)
                    if batch.num_rows:
                        appenders.append(encoder.encode(batch), positions(batch))
                appenders.flush()
                stored = rows
            except (InvalidRowError, EventTooLargeError) as error:
                raise type(error)(f"Table {table.stream}: {error.message}. Rows before it may be visible.") from None
            except _AWAY as error:
                if not spec.lossy:
                    raise
                rows += sum(batch.num_rows for batch in iterator)
                stored = 0 if appenders is None else appenders.stored
                LOG.warning("Stream %s: rows of a best-effort write are lost: %s", table.stream, error)
            finally:
                if appenders is not None:
                    size, retries = appenders.bytes, appenders.retries
                    appenders.close()
        lost = rows - stored
        return InsertMessage(partition, stored, {}, lost=lost, reached=reached.millis, bytes=size, retries=retries)

    @concise
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Note the event time of the rows, which are all stored. The catalog service does it itself."""
        reached = [one.reached for one in messages if isinstance(one, InsertMessage)]
        if any(time is not None for time in reached):
            with connect(self._spec.config) as pravega:
                note_stored(pravega, self._spec.table.stream, reached, None)


@dataclass
class _OpenSegment:
    """A segment's appender, and the positions of its events that may not be stored yet."""

    appender: SegmentAppender
    positions: list[npt.NDArray[np.float64]] = field(default_factory=list)
    bytes: int = 0
    given: int = 0

    @property
    def stored(self) -> int:
        """Return the number of events that are known to be stored."""
        return self.given - sum(events for _, events in self.appender.pending)

    def give(self, framed: memoryview, positions: npt.NDArray[np.float64]) -> None:
        """Append events with these positions."""
        self.positions.append(positions)
        self.bytes += len(framed)
        self.given += len(positions)
        self.appender.append(framed, len(positions))

    def flush(self) -> None:
        """Wait until all are stored, and forget them."""
        self.appender.flush()
        self.positions, self.bytes = [], 0

    def pending(self) -> tuple[pa.Array, npt.NDArray[np.float64]] | None:
        """Return the events that a sealed segment has not stored; None if it has stored all."""
        blocks = [data for data, _ in self.appender.pending]
        if not blocks:
            return None
        found = [EventBuffer(data, *split(data, 0, len(data))[:2]).to_arrow() for data in blocks]
        events = pa.concat_arrays(found).cast(pa.large_binary())
        return events, np.concatenate(self.positions)[-len(events) :]


class _Appenders:
    """Appends events to the segments of their positions in the key space, even if the stream is scaled meanwhile."""

    def __init__(self, pravega: Pravega, stream: Stream) -> None:
        self._pravega = pravega
        self._stream = stream
        self._open: dict[int, _OpenSegment] = {}
        self._stored_before = self._retries_before = 0
        self.bytes = 0
        """The bytes of all events that were given, with their headers."""
        self._router = self._make_router()

    @property
    def stored(self) -> int:
        """Return the number of events that are known to be stored, including those in sealed segments."""
        return self._stored_before + sum(segment.stored for segment in self._open.values())

    @property
    def retries(self) -> int:
        """Return how many times connections were lost, and events sent again."""
        return self._retries_before + sum(segment.appender.retries for segment in self._open.values())

    def append(self, events: pa.Array, positions: npt.NDArray[np.float64]) -> None:
        """Append events; returns as soon as not too many of them are unconfirmed."""
        self.bytes += (pc.sum(pc.binary_length(events)).as_py() or 0) + len(events) * HEADER_BYTES
        self._route(events, positions)

    def flush(self) -> None:
        """Wait until all events are stored."""
        while unflushed := [one for one, segment in self._open.items() if segment.positions]:
            for segment_id in unflushed:
                try:
                    self._open[segment_id].flush()
                except SegmentSealedError:
                    self._continue_after(segment_id)
                    break

    def close(self) -> None:
        """Close the connections."""
        for segment in self._open.values():
            segment.appender.close()

    def _make_router(self) -> SegmentRouter:
        segments = self._pravega.controller.current_segments(self._stream)
        if not segments:
            raise StreamSealedError(
                f"stream '{self._stream}' is sealed; nothing can be written to it. Write to another one"
            )
        return SegmentRouter(segments)

    def _route(self, events: pa.Array, positions: npt.NDArray[np.float64]) -> None:
        """Append events to the current segments, and those of a segment that is sealed meanwhile to its successors."""
        segment_ids, places = self._router.segment_ids, self._router.places(positions)
        framed: dict[int, memoryview] = {}

        def room(place: int, size: int, _: int) -> memoryview:
            framed[place] = memoryview(pa.allocate_buffer(size)).cast("B")
            return framed[place]

        frame_by_place(events, places, len(segment_ids), room)
        left = np.ones(len(places), bool)
        for place, frames in framed.items():
            where, segment_id = places == place, segment_ids[place]
            left &= ~where
            segment = self._open.get(segment_id)
            if segment is None:
                appender = SegmentAppender(self._pravega.segments, self._stream, segment_id, uuid.uuid4())
                segment = self._open[segment_id] = _OpenSegment(appender)
            try:
                segment.give(frames, positions[where])
                if segment.bytes > _UNFLUSHED_BYTES:
                    segment.flush()
            except SegmentSealedError:
                self._continue_after(segment_id)
                if left.any():  # to the new segments: later events must not overtake these
                    self._route(events.filter(pa.array(left)), positions[left])
                return

    def _continue_after(self, sealed: int) -> None:
        """Learn the current segments, and append to them first what the sealed ones have not stored."""
        deadline = time.monotonic() + self._pravega.config.retry_timeout
        while sealed in self._router.segment_ids:
            self._router = self._make_router()
            if time.monotonic() > deadline:
                raise ServerTimeoutError(f"segment {sealed} of stream {self._stream} is sealed, and has no successor")
            cancellation.sleep(_SCALING_SECONDS)
        current = set(self._router.segment_ids)
        left = []
        for segment_id in [one for one in self._open if one not in current]:
            segment = self._open[segment_id]
            try:
                segment.flush()
            except SegmentSealedError:
                left.append(segment.pending())
            self._stored_before += segment.stored
            self._retries_before += segment.appender.retries
            del self._open[segment_id]
            segment.appender.close()
        for pending in left:
            if pending is not None:
                self._route(*pending)
