"""Keeps the encoded events of a task until its input has ended: in memory, then in a temporary file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any

from ..local_directories import spill_directory

Frames = bytes | memoryview
"""Whole framed events, one after the other; kept, not copied."""

BLOCK_BYTES = 1 << 20
"""Blocks are cut at about this size; an event is never split, so one block may be as large as an event."""


@dataclass
class _Block:
    data: Frames | None
    position: int
    length: int
    events: int


@dataclass
class _SegmentSpool:
    pending: list[Frames] = field(default_factory=list)
    pending_bytes: int = 0
    pending_events: int = 0
    blocks: list[_Block] = field(default_factory=list)
    total_bytes: int = 0
    total_events: int = 0
    digest: Any = field(default_factory=hashlib.sha256)  # the quickest of the strong ones where CPUs help


class Spool:
    """Framed events by segment, in the order they were added, at most `memory` bytes of them in memory."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._held = 0
        self._segments: dict[int, _SegmentSpool] = {}
        self._file: IO[bytes] | None = None

    def add(self, segment_id: int, frames: Frames, events: int) -> None:
        """Append whole framed events of one segment."""
        spool = self._segments.setdefault(segment_id, _SegmentSpool())
        spool.pending.append(frames)
        spool.pending_bytes += len(frames)
        spool.pending_events += events
        spool.total_bytes += len(frames)
        spool.total_events += events
        spool.digest.update(frames)
        self._held += len(frames)
        if spool.pending_bytes >= BLOCK_BYTES:
            self._seal(spool)
        if self._held > self._memory:
            self._spill()

    def segments(self) -> list[int]:
        """Return the segments that have events."""
        return sorted(self._segments)

    def size(self, segment_id: int) -> tuple[int, int]:
        """Return bytes and events spooled for a segment."""
        spool = self._segments[segment_id]
        return spool.total_bytes, spool.total_events

    def digest(self, segment_id: int) -> bytes:
        """Return a hash of all bytes spooled for a segment, which names this content."""
        digest: bytes = self._segments[segment_id].digest.digest()
        return digest

    def blocks(self, segment_id: int) -> Iterator[tuple[Frames, int]]:
        """Yield the blocks of a segment in order, each with its number of events."""
        spool = self._segments[segment_id]
        self._seal(spool)
        for block in spool.blocks:
            if block.data is not None:
                yield block.data, block.events
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

    def _seal(self, spool: _SegmentSpool) -> None:
        if spool.pending:
            data = spool.pending[0] if len(spool.pending) == 1 else b"".join(spool.pending)
            spool.blocks.append(_Block(data, 0, len(data), spool.pending_events))
            spool.pending, spool.pending_bytes, spool.pending_events = [], 0, 0

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed by close()
                prefix="pyspark-pravega-", dir=spill_directory()
            )
        position = self._file.seek(0, 2)
        for spool in self._segments.values():
            self._seal(spool)
            for block in spool.blocks:
                if block.data is not None:
                    self._file.write(block.data)
                    block.data, block.position = None, position
                    position += block.length
        self._held = 0
