"""Appends framed events to one segment: pipelined, and exactly once despite lost connections and retried tasks.

The segment store keeps the number of each writer's last event. It stores a block and its number in one step, if the
number before it is the one that this connection expects: a compare-and-set, which does not remove duplicates. So the
appender asks for the last number after every connect, and leaves out the events up to it.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from pyspark_pravega.errors import PravegaError, ProtocolError, ServerUnavailableError

from ..closing import ClosedAtEnd
from ..retry import retry
from ..stream import Access, Stream
from ..wire import commands as wire
from ..wire.replies import AppendSetup, DataAppended, InvalidEventNumber, Reply, StreamSegmentInfo
from .append_blocks import AppendBlock, add_range, cut_into_blocks, find_blocks
from .connection import Connection
from .delegation import compute_refresh_time
from .failures import TRANSIENT, SegmentAddress
from .fetch import read_bytes
from .store import SegmentStore

LOG = logging.getLogger(__name__)

DEFAULT_WINDOW = 4 * 1024 * 1024
"""Bytes sent ahead of their acknowledgements."""

_LATE_BLOCKS_OF_OTHERS = 2
"""Times that another connection may store blocks of this writer before this appender's first acknowledgement."""

_MOST_REFUSED_SETUPS = 2
"""Times that the segment store may refuse a writer's setup like a block, over all connections of an appender."""

_LONGEST_SEARCH = 64 * 1024 * 1024
"""Most bytes read back to find blocks whose acknowledgements were lost."""


class SegmentAppender(ClosedAtEnd):
    """Appends blocks of whole framed events to a segment, as one writer.

    Events are numbered 1, 2, ... in the order in which they are given, over all blocks. A writer id belongs to one
    segment and one sequence of events: if the same events are given again in the same order under the same id, those
    that are already stored are left out, however the events are cut into blocks. Every other sequence needs another id.

    Blocks are not copied; do not change them before `flush`. The object is a context manager, which closes but does not
    flush. It is not thread-safe. Nothing is sent before the first call.

    `transaction`: append to the segment's part of it. `window_bytes`: bytes that are sent before acknowledgements.

    `skipped_events`: events that were left out, or whose place in the segment is unknown: an earlier attempt stored
    them, or this one did and lost both the acknowledgement and their trace.

    `append`, `flush` and `last_event_number` raise TransactionNotOpenError if the transaction has ended or is sealed
    for the commit, SegmentSealedError and SegmentNotFoundError without a transaction, WriterFencedError if another
    connection has taken over the writer id, PermissionDeniedError, TlsError, and ServerUnavailableError or
    ServerTimeoutError if nothing could be stored for `retry_timeout`.

    Examples
    --------
    >>> stream = Stream("plant", "temperatures")
    >>> segment = pravega.controller.current_segments(stream)[0].segment_id
    >>> with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
    ...     appender.append(frame(pa.array([b"21.5", b"21.7"])), 2)
    ...     appender.flush()
    """

    def __init__(
        self,
        store: SegmentStore,
        stream: Stream,
        segment_id: int,
        writer_id: uuid.UUID,
        transaction: uuid.UUID | None = None,
        *,
        window_bytes: int = DEFAULT_WINDOW,
    ) -> None:
        self._store = store
        self._address = SegmentAddress(stream, segment_id, transaction)
        self._writer_id = writer_id
        self._window = window_bytes
        self._connection: Connection | None = None
        self._token_due = float("inf")
        self._set_up = False
        self.stored_events = 0
        """How many of its events are known to be stored. Any thread may ask."""
        self._given = 0
        self._blocks: deque[AppendBlock] = deque()
        self._in_flight = 0
        self.unconfirmed_bytes = 0
        """How many bytes are on their way."""
        self._ranges: list[tuple[int, int]] = []
        self._known_end = 0
        # A task that was killed may have left blocks on their way, which are stored after this appender's set-up.
        self._late_blocks = _LATE_BLOCKS_OF_OTHERS
        self._refused_setups = 0
        self.skipped_events = 0
        self.retries = 0
        """How many times the connection was lost or refused, and what it had not stored was sent again."""

    @property
    def last_event_number(self) -> int:
        """Return the number of the last event known to be stored, 0 if there is none. The first call connects."""
        if not self._set_up:
            self._work_until(lambda: self._set_up)
        return self.stored_events

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of the segment (first byte, byte after the last) that this appender itself has stored.

        They are in order, joined if adjacent, and hold all events acknowledged so far except `skipped_events`.
        """
        return list(self._ranges)

    @property
    def pending(self) -> list[tuple[memoryview, int]]:
        """Return the blocks that are not known to be stored, with their numbers of events.

        They are for a writer without a transaction that continues with the following segments after SegmentSealedError.
        They are the last blocks given, and none of them is stored then: a segment store acknowledges what it has stored
        before it refuses the rest.
        """
        return [(block.data, block.events) for block in self._blocks]

    def append(self, block: Any, event_count: int) -> None:
        """Append a block of whole framed events. Waits only while more than `window_bytes` are on their way.

        `block`: any buffer of bytes; about 1 MiB is a good size. Blocks over 16 MiB are cut between events.
        `event_count`: the number of events in the block.

        Raises ProtocolError if the number of events is wrong, as far as that is noticed.
        """
        data = memoryview(block).cast("B")
        if event_count <= 0 or not len(data):
            raise ProtocolError(f"a block needs at least one event, not {event_count} in {len(data):,} bytes")
        # All blocks come before the first one is sent, so that `pending` has the rest whatever fails.
        self._blocks.extend(list(cut_into_blocks(data, event_count, self._given + 1)))
        self._given += event_count
        self._skip(self.stored_events)
        self._work_until(lambda: len(self._blocks) == self._in_flight and self.unconfirmed_bytes <= self._window)

    def flush(self) -> None:
        """Wait until all events given are stored."""
        self._work_until(lambda: not self._blocks)

    def close(self) -> None:
        """Give the connection back, or close it if replies are outstanding. A later call connects again.

        Events that were not flushed may or may not be stored.
        """
        connection = self._connection
        if connection is not None and not self._in_flight:
            self._connection = None
            self._store.pool.give_back(connection, writing=True)
        else:
            self._drop_connection()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._in_flight = self.unconfirmed_bytes = 0

    def _work_until(self, done: Callable[[], bool]) -> None:
        """Send and receive until `done`, over as many connections as it takes."""

        def attempt(seconds_left: float) -> None:
            before = self.stored_events
            try:
                self._advance(done, seconds_left)
            except TRANSIENT:
                self.retries += 1
                if self._connection is None or self._in_flight == 0:  # the segment store may be down
                    self._store.forget_location(self._address.stream, self._address.segment_id)
                self._late_blocks += self._in_flight
                self._drop_connection()
                if self.stored_events == before:
                    raise
            except BaseException:
                self._drop_connection()
                raise

        while not done():
            # Each success starts the retry time again, which limits the time without any progress.
            retry(attempt, timeout=self._store.config.retry_timeout, transient=TRANSIENT)

    def _advance(self, done: Callable[[], bool], seconds_left: float) -> None:
        if self._connection is not None and time.time() >= self._token_due:
            # The segment store closes the connection when the token expires. Moving to a new connection before that,
            # with nothing on its way, saves sending again.
            while self._in_flight:
                self._receive(self._connection)
            self._drop_connection()
        if self._connection is None:
            self._connect(min(seconds_left, self._store.config.request_timeout))
        connection = self._connection
        assert connection is not None
        while not done():
            unsent = len(self._blocks) - self._in_flight
            if unsent and (self._in_flight == 0 or self.unconfirmed_bytes < self._window):
                self._send(connection, self._blocks[self._in_flight])
                while self._in_flight and connection.has_input():
                    self._receive(connection)
            else:
                self._receive(connection)

    def _send(self, connection: Connection, block: AppendBlock) -> None:
        size = len(block)
        end = wire.append_block_end(connection.take_request_id(), self._writer_id, size, block.events, block.last)
        block.sent = True
        self._in_flight += 1
        self.unconfirmed_bytes += size
        try:
            connection.send(wire.append_block_header(self._writer_id, size), block.data, end)
        except TRANSIENT:
            # The segment store may have said why before it closed the connection.
            while connection.has_input():
                self._receive(connection)
            raise

    def _receive(self, connection: Connection) -> None:
        reply = connection.receive()
        if isinstance(reply, DataAppended):
            self._acknowledge(reply)
        elif isinstance(reply, InvalidEventNumber) and self._late_blocks > 0:
            # Blocks sent on a lost connection can still be stored after the next one was set up. Each of them uses up
            # the number of the block that repeats it, and the segment store then closes the connection.
            self._late_blocks -= 1
            raise ServerUnavailableError(f"an earlier block for segment '{self._address.name}' was stored late")
        else:
            raise self._failure(reply)

    def _failure(self, reply: Reply) -> PravegaError:
        return self._store.make_refusal(reply, self._address, Access.WRITE, "append to", renew=False)

    def _connect(self, seconds: float) -> None:
        """Connect, ask how many events are stored, and leave those out."""
        stream, segment_id = self._address.stream, self._address.segment_id
        token = self._store.tokens.token(stream, Access.WRITE)
        endpoint = self._store.location(stream, segment_id)
        connection = self._connection = self._store.pool.borrow(endpoint, seconds, writing=True)
        try:
            setup, info = self._ask_to_write(connection, token)
        except TRANSIENT:
            if not connection.used_before:
                # An expired token makes the segment store close the connection without a word.
                self._store.tokens.invalidate(stream, Access.WRITE)
                raise
            connection.close()
            self._store.pool.forget(endpoint)
            connection = self._connection = self._store.pool.open(endpoint, seconds)
            setup, info = self._ask_to_write(connection, token)
        if isinstance(setup, InvalidEventNumber) and self._refused_setups < _MOST_REFUSED_SETUPS:
            # No block was sent, so the refusal is not about one of this writer's. Asking again stores nothing.
            self._refused_setups += 1
            raise ServerUnavailableError(f"the setup of a writer of segment '{self._address.name}' was refused")
        if not isinstance(setup, AppendSetup):
            raise self._failure(setup)
        # The segment store closes the connection when the first of the tokens that it was shown expires.
        connection.usable_until = self._token_due = min(
            connection.usable_until, compute_refresh_time(token, time.time())
        )
        if not self._set_up and isinstance(info, StreamSegmentInfo):
            # What this appender stores lies behind the present end.
            self._known_end = info.write_offset
        self._set_up = True
        connection.set_timeout(self._store.config.request_timeout)
        self.stored_events = max(self.stored_events, setup.last_event_number)
        self._skip(self.stored_events)

    def _ask_to_write(self, connection: Connection, token: str) -> tuple[Reply, Reply | None]:
        """Set up the writer; return the answer, or the reply in its place, and the state of the segment."""
        setup_id, info_id = connection.take_request_id(), connection.take_request_id()
        connection.writers += 1
        connection.send(
            wire.pack_setup_append(setup_id, self._writer_id, self._address.name, token)
            + wire.get_segment_info(info_id, self._address.name, token)
        )
        replies = [connection.receive(), connection.receive()]
        by_request = {reply.request_id: reply for reply in replies}
        return by_request.get(setup_id, replies[0]), by_request.get(info_id)

    def _skip(self, stored: int) -> None:
        """Leave out the events up to the number `stored`. None of them may be on its way."""
        own: list[AppendBlock] = []
        while len(self._blocks) > self._in_flight and self._blocks[self._in_flight].last <= stored:
            block = self._blocks[self._in_flight]
            del self._blocks[self._in_flight]
            if block.sent:
                own.append(block)
            else:
                self.skipped_events += block.events
        if own:
            self._locate(own)
        if len(self._blocks) > self._in_flight:
            first = self._blocks[self._in_flight]
            already = stored - (first.last - first.events)
            if already > 0:
                first.drop_first(already)
                self.skipped_events += already

    def _acknowledge(self, reply: DataAppended) -> None:
        if reply.writer_id != self._writer_id:
            raise ProtocolError(
                f"the segment store acknowledged a block of writer {reply.writer_id}, not of writer {self._writer_id}"
            )
        blocks: list[AppendBlock] = []
        while self._in_flight and self._blocks[0].last <= reply.event_number:
            block = self._blocks.popleft()
            self._in_flight -= 1
            self.unconfirmed_bytes -= len(block)
            blocks.append(block)
        if not blocks or blocks[-1].last != reply.event_number:
            raise ProtocolError(
                f"the segment store acknowledged event {reply.event_number} of writer {self._writer_id}, which is not "
                "the last one of a block"
            )
        self.stored_events = reply.event_number
        self._late_blocks = 0
        end = reply.segment_write_offset
        total = sum(map(len, blocks))
        if end < 0:
            self.skipped_events += sum(block.events for block in blocks)
        elif len(blocks) == 1 or self._known_end == end - total:
            self._note_range(end - total, end)
        else:
            # One acknowledgement of several blocks says where the last one ends; others may have written between them.
            last = blocks.pop()
            self._locate(blocks, end - len(last))
            self._note_range(end - len(last), end)

    def _note_range(self, start: int, end: int) -> None:
        self._known_end = end
        add_range(self._ranges, start, end)

    def _locate(self, blocks: list[AppendBlock], before: int | None = None) -> None:
        """Find stored blocks by reading back the bytes between the known ones and `before` (default: the end)."""
        stream, segment_id, transaction = self._address.stream, self._address.segment_id, self._address.transaction
        if before is None:
            info = self._store.segment_infos(stream, [segment_id], transaction).get(segment_id)
            before = info.write_offset if info is not None else 0
        start = self._known_end
        places = None
        if sum(map(len, blocks)) <= before - start <= _LONGEST_SEARCH:
            places = find_blocks(read_bytes(self._store, self._address, start, before), blocks)
        if places is None:
            # Nothing is lost: only the bytes of failed attempts can no longer be distinguished from these.
            LOG.info("It is unknown where %d blocks are stored in segment %s.", len(blocks), self._address.name)
            self.skipped_events += sum(block.events for block in blocks)
            return
        for first, end in places:
            self._note_range(start + first, start + end)
