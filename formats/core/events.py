"""Holds events in a buffer: one block of bytes, with the start and the length of each payload.

Events can be found there by their bytes, without decoding them: natively, or in Python where there is no native code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_pravega import native

EventPositions = npt.NDArray[np.int64]

_INLINE = 12
"""Arrow keeps values up to this length inside the 16 bytes of a view. Making such views would take long."""
_LARGEST_BUFFER = 2**31 - 1
"""Offsets of Arrow views, and of binary arrays, are int32."""


@dataclass(frozen=True)
class EventBuffer:
    """A sequence of events: `data` holds the payload of event i at `starts[i]`, `lengths[i]` bytes long.

    `data` is anything with the buffer protocol (bytes, bytearray, memoryview, pyarrow.Buffer), smaller than 2 GiB.
    The bytes between payloads are never read. Nothing is copied before it is needed.
    """

    data: Any
    starts: EventPositions
    lengths: EventPositions

    @classmethod
    def of(cls, payloads: list[bytes]) -> EventBuffer:
        """Make a buffer of payloads, one after the other."""
        lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
        return cls(b"".join(payloads), np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def of_arrow(cls, payloads: pa.BinaryArray | pa.LargeBinaryArray) -> EventBuffer:
        """Make a buffer of the values of a binary array without nulls. Nothing is copied."""
        wide = pa.types.is_large_binary(payloads.type)
        _, offsets, data = payloads.buffers()
        count = len(payloads)
        if count == 0:
            return cls.of([])
        every_bound = np.frombuffer(offsets, np.int64 if wide else np.int32)
        bounds: EventPositions = every_bound[payloads.offset : payloads.offset + count + 1].astype(np.int64)
        return cls(b"" if data is None else data, bounds[:-1], np.diff(bounds))

    def __len__(self) -> int:
        return len(self.starts)

    def payload(self, index: int) -> memoryview:
        """Return the bytes of one event, not copied."""
        begin = int(self.starts[index])
        return memoryview(self.data)[begin : begin + int(self.lengths[index])]

    def payloads(self) -> Iterator[bytes]:
        """Iterate over the bytes of the events in order, copied one at a time."""
        data = memoryview(self.data)
        for begin, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield bytes(data[begin : begin + length])

    def part(self, begin: int, end: int) -> EventBuffer:
        """Return the events from `begin` up to but not including `end`, over the same bytes."""
        return EventBuffer(self.data, self.starts[begin:end], self.lengths[begin:end])

    def take(self, indices: EventPositions) -> EventBuffer:
        """Return the events at these positions, over the same bytes."""
        return EventBuffer(self.data, self.starts[indices], self.lengths[indices])

    def skip_first(self, count: int) -> EventBuffer:
        """Return every event without its first `count` bytes, over the same bytes. All must have at least as many."""
        return EventBuffer(self.data, self.starts + count, self.lengths - count)

    def strip_nuls(self) -> EventBuffer:
        """Return every event without the NULs at its end, over the same bytes."""
        filled = np.flatnonzero(self.lengths)
        if not len(filled):
            return self
        data = np.frombuffer(self.data, np.uint8)
        padded = filled[data[self.starts[filled] + self.lengths[filled] - 1] == 0]
        if not len(padded):
            return self
        lengths = self.lengths.copy()
        lengths[padded] = [len(payload.rstrip(b"\0")) for payload in self.take(padded).payloads()]
        return EventBuffer(self.data, self.starts, lengths)

    def octets(self) -> tuple[Any, EventPositions, EventPositions]:
        """Return bytes, starts and lengths as native code takes them: unsigned octets, contiguous int64."""
        data = memoryview(self.data)
        # An empty view cannot be cast.
        octets = data.cast("B") if data.nbytes else b""
        return octets, np.ascontiguousarray(self.starts), np.ascontiguousarray(self.lengths)

    def to_arrow(self) -> pa.BinaryArray:
        """Copy all payloads into a binary array, in one pass of Arrow. Raises ValueError for a buffer from 2 GiB on."""
        buffer = pa.py_buffer(self.data)
        if buffer.size > _LARGEST_BUFFER:
            raise ValueError(f"a buffer of {buffer.size} bytes is too large; it must be below 2 GiB")
        if len(self) and int(self.lengths.min()) > _INLINE:
            # A view is {length, first 4 bytes, buffer number, offset}. The first bytes only serve comparisons and are
            # left out: these views never leave this function.
            views = np.zeros((len(self), 4), np.int32)
            views[:, 0] = self.lengths
            views[:, 3] = self.starts
            array = pa.Array.from_buffers(pa.binary_view(), len(self), [None, pa.py_buffer(views), buffer])
            return array.cast(pa.binary())
        # Every second value is an event; the others are what lies between them, and are never read.
        bounds = np.column_stack([self.starts, self.starts + self.lengths]).astype(np.int32).ravel()
        if (bounds[1:] < bounds[:-1]).any():  # not in the order of the buffer
            return pa.array(list(self.payloads()), pa.binary())
        count = max(bounds.size - 1, 0)
        values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), buffer])
        return values.take(pa.array(np.arange(0, count, 2)))


def find_texts(events: EventBuffer, texts: Sequence[bytes]) -> EventPositions:
    """Return the positions of the events that contain one of some texts."""
    module = native.get_module()
    if module is not None:
        positions = module.find_payloads(*events.octets(), list(texts))
        return np.zeros(0, np.int64) if positions is None else np.frombuffer(positions, np.int64)
    if not len(events):
        return np.zeros(0, np.int64)
    first, last = int(events.starts.min()), int((events.starts + events.lengths).max())
    every = bytes(memoryview(events.data)[first:last])
    present = [text for text in texts if text in every]  # most often none of them
    if not present:
        return np.zeros(0, np.int64)
    places = [number for number, payload in enumerate(events.payloads()) if any(map(payload.__contains__, present))]
    return np.array(places, np.int64)


def find_rare_events(events: EventBuffer, texts: Sequence[bytes], pattern: bytes) -> EventPositions:
    """Return the positions of the events with a pattern. What matches it contains one of some texts."""
    suspects = find_texts(events, texts)
    search = re.compile(pattern).search
    matching = [number for number, payload in enumerate(events.take(suspects).payloads()) if search(payload)]
    return suspects[np.array(matching, np.int64)]


def find_events(events: EventBuffer, pattern: bytes) -> EventPositions:
    """Return the positions of the events in whose bytes a regular expression finds something."""
    if not len(events):
        return np.zeros(0, np.int64)
    order = np.argsort(events.starts, kind="stable")
    starts, ends = events.starts[order], (events.starts + events.lengths)[order]
    data = memoryview(events.data)[: int(ends.max())]
    matches = np.array([match.start() for match in re.compile(pattern).finditer(data, int(starts[0]))], np.int64)
    positions = np.searchsorted(starts, matches, side="right") - 1
    inside = (positions >= 0) & (matches < ends[positions])
    return np.unique(order[positions[inside]])
