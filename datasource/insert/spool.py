"""Keeps the encoded events of a task until its input has ended: in memory, then in a temporary file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any

import pyarrow as pa

from ..workers.local_directories import spill_directory

Frames = bytes | memoryview
"""Whole framed events, one after the other."""

BLOCK_BYTES = 1 << 20
"""The most bytes of a block, unless a single addition takes more: events are never split."""

_FIRST_BLOCK_BYTES = 1 << 16
"""The first block of a segment. Later ones grow with its content: many segments may have little each."""

_SPILLED_SHARE = 4
"""The part of the memory, one in this many, that is written to the file at a time."""


@dataclass
class _Block:
    """`data` is the block's memory; None if it is in the file, from `position` on."""

    data: memoryview | None
    position: int = 0
    length: int = 0
    events: int = 0


@dataclass
class _SegmentSpool:
    blocks: list[_Block] = field(default_factory=list)
    total_bytes: int = 0
    total_events: int = 0
    digest: Any = field(default_factory=hashlib.sha256)  # the quickest of the strong ones where CPUs help


class Spool:
    """Framed events by segment, in the order they were added, about `memory` bytes of them in memory.

    They are written directly into blocks, so that they are not copied again before they are sent.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._held = 0
        self._segments: dict[int, _SegmentSpool] = {}
        self._unfilled: list[tuple[_SegmentSpool, memoryview]] = []
        self._file: IO[bytes] | None = None

    def room(self, segment_id: int, size: int, events: int) -> memoryview:
        """Return room for `size` bytes of whole framed events of a segment. Fill it before calling `take_filled`."""
        spool = self._segments.setdefault(segment_id, _SegmentSpool())
        block = spool.blocks[-1] if spool.blocks else None
        if block is None or block.data is None or block.length + size > len(block.data):
            # Arrow's allocator reuses memory, which avoids page faults.
            usual = min(max(spool.total_bytes, _FIRST_BLOCK_BYTES), BLOCK_BYTES)
            data = memoryview(pa.allocate_buffer(max(usual, size))).cast("B")
            block = _Block(data)
            spool.blocks.append(block)
            self._held += len(data)
        assert block.data is not None
        begin = block.length
        block.length += size
        block.events += events
        spool.total_bytes += size
        spool.total_events += events
        room = block.data[begin : block.length]
        self._unfilled.append((spool, room))
        return room

    def take_filled(self) -> None:
        """Take over the contents of all rooms."""
        for spool, room in self._unfilled:
            spool.digest.update(room)  # now, while it is in the processor's cache
        self._unfilled.clear()
        if self._held > self._memory:
            self._spill()

    def segments(self) -> list[int]:
        """Return the segments that have events."""
        return sorted(self._segments)

    def size(self, segment_id: int) -> tuple[int, int]:
        """Return the number of bytes and events spooled for a segment."""
        spool = self._segments[segment_id]
        return spool.total_bytes, spool.total_events

    def digest(self, segment_id: int) -> bytes:
        """Return a hash of all bytes spooled for a segment, which names this content."""
        digest: bytes = self._segments[segment_id].digest.digest()
        return digest

    def blocks(self, segment_id: int) -> Iterator[tuple[Frames, int]]:
        """Yield the blocks of a segment in order, each with its number of events."""
        for block in self._segments[segment_id].blocks:
            if block.data is not None:
                yield block.data[: block.length], block.events
            else:
                assert self._file is not None
                self._file.seek(block.position)
                yield self._file.read(block.length), block.events

    def close(self) -> None:
        """Drop everything; the temporary file is deleted."""
        if self._file is not None:
            self._file.close()
        self._segments.clear()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed by close()
                prefix="pyspark-pravega-", dir=spill_directory()
            )
        position = self._file.seek(0, 2)
        # Only as much as needed, full blocks first: the rest is neither written nor read again.
        kept = self._memory - self._memory // _SPILLED_SHARE
        blocks = [segment.blocks for segment in self._segments.values()]
        full = [block for of_segment in blocks for block in of_segment[:-1]]
        for block in [*full, *(of_segment[-1] for of_segment in blocks)]:
            if self._held <= kept:
                break
            if block.data is not None:
                self._file.write(block.data[: block.length])
                self._held -= len(block.data)
                block.data, block.position = None, position
                position += block.length


_SHARE_BITS = 64


class SpoolShare(Spool):
    """The part of a spool that one of several streams has: all of them share its memory and its file."""

    def __init__(self, whole: Spool, number: int) -> None:
        """Take a share of the spool. `number` distinguishes it from other shares."""
        super().__init__(0)
        self._whole = whole
        self._base = number << _SHARE_BITS

    def room(self, segment_id: int, size: int, events: int) -> memoryview:
        return self._whole.room(self._base | segment_id, size, events)

    def take_filled(self) -> None:
        self._whole.take_filled()

    def segments(self) -> list[int]:
        found = self._whole.segments()
        return [one - self._base for one in found if one >> _SHARE_BITS == self._base >> _SHARE_BITS]

    def size(self, segment_id: int) -> tuple[int, int]:
        return self._whole.size(self._base | segment_id)

    def digest(self, segment_id: int) -> bytes:
        return self._whole.digest(self._base | segment_id)

    def blocks(self, segment_id: int) -> Iterator[tuple[Frames, int]]:
        return self._whole.blocks(self._base | segment_id)
