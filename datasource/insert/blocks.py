"""Fills blocks with the framed events of a task, by segment, until they are taken to be sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from pyspark_pravega.client.segments.failures import SegmentAddress

BLOCK_BYTES = 1 << 20
"""The most bytes of a block, unless a single addition takes more: events are never split."""

_FIRST_BLOCK_BYTES = 1 << 16
"""The first block of a segment. Later ones grow with its content: many segments may have little each."""


@dataclass(eq=False)
class Block:
    """Whole framed events, one after the other, at the beginning of a piece of memory."""

    memory: memoryview
    length: int = 0
    events: int = 0

    @property
    def data(self) -> memoryview:
        """Return the events."""
        return self.memory[: self.length]


@dataclass
class _Filled:
    blocks: deque[Block] = field(default_factory=deque)
    bytes: int = 0
    events: int = 0


class Blocks:
    """Blocks by segment, each segment's in the order in which its events were added.

    Events are written directly into blocks, so that they are not copied again before they are sent.
    """

    def __init__(self) -> None:
        self._filled: dict[SegmentAddress, _Filled] = {}
        self.held = 0
        """The bytes of memory that the blocks take which are still here."""

    def room(self, segment: SegmentAddress, size: int, events: int) -> memoryview:
        """Return room for `size` bytes of whole framed events. Fill it before any block is taken."""
        filled = self._filled.setdefault(segment, _Filled())
        block = filled.blocks[-1] if filled.blocks else None
        if block is None or block.length + size > len(block.memory):
            # Arrow's allocator reuses memory, which avoids page faults.
            usual = min(max(filled.bytes, _FIRST_BLOCK_BYTES), BLOCK_BYTES)
            block = Block(memoryview(pa.allocate_buffer(max(usual, size))).cast("B"))
            filled.blocks.append(block)
            self.held += len(block.memory)
        begin = block.length
        block.length += size
        block.events += events
        filled.bytes += size
        filled.events += events
        return block.memory[begin : block.length]

    def segments(self) -> list[SegmentAddress]:
        """Return the segments that have got events, in the order of their first ones."""
        return list(self._filled)

    def size(self, segment: SegmentAddress) -> tuple[int, int]:
        """Return the number of bytes and events that a segment has got, whether they are still here or not."""
        filled = self._filled[segment]
        return filled.bytes, filled.events

    def look(self, segment: SegmentAddress) -> Iterator[Block]:
        """Yield the blocks of a segment that are here, which stay."""
        yield from self._filled[segment].blocks

    def take_full(self) -> Iterator[tuple[SegmentAddress, Block]]:
        """Yield all blocks but the last one of each segment, which may get more events."""
        for segment, filled in self._filled.items():
            while len(filled.blocks) > 1:
                yield segment, self._take(filled)

    def take_down_to(self, held: int) -> Iterator[tuple[SegmentAddress, Block]]:
        """Yield blocks, those with the most events first, until at most `held` bytes are left."""
        largest = sorted(
            (filled for filled in self._filled.items() if filled[1].blocks),
            key=lambda filled: filled[1].blocks[0].length,
            reverse=True,
        )
        for segment, filled in largest:
            while filled.blocks and self.held > held:
                yield segment, self._take(filled)

    def take(self, segment: SegmentAddress) -> Iterator[Block]:
        """Yield the blocks of a segment."""
        filled = self._filled.get(segment, _Filled())
        while filled.blocks:
            yield self._take(filled)

    def _take(self, filled: _Filled) -> Block:
        block = filled.blocks.popleft()
        self.held -= len(block.memory)
        return block
