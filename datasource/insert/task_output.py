"""Appends the framed events of a task to their segments: at its end if they fit into memory, else as blocks fill."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

from pyspark_pravega.client.retry import count_repeats
from pyspark_pravega.client.segments.append import DEFAULT_WINDOW, SegmentAppender
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.errors import TransactionNotOpenError

from .blocks import BLOCK_BYTES, FIRST_BLOCK_BYTES, Block, Blocks, BlockSender
from .reports import SegmentWrite

_AT_ONCE = 8
"""The most segments that get blocks in turn. If more have little, they get these together."""

_FILLING, _WAITING, _UNCONFIRMED = 2, 8, 4
"""The parts of the memory, one in so many, of blocks that are filled, that wait, and that are on their way."""


class TaskOutput:
    """The output of one task, for the segments of one or of several streams. It holds about `memory` bytes.

    A task whose events fit into that, as those of most do, appends them when its input has ended. The id of a segment's
    writer is a hash of all its events: another attempt with the same rows continues where this one was cut off, and
    one with other rows is another writer. A larger task appends as its blocks fill, by writers of this attempt alone.

    Without `keep`, a task appends from the beginning, and hands over whatever it has after each addition.
    """

    def __init__(self, store: SegmentStore, memory: int, partition: int, *, keep: bool = True) -> None:
        self._store, self._memory, self._partition = store, memory, partition
        self._keep = keep
        self._blocks = Blocks()
        self._sender: BlockSender | None = None
        self._at: SegmentAddress | None = None

    @property
    def at(self) -> SegmentAddress | None:
        """Return the segment that was appended to last; after an error, the segment that failed."""
        return self._at if self._sender is None else self._sender.at

    def room(self, segment: SegmentAddress, size: int, events: int) -> memoryview:
        """Return room for `size` bytes of whole framed events. Fill it before calling `take_filled`."""
        return self._blocks.room(segment, size, events)

    def take_filled(self) -> None:
        """Take over the contents of all rooms. Raises the errors of `SegmentAppender`, about any block so far."""
        if self._sender is None:
            if self._keep and self._blocks.held <= self._memory:
                return
            self._sender = self._make_sender()
        if self._keep:
            self._send(self._blocks.take_full())
            self._send(self._blocks.take_down_to(self._memory // _FILLING))
        else:
            self._send(self._blocks.take_down_to(0))

    def flush(self) -> None:
        """Wait until all events are stored. Raises the errors of `SegmentAppender`."""
        if self._sender is not None:
            self._send(self._blocks.take_down_to(0))
            self._sender.flush()

    def finish(self) -> dict[SegmentAddress, SegmentWrite]:
        """Store all events; return what each segment has got. Raises the errors of `SegmentAppender`."""
        if self._sender is None:
            return self._append_kept()
        self.flush()
        return {segment: self._report(segment, one) for segment, one in self._sender.appenders.items()}

    def stored(self, segment: SegmentAddress) -> int:
        """Return how many events are known to be stored in a segment, without waiting for any."""
        appender = None if self._sender is None else self._sender.appenders.get(segment)
        return 0 if appender is None else appender.stored_events

    def segments(self) -> list[SegmentAddress]:
        """Return the segments that have got events."""
        return self._blocks.segments()

    @property
    def retries(self) -> int:
        """Return how many times connections were lost, and events sent again."""
        return 0 if self._sender is None else sum(one.retries for one in self._sender.appenders.values())

    def withdraw(self, segment: SegmentAddress) -> list[tuple[memoryview, int]]:
        """Return the events that a segment had not stored when it was sealed. Call it only after SegmentSealedError."""
        assert self._sender is not None
        return [*self._sender.withdraw(segment), *((block.data, block.events) for block in self._blocks.take(segment))]

    def go_on(self) -> None:
        """Continue after SegmentSealedError, when what sealed segments have not stored was withdrawn."""
        assert self._sender is not None
        self._sender.go_on()

    def close(self) -> None:
        """End the connections; call it always."""
        if self._sender is not None:
            self._sender.close()

    def _send(self, blocks: Iterator[tuple[SegmentAddress, Block]]) -> None:
        assert self._sender is not None
        for segment, block in blocks:
            self._sender.send(segment, block)

    def _make_sender(self) -> BlockSender:
        window = min(DEFAULT_WINDOW, self._memory // _UNCONFIRMED)
        return BlockSender(
            lambda segment: self._open_appender(segment, uuid.uuid4(), window),
            waiting=self._memory // _WAITING,
            unconfirmed=self._memory // _UNCONFIRMED,
        )

    def _append_kept(self) -> dict[SegmentAddress, SegmentWrite]:
        """Append everything: small blocks together, others in turn: the server stores one as it gets the next."""
        written = self._append_small()
        left_over = [segment for segment in self._blocks.segments() if segment not in written]
        for first in range(0, len(left_over), _AT_ONCE):
            segments = left_over[first : first + _AT_ONCE]
            window = max(DEFAULT_WINDOW // len(segments), 2 * BLOCK_BYTES)
            with ExitStack() as opened:
                appenders = {
                    segment: opened.enter_context(self._open_appender(segment, self._name_content(segment), window))
                    for segment in segments
                }
                left = {segment: self._blocks.look(segment) for segment in segments}
                while left:
                    for segment, blocks in list(left.items()):
                        self._at = segment
                        block = next(blocks, None)
                        if block is None:
                            del left[segment]
                        else:
                            appenders[segment].append(block.data, block.events)
                for segment, appender in appenders.items():
                    self._at = segment
                    appender.flush()
                    written[segment] = self._report(segment, appender)
        return written

    def _append_small(self) -> dict[SegmentAddress, SegmentWrite]:
        """Append the blocks of segments that have little together, if many have; return what is known to be stored."""
        every = {segment: self._blocks.size(segment) for segment in self._blocks.segments()}
        sizes = {segment: size for segment, size in every.items() if size[0] <= FIRST_BLOCK_BYTES}
        if len(sizes) <= _AT_ONCE:
            return {}
        blocks = {one: (self._name_content(one), next(self._blocks.look(one)).data, sizes[one][1]) for one in sizes}
        try:
            with count_repeats() as repeats:
                stored = self._store.append_together(blocks)
        except TransactionNotOpenError:
            return {}  # its appender will say the same, and `at` which one it is
        written = {one: SegmentWrite(*sizes[one], (bounds,), False, 0) for one, bounds in stored.items()}
        if written:
            first = next(iter(written))
            written[first] = replace(written[first], retries=repeats[0])
        return written

    def _open_appender(self, segment: SegmentAddress, writer: uuid.UUID, window: int) -> SegmentAppender:
        return SegmentAppender(
            self._store, segment.stream, segment.segment_id, writer, segment.transaction, window_bytes=window
        )

    def _name_content(self, segment: SegmentAddress) -> uuid.UUID:
        """Return the writer id of all events of a segment: the same for the same rows of this task."""
        content = hashlib.sha256()  # the quickest of the strong ones where CPUs help
        for block in self._blocks.look(segment):
            content.update(block.data)
        assert segment.transaction is not None
        location = self._partition.to_bytes(4, "big") + segment.segment_id.to_bytes(8, "big")
        name = segment.transaction.bytes + location + content.digest()
        return uuid.UUID(bytes=hashlib.blake2b(name, digest_size=16).digest())

    def _report(self, segment: SegmentAddress, appender: SegmentAppender) -> SegmentWrite:
        size, events = self._blocks.size(segment)
        return SegmentWrite(size, events, tuple(appender.ranges), appender.skipped_events > 0, appender.retries)
