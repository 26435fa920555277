"""The segment stores of a cluster: the locations and states of segments, and requests about them.

A request goes to the segment store that serves the segment, with a delegation token, on a pooled connection. If it
fails for a reason that may pass (moved segment, lost connection, expired token), it is repeated within `retry_timeout`.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

from pyspark_pravega.errors import PravegaError, ProtocolError, ServerUnavailableError

from .. import cancellation
from ..closing import ClosedAtEnd
from ..config import ClientConfig, Endpoint
from ..retry import retry
from ..stream import Access, Stream
from ..wire import commands as wire
from ..wire.replies import (
    AppendSetup,
    DataAppended,
    InvalidEventNumber,
    NoSuchSegment,
    Reply,
    SegmentAttribute,
    SegmentIsSealed,
    SegmentSealed,
    StreamSegmentInfo,
    WrongHost,
)
from .connection import Connection, ConnectionPool
from .delegation import DelegationTokens, read_granted_access
from .failures import TRANSIENT, SegmentAddress, is_token_expired, make_reply_error

_log = logging.getLogger(__name__)

_PIPELINED = 256
"""Requests sent ahead of their replies on one connection."""

_CREATION_TIME = uuid.UUID(int=1 << 127)
"""An attribute that a segment store gives each segment."""

Request = Callable[[int, str, str], bytes]
"""Makes the frame of a request from its id, the segment's name and a token."""


class SmallAppends(dict[str, tuple[uuid.UUID, memoryview, int]]):
    """Requests that set up writers, by segment names, and their only blocks: writer, whole framed events, number."""

    def __call__(self, request_id: int, segment: str, token: str) -> bytes:
        """Return the frame that sets up the writer of a segment."""
        return wire.pack_setup_append(request_id, self[segment][0], segment, token)

    def pack_block(self, request_id: int, segment: str) -> bytes:
        """Return the frames that append the block of a segment, for a writer that has stored nothing before."""
        writer, data, events = self[segment]
        end = wire.append_block_end(request_id, writer, len(data), events, events)
        return b"".join((wire.append_block_header(writer, len(data)), data, end))


class SegmentLocator(Protocol):
    """The calls of the controller that a SegmentStore needs."""

    def segment_location(self, stream: Stream, segment_id: int) -> Endpoint: ...

    def stream_exists(self, stream: Stream) -> bool: ...


@dataclass(frozen=True)
class SegmentInfo:
    """The state of a segment. Offsets are bytes; events before `start_offset` are truncated."""

    start_offset: int
    write_offset: int
    sealed: bool


class SegmentStore(ClosedAtEnd):
    """The client of all segment stores of a cluster. Thread-safe; a context manager; connects at the first request.

    Besides their own errors, all calls raise PermissionDeniedError, which names the stream and the right; TlsError;
    ServerUnavailableError and ServerTimeoutError once `retry_timeout` is over; ProtocolError; and the errors of the
    controller if it must be asked.
    """

    def __init__(self, config: ClientConfig, controller: SegmentLocator, tokens: DelegationTokens) -> None:
        self.config = config
        self.pool = ConnectionPool(config)
        self.controller = controller
        self.tokens = tokens
        self._locations: dict[tuple[Stream, int], Endpoint] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close all idle connections."""
        self.pool.close()

    def seed_location(self, stream: Stream, segment_id: int, endpoint: Endpoint) -> None:
        """Note where a segment is, so that the controller is asked only if it has moved."""
        with self._lock:
            self._locations[stream, segment_id] = endpoint

    def seed_token(self, stream: Stream, token: str) -> None:
        """Note a delegation token for what it grants, so that the controller is asked only when it expires."""
        granted = read_granted_access(token)
        for right in (granted,) if granted is Access.READ else tuple(Access):
            self.tokens.seed(stream, right, token)

    def seed(self, stream: Stream, token: str, endpoints: Mapping[int, Endpoint]) -> None:
        """Note what the planner of a task has learned: a delegation token, and where segments are."""
        self.seed_token(stream, token)
        for segment_id, endpoint in endpoints.items():
            self.seed_location(stream, segment_id, endpoint)

    def location(self, stream: Stream, segment_id: int) -> Endpoint:
        """Return the segment store that serves a segment, as last known. The first call asks the controller."""
        with self._lock:
            location = self._locations.get((stream, segment_id))
        if location is None:
            location = self.controller.segment_location(stream, segment_id)
            self.seed_location(stream, segment_id, location)
        return location

    def locations(self, stream: Stream, segment_ids: Iterable[int]) -> dict[int, Endpoint]:
        """Locate segments as `location` does, but ask the controller about several of them at the same time."""
        segments = list(segment_ids)
        with self._lock:
            unknown = [segment_id for segment_id in segments if (stream, segment_id) not in self._locations]
        cancellation.map_side_by_side(partial(self.location, stream), unknown)
        return {segment_id: self.location(stream, segment_id) for segment_id in segments}

    def forget_location(self, stream: Stream, segment_id: int) -> None:
        """Forget where a segment was, because it is not there; the next call asks the controller."""
        with self._lock:
            self._locations.pop((stream, segment_id), None)

    def make_refusal(
        self, reply: Reply, address: SegmentAddress, access: Access, action: str, *, renew: bool
    ) -> PravegaError:
        """Make the error for an unexpected reply, as `make_reply_error` does, but let the next try do better.

        The location of a segment that has moved is forgotten. If `renew` is set, a token that the reply calls expired
        is renewed, and the error is a ServerUnavailableError.
        """
        if isinstance(reply, WrongHost):
            self.forget_location(address.stream, address.segment_id)
        elif renew and is_token_expired(reply):
            self.tokens.invalidate(address.stream, access)
            return ServerUnavailableError(f"the delegation token of stream '{address.stream}' has expired")
        return make_reply_error(reply, address, access, action)

    def request(
        self,
        address: SegmentAddress,
        access: Access,
        action: str,
        make: Request,
        *expected: type[Reply],
        on_repeat: Callable[[], None] | None = None,
    ) -> Reply:
        """Send one request and return its reply, which has one of the types `expected`.

        Raises the errors that other replies stand for; `action` completes "cannot ..." in their messages. `on_repeat`
        is called before a request is sent again that the server may already have carried out.
        """
        replies = self.request_all([address], access, action, make, *expected, on_repeat=on_repeat)
        return replies[address]

    def request_all(
        self,
        addresses: Iterable[SegmentAddress],
        access: Access,
        action: str,
        make: Request,
        *expected: type[Reply],
        on_repeat: Callable[[], None] | None = None,
    ) -> dict[SegmentAddress, Reply]:
        """Send requests about several segments as `request` does, with many requests in flight."""
        unique = list(dict.fromkeys(addresses))
        replies: dict[SegmentAddress, Reply] = {}
        renewed: set[SegmentAddress] = set()
        uncertain = False

        def attempt(seconds_left: float) -> None:
            nonlocal uncertain
            if uncertain and on_repeat is not None:
                on_repeat()
            uncertain = True
            again: PravegaError | None = None
            missing = [address for address in unique if address not in replies]
            results: dict[SegmentAddress, Reply] = {}
            try:
                self._exchange(results, missing, access, action, make, seconds_left)
            finally:  # what was answered before a connection was lost needs no second request
                replies.update((address, reply) for address, reply in results.items() if isinstance(reply, expected))
            for address, reply in results.items():
                if address in replies:
                    continue
                again = self.make_refusal(reply, address, access, action, renew=address not in renewed)
                if not isinstance(again, ServerUnavailableError):
                    raise again
                if is_token_expired(reply):
                    renewed.add(address)
            uncertain = False
            if again is not None:
                raise again

        retry(attempt, timeout=self.config.retry_timeout, transient=TRANSIENT)
        return replies

    def _exchange(
        self,
        results: dict[SegmentAddress, Reply],
        addresses: Collection[SegmentAddress],
        access: Access,
        action: str,
        make: Request,
        seconds_left: float,
    ) -> None:
        """Send one request per segment, and add all replies to `results` as they come, whatever they are."""
        by_stream: defaultdict[Stream, list[int]] = defaultdict(list)
        for address in addresses:
            by_stream[address.stream].append(address.segment_id)
        locations = {stream: self.locations(stream, segment_ids) for stream, segment_ids in by_stream.items()}
        by_endpoint: defaultdict[Endpoint, list[SegmentAddress]] = defaultdict(list)
        for address in addresses:
            by_endpoint[locations[address.stream][address.segment_id]].append(address)
        for endpoint, requested in by_endpoint.items():
            started = time.monotonic()
            try:
                connection = self.pool.borrow(endpoint, min(self.config.request_timeout, seconds_left))
                try:
                    with cancellation.interrupt_by(connection.abort):
                        for first in range(0, len(requested), _PIPELINED):
                            self._pipeline(results, connection, requested[first : first + _PIPELINED], access, make)
                except BaseException:
                    connection.close()
                    raise
            except TRANSIENT:
                self.pool.forget(endpoint)
                for address in requested:
                    self.forget_location(address.stream, address.segment_id)
                    if isinstance(make, SmallAppends):
                        # An expired token makes the segment store close the connection without a word.
                        self.tokens.invalidate(address.stream, access)
                raise
            if isinstance(make, SmallAppends):
                connection.close()  # the segment store would, when the token of its writers expires
            else:
                self.pool.give_back(connection)
            took = (time.monotonic() - started) * 1e3
            _log.debug("%s %d segments at %s took %.1f ms", action, len(requested), endpoint, took)

    def _pipeline(
        self,
        results: dict[SegmentAddress, Reply],
        connection: Connection,
        addresses: Collection[SegmentAddress],
        access: Access,
        make: Request,
    ) -> None:
        outstanding: dict[int, SegmentAddress] = {}
        frames = []
        for address in addresses:
            request_id = connection.take_request_id()
            outstanding[request_id] = address
            frames.append(make(request_id, address.name, self.tokens.token(address.stream, access)))
        connection.send(b"".join(frames))
        while outstanding:
            reply = connection.receive()
            requested = outstanding.pop(reply.request_id, None)
            if requested is None:
                raise ProtocolError(
                    f"the segment store at {connection.endpoint} sent a {type(reply).__name__} that nobody asked for"
                )
            if isinstance(make, SmallAppends) and isinstance(reply, AppendSetup) and reply.last_event_number <= 0:
                request_id = connection.take_request_id()
                outstanding[request_id] = requested
                connection.send(make.pack_block(request_id, requested.name))
                continue
            results[requested] = reply

    def segment_infos(
        self, stream: Stream, segment_ids: Iterable[int], transaction: uuid.UUID | None = None
    ) -> dict[int, SegmentInfo]:
        """Return the states of the segments that exist, or of their parts in a transaction."""
        replies = self.request_all(
            [SegmentAddress(stream, segment_id, transaction) for segment_id in segment_ids],
            Access.READ,
            "look up",
            wire.get_segment_info,
            StreamSegmentInfo,
            NoSuchSegment,
        )
        return {
            address.segment_id: SegmentInfo(reply.start_offset, reply.write_offset, reply.sealed)
            for address, reply in replies.items()
            if isinstance(reply, StreamSegmentInfo) and reply.exists
        }

    def seal_segments(self, stream: Stream, segment_ids: Iterable[int], transaction: uuid.UUID) -> None:
        """Seal a transaction's segments against all appends, so that their lengths are final.

        The transaction can still be committed or aborted. Segments may already be sealed. Raises
        TransactionNotOpenError if the transaction has ended. This is only for transactions: the controller would not
        learn that a segment of the stream itself is sealed.
        """
        self.request_all(
            [SegmentAddress(stream, segment_id, transaction) for segment_id in segment_ids],
            Access.WRITE,
            "seal",
            wire.seal_segment,
            SegmentSealed,
            SegmentIsSealed,
        )

    def append_together(
        self, blocks: Mapping[SegmentAddress, tuple[uuid.UUID, memoryview, int]]
    ) -> dict[SegmentAddress, tuple[int, int]]:
        """Append what `SmallAppends` has; return the ranges of all that it is sure of. Appenders must take the rest."""
        make = SmallAppends({address.name: block for address, block in blocks.items()})
        kinds = (DataAppended, AppendSetup, InvalidEventNumber)
        return {
            address: (reply.segment_write_offset - len(blocks[address][1]), reply.segment_write_offset)
            for address, reply in self.request_all(blocks, Access.WRITE, "append to", make, *kinds).items()
            if isinstance(reply, DataAppended) and reply.segment_write_offset >= 0
        }

    def creation_times(self, stream: Stream, segment_ids: Sequence[int]) -> dict[int, int | None]:
        """Return segments' known creation times, in milliseconds by stores' clocks. Raises SegmentNotFoundError."""
        replies = self.request_all(
            [SegmentAddress(stream, segment_id) for segment_id in segment_ids],
            Access.READ,
            "read an attribute of",
            lambda request_id, segment, token: wire.get_attribute(request_id, segment, _CREATION_TIME, token),
            SegmentAttribute,
        )
        values = {address.segment_id: cast(SegmentAttribute, reply).value for address, reply in replies.items()}
        return {segment_id: None if value == wire.NO_EVENT_NUMBER else value for segment_id, value in values.items()}
