"""Reads a byte range of a segment as windows of events, and finds borders between events (`walk_events`)."""

from __future__ import annotations

import itertools
import struct
import time
import uuid
from collections.abc import Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field

import numpy as np
import pyarrow as pa

from pyspark_pravega.errors import DataLossError, ProtocolError, SegmentNotFoundError, StreamNotFoundError

from ..stream import Stream
from ..wire import commands as wire
from .event_frames import HEADER_BYTES, BrokenFrameError, Offsets, split
from .failures import SegmentAddress
from .fetch import ReadAhead, SegmentFetch
from .store import SegmentStore

DEFAULT_WINDOW = 8 * 1024 * 1024
"""Bytes fetched at a time. Larger windows were slower (the processor's caches), smaller ones cost more calls."""

MAX_READ_EVENT = 128 * 1024 * 1024
"""Most bytes of an event that is read. Official clients write at most 8 MiB, unless large events are allowed."""

SMALLEST_EVENT = HEADER_BYTES
"""Bytes of an event without payload, which limit how many events lie in a range."""

_GROWTH = 4
"""Factor by which chunks grow, up to the size of a window."""

_BEYOND = 64 * 1024
"""Bytes that are first read of an event that reaches beyond the last wanted byte."""

_HEAD_ROOM = 64 * 1024
"""Bytes kept free before each window for the beginning of an event in which the previous window ended."""

_SMALLEST_WINDOW, _LARGEST_WINDOW = 64 * 1024, 4 * 1024 * 1024
"""Limits of the windows of `walk_events`."""

_GUESSED_EVENT = 256
"""Bytes assumed of an event, so that not much more is read than the few events that are wanted."""


@dataclass(frozen=True, eq=False)
class Window:
    """Some successive events of a segment, at least one.

    The payload of event i is `data[starts[i] : starts[i] + lengths[i]]`; the event itself begins at the segment's
    offset `base + starts[i] - 8`. The data stay valid as long as they are referenced.
    """

    data: memoryview
    starts: Offsets
    lengths: Offsets
    base: int


@dataclass(frozen=True, eq=False)
class _Chunk:
    """Bytes of a segment: `data[_HEAD_ROOM:]` begins at `offset`. `gap` says that the bytes before it are lost."""

    data: memoryview
    offset: int
    gap: bool


class _Fetching:
    """A fetch of a segment, and the thread that reads ahead of the consumer, if there is one."""

    def __init__(self, store: SegmentStore, address: SegmentAddress) -> None:
        self._name = address.name
        self.fetch = SegmentFetch(store, address)
        self.reading: ReadAhead[_Chunk] | None = None

    def read_ahead(self, chunks: Iterator[_Chunk]) -> None:
        """Fetch these chunks in a thread."""
        self.reading = ReadAhead(chunks, self.fetch.abort, f"read {self._name}")

    def close(self) -> None:
        """End the thread and give the connection back."""
        if self.reading is not None:
            self.reading.close()
        self.fetch.close()


@dataclass(eq=False, repr=False)
class SegmentRangeReader:
    """Iterates over the events of [start, end), in order, as windows; any number of times.

    `start` and `end` must be borders between events, and `end` must not lie beyond the segment's write offset. `stop`
    may be any offset: events that begin there or later are not wanted, although some may come. The same range always
    gives the same bytes. It needs memory for about three windows, whatever the size of the range, and for twice the
    largest event. It reads nothing before the iteration or `begin`.

    Moved segments, lost connections and expired tokens are overcome: reading continues after the last byte received.
    The iteration raises DataLossError, which names the bytes lost to truncation; with `fail_on_data_loss=False` it
    continues at the first byte that still exists. After the events before them, it raises BrokenFrameError, a
    ProtocolError, for bytes that are not events and for events over `max_event_bytes`. It also raises
    TransactionNotOpenError if the transaction has ended, StreamNotFoundError, PermissionDeniedError, TlsError,
    ServerUnavailableError and ServerTimeoutError.
    """

    store: SegmentStore
    stream: Stream
    segment_id: int
    start: int
    end: int
    _: KW_ONLY
    transaction: uuid.UUID | None = None
    window_bytes: int = DEFAULT_WINDOW
    fail_on_data_loss: bool = True
    max_event_bytes: int = MAX_READ_EVENT
    first_bytes: int | None = None
    """For readers that may want a few events: so many bytes are fetched at first, and more when asked for."""
    stop: InitVar[int | None] = None
    waited: float = field(default=0.0, init=False)
    """Seconds in which the iteration has waited for bytes."""

    def __post_init__(self, stop: int | None) -> None:
        self._address = SegmentAddress(self.stream, self.segment_id, self.transaction)
        self._stop = self.end if stop is None else min(stop, self.end)
        self._fetching: _Fetching | None = None
        self._fetches: list[SegmentFetch] = []

    @property
    def retries(self) -> int:
        """Return how many requests were repeated."""
        return sum(fetch.retries for fetch in self._fetches)

    def __iter__(self) -> Iterator[Window]:
        if self.start >= self._stop:
            return
        fetching, self._fetching = self._fetching or _Fetching(self.store, self._address), None
        self._fetches.append(fetching.fetch)
        try:
            yield from self._windows(self._measure_waiting(self._fetch_chunks(fetching)))
        finally:
            fetching.close()

    def begin(self) -> None:
        """Fetch the first bytes now, in a thread, for the next iteration. Call `close` if there may be no iteration."""
        if self._fetching is None and self.start < self._stop:
            self._fetching = _Fetching(self.store, self._address)
            chunks = self._chunks(self._fetching.fetch, self.start, self._stop, self._choose_first_chunk())
            self._fetching.read_ahead(chunks)

    def close(self) -> None:
        """End the fetch of `begin`, unless an iteration has taken it over."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            fetching.close()

    def _choose_first_chunk(self) -> int:
        # The first chunk is small, for readers that want only a few events.
        return min(self.first_bytes or wire.MAX_READ, self.window_bytes)

    def _fetch_chunks(self, fetching: _Fetching) -> Iterator[_Chunk]:
        """Yield chunks that a thread fetches ahead, except for the first if the reader may want no more.

        Bytes beyond `stop` follow, for the event that reaches beyond it; they are fetched only when they are asked for.
        """
        fetch = fetching.fetch
        if fetching.reading is None:
            chunks = self._chunks(fetch, self.start, self._stop, self._choose_first_chunk())
            if self._stop - self.start <= self._choose_first_chunk():
                yield from chunks
            else:
                if self.first_bytes is not None:
                    yield from itertools.islice(chunks, 1)
                fetching.read_ahead(chunks)
        if fetching.reading is not None:
            yield from fetching.reading
        yield from self._chunks(fetch, self._stop, self.end, min(_BEYOND, self.window_bytes))

    def _measure_waiting(self, chunks: Iterator[_Chunk]) -> Iterator[_Chunk]:
        while True:
            began = time.perf_counter()
            chunk = next(chunks, None)
            self.waited += time.perf_counter() - began
            if chunk is None:
                return
            yield chunk
            del chunk

    def _chunks(self, fetch: SegmentFetch, offset: int, end: int, size: int) -> Iterator[_Chunk]:
        """Yield the bytes between two offsets, in order, in chunks that grow up to the window's size."""
        gap = False
        while offset < end:
            length = min(size, end - offset)
            data = _allocate(_HEAD_ROOM + length)
            try:
                present_from = fetch.fill(data[_HEAD_ROOM:], offset)
            except SegmentNotFoundError:
                present_from = self._skip_removed_segment()
            if present_from is not None:
                if present_from <= offset:
                    raise ProtocolError(
                        f"the segment store lets segment '{self._address.name}' begin at offset {present_from:,}, but "
                        f"refuses to read from {offset:,} as truncated"
                    )
                present_from = min(present_from, end)
                if self.fail_on_data_loss:
                    raise DataLossError(
                        f"bytes {offset:,} to {present_from:,} of segment '{self._address.name}' were removed by "
                        "truncation before they could be read; start later, or allow data loss "
                        "(fail-on-data-loss=false) to read what is left"
                    )
                offset, gap = present_from, True
                continue
            yield _Chunk(data, offset, gap)
            del data
            offset, gap = offset + length, False
            size = min(size * _GROWTH, self.window_bytes)
        if gap and end < self.end:
            yield _Chunk(_allocate(_HEAD_ROOM), end, gap)

    def _skip_removed_segment(self) -> int:
        """Return the end of the range, since the segment is gone. Raises StreamNotFoundError if the stream is too."""
        stream = self._address.stream
        if not self.store.controller.stream_exists(stream):
            raise StreamNotFoundError.dropped(
                f"there is no stream '{stream.name}' in scope '{stream.scope}' any more: it was dropped while it was "
                "being read. If it is created again, start a streaming query with a new checkpoint location"
            )
        return self.end

    def _windows(self, chunks: Iterator[_Chunk]) -> Iterator[Window]:
        rest = b""
        for chunk in chunks:
            if chunk.gap:
                rest = b""
            data, begin = _join(rest, chunk.data)
            base = chunk.offset - begin - len(rest)
            position = base + begin
            del chunk
            broken = None
            try:
                starts, lengths, consumed = split(
                    data, begin, len(data), position=position, available=self.end - position
                )
            except BrokenFrameError as error:
                broken = BrokenFrameError.at(error.offset, f"segment '{self._address.name}': {error.message}")
                starts, lengths, consumed = split(data, begin, error.offset - base)
            rest = bytes(data[consumed:])
            if broken is None and len(rest) >= HEADER_BYTES:
                broken = self._check_size(rest, base + consumed)
            if len(starts):
                window = Window(data, starts, lengths, base)
                del data, starts, lengths
                yield window
                del window
            if self._stop < self.end and base + consumed >= self._stop:
                return
            if broken is not None:
                raise broken
        if rest:
            raise BrokenFrameError.at(
                self.end - len(rest),
                f"segment '{self._address.name}': the range ends at offset {self.end:,}, inside the header of the "
                f"event at offset {self.end - len(rest):,}; it is corrupt, or the range was cut inside an event",
            )

    def _check_size(self, beginning: bytes, offset: int) -> BrokenFrameError | None:
        length: int = struct.unpack_from(">ii", beginning)[1]
        if length <= self.max_event_bytes:
            return None
        return BrokenFrameError.at(
            offset,
            f"the event at offset {offset:,} of segment '{self._address.name}' says it has {length:,} bytes, more "
            f"than the {self.max_event_bytes:,} that are read at most; it is corrupt, or larger events must be allowed",
        )


def _allocate(size: int) -> memoryview:
    """Return memory of Arrow's allocator, which reuses freed memory; the system would clear its pages each time."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


def _join(rest: bytes, data: memoryview) -> tuple[memoryview, int]:
    """Put the beginning of an event before the bytes in `data[_HEAD_ROOM:]`; return the buffer and its start there."""
    if len(rest) <= _HEAD_ROOM:
        begin = _HEAD_ROOM - len(rest)
        data[begin:_HEAD_ROOM] = rest
        return data, begin
    joined = _allocate(len(rest) + len(data) - _HEAD_ROOM)
    joined[: len(rest)] = rest
    joined[len(rest) :] = data[_HEAD_ROOM:]
    return joined, 0


@dataclass(frozen=True)
class Border:
    """A border between events, and the number of events between the start of the walk and the border."""

    offset: int
    events: int


def walk_events(  # noqa: PLR0913  (three of them by keyword)
    store: SegmentStore,
    stream: Stream,
    segment_id: int,
    start: int,
    end: int,
    *,
    most_bytes: int | None = None,
    most_events: int | None = None,
    fail_on_data_loss: bool = True,
) -> Border:
    """Return the last border in [start, end] with at most `most_bytes` and `most_events` between `start` and it.

    `start` and `end` must be borders. Where bytes are not events, and so no border is found, all up to `end` count as
    one event. Raises the errors of `SegmentRangeReader`, except for BrokenFrameError.
    """
    limit = end if most_bytes is None else min(end, start + most_bytes)
    offset, events = start, 0
    size = limit - start if most_events is None else min(limit - start, most_events * _GUESSED_EVENT)
    window_bytes = min(max(size, _SMALLEST_WINDOW), _LARGEST_WINDOW)
    reader = SegmentRangeReader(
        store, stream, segment_id, start, end, window_bytes=window_bytes, fail_on_data_loss=fail_on_data_loss
    )
    try:
        for window in reader:
            ends = window.base + window.starts + window.lengths
            fitting = int(np.searchsorted(ends, limit, side="right"))
            if most_events is not None:
                fitting = min(fitting, most_events - events)
            if fitting:
                offset, events = int(ends[fitting - 1]), events + fitting
            if fitting < len(ends) or events == most_events:
                break
    except BrokenFrameError:
        if offset == start and (most_events is None or most_events > 0) and limit == end:
            return Border(end, 1)
    return Border(offset, events)
