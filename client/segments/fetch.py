"""Fetches byte ranges of a segment into memory: several requests in flight, and a thread that reads ahead."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from pyspark_pravega.errors import ProtocolError, ServerUnavailableError

from .. import cancellation
from ..retry import retry
from ..stream import Access
from ..wire import commands as wire
from ..wire.replies import NoSuchSegment, SegmentIsTruncated, SegmentRead
from .connection import Connection
from .failures import TRANSIENT, SegmentAddress, is_token_expired, make_reply_error, make_segment_not_found_error
from .store import SegmentStore

_log = logging.getLogger(__name__)

Item = TypeVar("Item")

_ASKED = 1 << 19
"""Bytes that a request asks for, half a block of those in which servers read long-term storage.

From its cache, a server sends the same bytes with a tenth less processor time than for requests of 1 MiB, and a
quarter less than for 2 MiB, the most that it sends at once.
"""

_IN_FLIGHT = 8
"""Requests on their way. Segment stores answer at once from their cache, and in parallel from storage.

From a local file system as storage, they are a quarter faster than four of twice the size, and four of this size are
a tenth slower.
"""


class FetchAbortedError(Exception):
    """`SegmentFetch.abort` was called. No caller outside this package sees it."""


class SegmentFetch:
    """Reads one segment on its own connection. Not thread-safe, except for `abort`."""

    def __init__(self, store: SegmentStore, address: SegmentAddress) -> None:
        self._store = store
        self._address = address
        self._name = address.name
        self._connection: Connection | None = None
        self._aborted = threading.Event()
        # The rest of the range: pieces (offset, size) to ask for, and the sizes of those asked for, by offset.
        self._todo: deque[tuple[int, int]] = deque()
        self._outstanding: dict[int, int] = {}
        self._view = memoryview(b"")
        self._offset = 0
        self._renewed = False
        self.retries = 0
        """How many times the rest of a range had to be asked for again."""

    def fill(self, view: memoryview, offset: int) -> int | None:
        """Fill `view` with the segment's bytes from `offset` on, which must lie below its write offset.

        Returns None; or, if some of the bytes were truncated, the segment's start offset, and `view` holds nothing
        useful. Raises SegmentNotFoundError or TransactionNotOpenError; ProtocolError if the segment ends before the
        range; PermissionDeniedError; TlsError; and ServerUnavailableError or ServerTimeoutError if no byte came for
        `retry_timeout`.
        """
        self._view, self._offset = view, offset
        self._outstanding.clear()
        end = offset + len(view)
        # All requests but the first begin at borders of blocks.
        bounds = [offset, *range(offset - offset % _ASKED + _ASKED, end, _ASKED), end]
        self._todo = deque((first, last - first) for first, last in itertools.pairwise(bounds))
        start_offset: int | None = None
        started = time.monotonic()

        def attempt(seconds_left: float) -> None:
            nonlocal start_offset
            left = self._count_bytes_left()
            try:
                start_offset = self._receive_all(seconds_left)
            except TRANSIENT:
                self.retries += 1
                connected = self._lose_connection()
                if self._aborted.is_set():
                    raise FetchAbortedError from None
                if self._count_bytes_left() < left:
                    return
                if connected:
                    self._check_range()
                raise
            except BaseException:
                self.close()
                raise

        while self._count_bytes_left() and start_offset is None:
            # Each success starts the retry time again, which limits the time without any progress.
            retry(attempt, timeout=self._store.config.retry_timeout, transient=TRANSIENT, sleep=self._sleep)
        _log.debug("reading %d bytes of %s took %.1f ms", len(view), self._name, (time.monotonic() - started) * 1e3)
        return start_offset

    def _count_bytes_left(self) -> int:
        return sum(size for _, size in self._todo) + sum(self._outstanding.values())

    def _sleep(self, seconds: float) -> None:
        if self._aborted.wait(seconds):
            raise FetchAbortedError

    def _receive_all(self, seconds_left: float) -> int | None:
        """Ask and receive until nothing is left. Return the segment's start offset if bytes were truncated."""
        stream = self._address.stream
        seconds = min(seconds_left, self._store.config.request_timeout)
        if self._connection is None:
            endpoint = self._store.location(stream, self._address.segment_id)
            self._connection = self._store.pool.borrow(endpoint, seconds)
            if self._aborted.is_set():
                raise FetchAbortedError
        connection = self._connection
        connection.set_timeout(seconds)
        while self._todo or self._outstanding:
            while self._todo and len(self._outstanding) < _IN_FLIGHT:
                offset, size = self._todo.popleft()
                self._outstanding[offset] = size
                token = self._store.tokens.token(stream, Access.READ)
                # The offset is the request id too, since some refusals carry one in place of the other.
                connection.send(wire.read_segment(offset, self._name, offset, size, token))
            reply = connection.receive((self._name, self._find_place))
            if isinstance(reply, SegmentRead):
                self._take(reply)
                connection.set_timeout(self._store.config.request_timeout)
            elif isinstance(reply, SegmentIsTruncated):
                self.close()
                return reply.start_offset
            else:
                renew, self._renewed = not self._renewed, self._renewed or is_token_expired(reply)
                raise self._store.make_refusal(reply, self._address, Access.READ, "read", renew=renew)
        return None

    def _find_place(self, offset: int, size: int) -> memoryview:
        requested_size = self._outstanding.get(offset)
        if requested_size is not None and requested_size < size <= wire.MIN_READ:
            return memoryview(bytearray(size))
        if requested_size is None or not 0 <= size <= requested_size:
            raise ProtocolError(
                f"the segment store sent {size:,} bytes from offset {offset:,} of segment '{self._name}', for which "
                "nobody asked"
            )
        return self._view[offset - self._offset : offset - self._offset + size]

    def _take(self, reply: SegmentRead) -> None:
        size = self._outstanding.pop(reply.offset)
        got = len(reply.data)
        if got > size:
            # Larger than asked for, and therefore not received in place.
            got = size
            self._view[reply.offset - self._offset : reply.offset - self._offset + size] = reply.data[:size]
        if got < size:
            # This is usual for bytes from storage.
            self._todo.appendleft((reply.offset + got, size - got))
        if got:
            self._renewed = False
        elif reply.end_of_segment:
            raise self._make_too_short_error(reply.offset)
        else:
            raise ServerUnavailableError(f"the segment store gave up reading segment '{self._name}'")

    def _lose_connection(self) -> bool:
        """Forget the connection, to ask again for the missing bytes; return whether there was a connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            self._store.forget_location(self._address.stream, self._address.segment_id)
        else:
            connection.close()
            self._store.pool.forget(connection.endpoint)
            if connection.partial_read is not None:
                offset, got = connection.partial_read
                size = self._outstanding.pop(offset)
                if size < wire.MIN_READ:
                    got = 0  # perhaps not received in place
                if got < size:
                    self._outstanding[offset + got] = size - got
        self._todo = deque(sorted([*self._todo, *self._outstanding.items()]))
        self._outstanding.clear()
        return connection is not None

    def _check_range(self) -> None:
        """Raise if the range does not exist, for which segment stores keep silent or hang up."""
        address = self._address
        infos = self._store.segment_infos(address.stream, [address.segment_id], address.transaction)
        info = infos.get(address.segment_id)
        if info is None:
            self.close()
            raise make_reply_error(NoSuchSegment(0, self._name, 0), address, Access.READ, "read")
        if info.write_offset < self._offset + len(self._view):
            raise self._make_too_short_error(info.write_offset)

    def _make_too_short_error(self, segment_end: int) -> ProtocolError:
        return ProtocolError(
            f"segment '{self._name}' ends at offset {segment_end:,}, before the end of the range to be read, "
            f"{self._offset + len(self._view):,}; was the stream deleted and created again?"
        )

    def abort(self) -> None:
        """Make a `fill` in another thread soon raise FetchAbortedError."""
        self._aborted.set()
        connection = self._connection
        if connection is not None:
            connection.abort()

    def close(self) -> None:
        """Give the connection back, or close it if replies are outstanding."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._outstanding or self._aborted.is_set():
            connection.close()
        else:
            self._store.pool.give_back(connection)


def read_bytes(store: SegmentStore, address: SegmentAddress, start: int, end: int) -> bytearray:
    """Return the bytes [start, end) of a segment, which must lie below its write offset.

    Raises the errors of `SegmentFetch.fill`, and SegmentNotFoundError if some of them were truncated.
    """
    content = bytearray(end - start)
    fetch = SegmentFetch(store, address)
    try:
        with cancellation.interrupt_by(fetch.abort):
            truncated = fetch.fill(memoryview(content), start)
    finally:
        fetch.close()
    if truncated is not None:
        raise make_segment_not_found_error(address)
    return content


class ReadAhead(Generic[Item]):
    """Iterates over `items` in a thread. It begins an item when the consumer takes the item before.

    So at most one item is ready or being made. The consumer gets an error of `items` in its place. Always call `close`.
    """

    def __init__(self, items: Iterator[Item], abort: Callable[[], None], name: str) -> None:
        """Start the thread `name`. `abort` makes a running step of `items` end soon."""
        self._items = items
        self._abort = abort
        self._wanted = threading.Semaphore(1)
        self._ready: queue.SimpleQueue[Item | BaseException] = queue.SimpleQueue()
        self._closed = self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._wanted.acquire()
                if self._closed:
                    return
                self._ready.put(next(self._items))
        except BaseException as error:
            self._ready.put(error)  # for the consumer to raise, whatever it is

    def __iter__(self) -> Iterator[Item]:
        while True:
            with cancellation.interrupt_by(self._abort):
                item = self._ready.get()
                if isinstance(item, StopIteration):
                    self._ended = True
                    return
                if isinstance(item, BaseException):
                    raise item
            self._wanted.release()
            yield item
            del item

    def close(self) -> None:
        """End the thread and wait for it; abort the step that it is in."""
        self._closed = True
        self._wanted.release()
        if not self._ended:
            self._abort()
        self._thread.join()
