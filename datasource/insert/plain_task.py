"""The task's side of a write without a transaction: encode, route, and append to the segments of the stream itself.

Events are visible as soon as they are stored. A segment that a scaling seals has stored the events before its end; the
other ones go to its successors, and the events of a key keep their order.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega, cancellation, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.routing import SegmentRouter
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES, frame_by_place, split
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.text_lengths import make_length_check
from pyspark_pravega.sql import options as o

from ..tables.row_keys import choose_key_positions
from ..tables.stream_table import StreamTable
from ..workers.connections import borrow_connection
from ..workers.spark_socket import acknowledge
from ..workers.user_errors import shorten_errors
from .noted_times import ReachedTime, note_stored
from .outcomes import AWAY, make_sealed_error
from .reports import InsertMessage
from .task_output import TaskOutput

LOG = logging.getLogger(__name__)

_SCALING_SECONDS = 0.05


@dataclass(frozen=True)
class PlainSpec:
    """The plan that all tasks of one write share.

    `lossy`: rows that the servers do not accept are given up. `memory`: the bytes of events that a task may hold.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    encoding_id: int | None
    lossy: bool
    memory: int = o.SPOOL_MEMORY.default

    def output(self, pravega: Pravega, partition: int) -> TaskOutput:
        """Return the output of a task, which appends as it goes."""
        return TaskOutput(pravega.segments, self.memory, partition, keep=False)


class PlainWriter(DataSourceArrowWriter):
    """Spark's writer for tasks that append as they go."""

    def __init__(self, spec: PlainSpec) -> None:
        self._spec = spec

    @shorten_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition; all of it is stored when this returns.

        Raises InvalidRowError, EventTooLargeError, StreamSealedError, and for servers that do not answer
        ServerUnavailableError, ServerTimeoutError or ServerFailedError. Rows before the error may be stored.
        """
        spec, table = self._spec, self._spec.table
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        encoder = table.make_encoder(spec.schema, spec.encoding_id)
        fit, positions = make_length_check(table.schema), choose_key_positions(table, spec.schema)
        rows = stored = 0
        reached = ReachedTime(table)
        segments = None
        with borrow_connection(spec.config) as pravega, closing(spec.output(pravega, partition)) as output:
            try:
                segments = _CurrentSegments(pravega, table.stream, output)
                for batch in map(fit, iterator):
                    acknowledge()
                    rows += batch.num_rows
                    reached.take(batch)
                    if batch.num_rows:
                        segments.append(encoder.encode(batch), positions(batch))
                    else:  # in real time, when no rows have come for a while
                        segments.flush()
                segments.flush()
                stored = rows
            except (errors.InvalidRowError, errors.EventTooLargeError) as error:
                raise type(error)(f"Table {table.stream}: {error.message}. Rows before it may be visible.") from None
            except AWAY as error:
                if not spec.lossy:
                    raise
                rows += sum(batch.num_rows for batch in iterator)
                stored = 0 if segments is None else segments.stored
                LOG.warning("Stream %s: rows of a best-effort write are lost: %s", table.stream, error)
            size, retries = 0 if segments is None else segments.bytes, output.retries
        lost = rows - stored
        return InsertMessage(partition, stored, {}, lost=lost, reached=reached.millis, bytes=size, retries=retries)

    @shorten_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Note the event time of the rows, which are all stored. The catalog service does it itself."""
        reached = [one.reached for one in messages if isinstance(one, InsertMessage)]
        if any(time is not None for time in reached):
            with connect(self._spec.config) as pravega:
                note_stored(pravega, self._spec.table.stream, reached, None)


class _Positions:
    """The positions in the key space of a segment's events, at least of those that are not known to be stored."""

    def __init__(self) -> None:
        self._parts: deque[npt.NDArray[np.float64]] = deque()
        self._forgotten = 0

    def add(self, positions: npt.NDArray[np.float64]) -> None:
        self._parts.append(positions)

    def forget(self, stored: int) -> None:
        """Forget the positions of the first `stored` events."""
        while self._parts and self._forgotten + len(self._parts[0]) <= stored:
            self._forgotten += len(self._parts.popleft())

    def last(self, events: int) -> npt.NDArray[np.float64]:
        return np.concatenate(self._parts)[-events:]


class _CurrentSegments:
    """Appends events to the segments of their positions in the key space, even while the stream is scaled."""

    def __init__(self, pravega: Pravega, stream: Stream, output: TaskOutput) -> None:
        self._pravega = pravega
        self._stream = stream
        self._output = output
        self._positions: dict[SegmentAddress, _Positions] = {}
        self.bytes = 0
        """The bytes of all events that were given, with their headers."""
        self._router = self._make_router()

    @property
    def stored(self) -> int:
        """Return the number of events that are known to be stored, including those in sealed segments."""
        return sum(map(self._output.stored, self._output.segments()))

    def append(self, events: pa.Array, positions: npt.NDArray[np.float64]) -> None:
        """Append events; returns once few enough of them are unconfirmed."""
        self.bytes += (pc.sum(pc.binary_length(events)).as_py() or 0) + len(events) * HEADER_BYTES
        self._route(events, positions)
        self._follow(self._output.take_filled)
        for segment, kept in self._positions.items():
            kept.forget(self._output.stored(segment))

    def flush(self) -> None:
        """Wait until all events are stored."""
        self._follow(self._output.flush)

    def _make_router(self) -> SegmentRouter:
        segments = self._pravega.controller.current_segments(self._stream)
        if not segments:
            raise make_sealed_error(self._stream)
        return SegmentRouter(segments)

    def _route(self, events: pa.Array, positions: npt.NDArray[np.float64]) -> None:
        """Give events to the current segments, after all that these have got before."""
        segments = [SegmentAddress(self._stream, one) for one in self._router.segment_ids]
        places = self._router.places(positions)
        frame_by_place(
            events, places, len(segments), lambda number, size, count: self._output.room(segments[number], size, count)
        )
        for number in np.unique(places).tolist():
            self._positions.setdefault(segments[number], _Positions()).add(positions[places == number])

    def _follow(self, step: Callable[[], None]) -> None:
        """Do a step, and again whenever a segment turns out to be sealed."""
        while True:
            try:
                return step()
            except errors.SegmentSealedError:
                self._continue_after_seal()

    def _continue_after_seal(self) -> None:
        """Learn the current segments, and give them first what the sealed ones have not stored."""
        sealed = self._output.at
        deadline = time.monotonic() + self._pravega.config.retry_timeout
        while sealed is not None and sealed.segment_id in self._router.segment_ids:
            self._router = self._make_router()
            if time.monotonic() > deadline:
                raise errors.ServerTimeoutError(
                    f"segment {sealed.segment_id} of stream {self._stream} is sealed, and has no successor"
                )
            cancellation.sleep(_SCALING_SECONDS)
        former = [one for one in self._positions if one.segment_id not in self._router.segment_ids]
        left = [(blocks, self._positions.pop(one)) for one in former if (blocks := self._output.withdraw(one))]
        self._output.go_on()
        for blocks, positions in left:
            arrays = [EventBuffer(data, *split(data, 0, len(data))[:2]).to_arrow() for data, _ in blocks]
            events = pa.concat_arrays(arrays).cast(pa.large_binary())
            self._route(events, positions.last(len(events)))
