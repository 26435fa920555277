"""Fills blocks with the framed events of a task, by segment, and sends them while the task encodes the next ones."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field

import pyarrow as pa

from pyspark_pravega.client import cancellation
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.errors import SegmentSealedError

BLOCK_BYTES = 1 << 20
"""The most bytes of a block, unless a single addition takes more: events are never split."""

FIRST_BLOCK_BYTES = 1 << 16
"""The first block of a segment. Later ones grow with its content: many segments may have little each."""


@dataclass(eq=False)
class Block:
    """Whole framed events, one after the other, at the beginning of a piece of memory."""

    memory: memoryview
    length: int = 0
    events: int = 0

    @property
    def data(self) -> memoryview:
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
            usual = min(max(filled.bytes, FIRST_BLOCK_BYTES), BLOCK_BYTES)
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


_CONNECTED = 32
"""The most segments that a task is connected with at the same time. Each has a connection of its own."""


class BlockSender:
    """Appends blocks in a thread of its own, those of a segment in the order in which they are given.

    The thread waits for the network and copies bytes to it without Python's global lock, while the caller encodes. At
    most `waiting` bytes wait for the thread, and about as many as `unconfirmed` are on their way. An error ends the
    thread and is raised by each later call, until `go_on`. Always call `close`.
    """

    def __init__(
        self, open_appender: Callable[[SegmentAddress], SegmentAppender], *, waiting: int, unconfirmed: int
    ) -> None:
        self._open_appender = open_appender
        self._most_waiting, self._most_unconfirmed = waiting, unconfirmed
        self._changed = threading.Condition()
        self._waiting: deque[tuple[SegmentAddress, Block]] = deque()
        self._waiting_bytes = 0
        self._flushing = self._closing = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._cancellation = cancellation.Cancellation()
        self.appenders: dict[SegmentAddress, SegmentAppender] = {}
        """The appenders of the segments. While blocks are on their way, use only what never waits."""
        self._connected: dict[SegmentAddress, SegmentAppender] = {}
        self.at: SegmentAddress | None = None
        """The segment that was sent to last; after an error, the one that it is about."""

    def send(self, segment: SegmentAddress, block: Block) -> None:
        """Take over a block. Waits as long as too many bytes wait for the thread."""
        with self._changed:
            self._waiting.append((segment, block))
            self._waiting_bytes += len(block.memory)
            self._begin()
            self._wait(lambda: self._waiting_bytes <= self._most_waiting)

    def flush(self) -> None:
        """Wait until all blocks are stored."""
        with self._changed:
            self._flushing = True
            self._begin()
            self._wait(lambda: not self._flushing)

    def withdraw(self, segment: SegmentAddress) -> list[tuple[memoryview, int]]:
        """Return what a sealed segment has not stored, with the numbers of events. Call it after an error only."""
        left = []
        if (appender := self.appenders.get(segment)) is not None:
            try:
                appender.flush()
            except SegmentSealedError:
                left = appender.pending
            appender.close()
            self._connected.pop(segment, None)
        left += [(block.data, block.events) for of, block in self._waiting if of == segment]
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] != segment)
        self._waiting_bytes = sum(len(block.memory) for _, block in self._waiting)
        return left

    def go_on(self) -> None:
        """Continue after an error about a segment that was withdrawn."""
        self._failure = None

    def close(self) -> None:
        """End the thread, and give its connections back or close them."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._cancellation.cancel()
        if self._thread is not None:
            self._thread.join()
        for appender in self._connected.values():
            appender.close()

    def _wait(self, done: Callable[[], bool]) -> None:
        with cancellation.interrupt_by(self._cancellation.cancel):
            self._changed.wait_for(lambda: self._failure is not None or done())
        if self._failure is not None:
            raise self._failure

    def _begin(self) -> None:
        """Let the thread do what is to be done; start one if there is none."""
        if self._thread is None and self._failure is None:
            context = copy_context()  # the time limit of retries
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="block sender", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        try:
            with cancellation.activate(self._cancellation):
                while self._do_next():
                    pass
        except BaseException as error:
            with self._changed:
                self._failure, self._flushing = error, False  # for the caller to raise, whatever it is
                self._thread = None
                self._changed.notify_all()

    def _do_next(self) -> bool:
        """Send a block, or flush if that is asked for; return False when there will be nothing more to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._flushing or self._closing)
            if self._closing:
                return False
            following = self._waiting.popleft() if self._waiting else None
        if following is None:
            for segment in self._connected:
                self._flush(segment)
        else:
            self._append(*following)
        with self._changed:
            if following is None:
                self._flushing = False
            else:
                self._waiting_bytes -= len(following[1].memory)
            self._changed.notify_all()
        return True

    def _append(self, segment: SegmentAddress, block: Block) -> None:
        appender = self._connect(segment)
        self.at = segment
        appender.append(block.data, block.events)
        # Each appender has a window of its own. Beyond the limit for all, the one that was used first is waited for.
        unconfirmed = {of: one.unconfirmed_bytes for of, one in self._connected.items()}
        total = sum(unconfirmed.values())
        for of, size in unconfirmed.items():
            if total <= self._most_unconfirmed:
                break
            self._flush(of)
            total -= size

    def _flush(self, segment: SegmentAddress) -> None:
        self.at = segment
        self._connected[segment].flush()

    def _connect(self, segment: SegmentAddress) -> SegmentAppender:
        """Return the appender of a segment, which is the one that is used now."""
        appender = self._connected.pop(segment, None)
        if appender is None:
            if len(self._connected) == _CONNECTED:
                first = next(iter(self._connected))
                self._flush(first)
                self._connected.pop(first).close()
            appender = self.appenders.get(segment)
            if appender is None:
                appender = self.appenders[segment] = self._open_appender(segment)
        self._connected[segment] = appender
        return appender
