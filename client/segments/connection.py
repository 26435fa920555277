"""Connections to segment stores, over TCP or TLS, which send and receive whole frames; and a pool of idle ones."""

from __future__ import annotations

import math
import select
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable

from pyspark_pravega.errors import (
    ClientClosedError,
    PravegaError,
    ProtocolError,
    ServerTimeoutError,
    ServerUnavailableError,
)

from ..config import ClientConfig, Endpoint
from ..tls import make_connection_error, make_ssl_context
from ..wire import commands as wire
from ..wire.fields import HEADER, INT64, encode_text
from ..wire.replies import Hello, KeepAlive, Reply, SegmentRead

BufferFor = Callable[[int, int], memoryview]
"""Returns the memory for the bytes of a SegmentRead, given its offset and size: a view of exactly that size.

Raises ProtocolError if nobody asked for these bytes.
"""

IDLE_SECONDS = 60.0
"""Idle time after which a connection is not used again: a firewall may have silently forgotten it."""

_KEPT = 8
"""Idle connections kept per segment store, for requests and for writers each."""

_MOST_WRITERS = 256
"""Writers set up on one connection: the segment store remembers each of them until the connection ends."""

_SILENCE = 20
"""Seconds without a sign of life from the other machine, after data were sent or in a long wait, that end a connection:
a firewall, or a machine that is down, says nothing."""

_READ_FIELDS = struct.Struct(">qBBi")
_WAIT_ALL = socket.MSG_WAITALL


class LongFrameError(ProtocolError):
    """A reply is larger than a frame may be."""


class Connection:
    """A connection after the exchange of greetings, made by `open`. Not thread-safe, except for `abort`."""

    def __init__(self, connected: socket.socket, endpoint: Endpoint, seconds: float) -> None:
        """Take over a connected socket, TLS or plain. `seconds` limits each wait for the network."""
        self.endpoint = endpoint
        self._socket = connected
        self._tls = connected if isinstance(connected, ssl.SSLSocket) else None
        self._seconds = 0.0
        self._last_request_id = 0
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self.used_before = False
        """Whether it has been idle in a pool, where it may have died."""
        self.writers = 0
        """The number of writers that were set up on it."""
        self.usable_until = float("inf")
        """When the first token of its writers must be renewed (by `time.time`)."""
        self.partial_read: tuple[int, int] | None = None
        """Offset of the SegmentRead in which the connection failed, and the number of its bytes received before."""
        self.set_timeout(seconds)

    @classmethod
    def open(cls, endpoint: Endpoint, context: ssl.SSLContext | None, seconds: float) -> Connection:
        """Connect, with TLS if a context is given, and exchange greetings. `seconds` limits each step.

        Raises TlsError (final), ServerUnavailableError, ServerTimeoutError, and ProtocolError if the server is not a
        segment store that speaks a known version.
        """
        try:
            connected = socket.create_connection((endpoint.host, endpoint.port), timeout=seconds)
        except OSError as error:
            raise make_connection_error(error, endpoint) from error
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _notice_silence(connected)
            if context is not None:
                connected = context.wrap_socket(connected, server_hostname=endpoint.host)
            connection = cls(connected, endpoint, seconds)
            connection._greet()
        except OSError as error:
            connected.close()
            raise make_connection_error(error, endpoint) from error
        except BaseException:
            connected.close()
            raise
        return connection

    def _greet(self) -> None:
        self.send(wire.pack_hello())
        try:
            reply = self.receive()
        except ServerUnavailableError as error:
            raise ServerUnavailableError(
                f"{error.message} at the greeting: does the server expect TLS, and is it a segment store?"
            ) from error
        if not isinstance(reply, Hello):
            raise ProtocolError(f"the server at {self.endpoint} greets with {type(reply).__name__}, not with Hello")
        if reply.high_version < wire.OLDEST_COMPATIBLE_VERSION or reply.low_version > wire.WIRE_VERSION:
            raise ProtocolError(
                f"the segment store at {self.endpoint} speaks the versions {reply.low_version} to "
                f"{reply.high_version} of the wire protocol, this client {wire.OLDEST_COMPATIBLE_VERSION} to "
                f"{wire.WIRE_VERSION}"
            )

    def set_timeout(self, seconds: float) -> None:
        """Limit each later wait for the network to `seconds`."""
        seconds = max(seconds, 0.001)
        if seconds == self._seconds:
            return
        self._seconds = seconds
        if self._tls is not None:
            self._tls.settimeout(seconds)
            return
        # Python's own timeouts make the socket non-blocking, and MSG_WAITALL then has no effect.
        self._socket.settimeout(None)
        fraction, whole = math.modf(seconds)
        limit = struct.pack("@ll", int(whole), int(fraction * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def take_request_id(self) -> int:
        """Return an id that no other request on this connection has."""
        self._last_request_id += 1
        return self._last_request_id

    def send(self, *parts: bytes | memoryview) -> None:
        """Send whole frames, which may be given in parts, without joining the parts where the socket allows it."""
        try:
            if self._tls is not None:
                for part in parts:
                    self._tls.sendall(part)
                return
            left = [memoryview(part).cast("B") for part in parts]
            while left:
                sent = self._socket.sendmsg(left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if left:
                    left[0] = left[0][sent:]
        except OSError as error:
            raise self._make_lost_error(error) from error

    def receive(self, reading: tuple[str, BufferFor] | None = None) -> Reply:
        """Wait for the next reply and return it, but skip signs of life. Raises ProtocolError for other bytes.

        `reading`: the bytes of a SegmentRead of this segment go into the memory of this function. If the connection
        fails within these bytes, `partial_read` says how many have arrived.
        """
        self.partial_read = None
        while True:
            command, size = self._receive_header()
            if reading is not None and command == SegmentRead.command:
                return self._receive_segment_read(size, *reading)
            reply = wire.decode(command, self._receive_bytes(size))
            if not isinstance(reply, KeepAlive):
                return reply

    def _receive_segment_read(self, size: int, segment: str, buffer_for: BufferFor) -> SegmentRead:
        name = encode_text(segment)
        head = len(name) + _READ_FIELDS.size
        if size < head + INT64.size:
            raise ProtocolError(
                f"the server at {self.endpoint} sent a SegmentRead of {size:,} bytes, which is too short"
            )
        fields = self._receive_bytes(head)
        if not fields.startswith(name):
            raise ProtocolError(f"the server at {self.endpoint} sent bytes of another segment than '{segment}'")
        offset, at_tail, end_of_segment, length = _READ_FIELDS.unpack_from(fields, len(name))
        if length != size - head - INT64.size:
            raise ProtocolError(f"the server at {self.endpoint} sent a SegmentRead of inconsistent lengths")
        data = buffer_for(offset, length)
        received = 0
        try:
            while received < length:
                received += self._receive_some(data[received:])
        except PravegaError:
            self.partial_read = (offset, received)
            raise
        self.partial_read = None
        request_id: int = INT64.unpack(self._receive_bytes(INT64.size))[0]
        return SegmentRead(request_id, segment, offset, at_tail != 0, end_of_segment != 0, data)

    def _receive_header(self) -> tuple[int, int]:
        command, size = HEADER.unpack(self._receive_bytes(HEADER.size))
        if not 0 <= size <= wire.MAX_FRAME:
            raise LongFrameError(
                f"the server at {self.endpoint} sent a frame of {size:,} bytes, at most {wire.MAX_FRAME:,} are "
                "allowed; is it a Pravega segment store, and does it expect TLS?"
            )
        return command, size

    def _receive_bytes(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view = memoryview(buffer)
        received = 0
        while received < size:
            received += self._receive_some(view[received:])
        return buffer

    def _receive_some(self, view: memoryview) -> int:
        """Receive at least one byte, and as many as possible, into `view`; return their number."""
        try:
            if self._tls is not None:
                count = self._tls.recv_into(view)
            else:
                count = self._socket.recv_into(view, len(view), _WAIT_ALL)
        except OSError as error:
            raise self._make_lost_error(error) from error
        if count == 0:
            raise ServerUnavailableError(f"the segment store at {self.endpoint} closed the connection")
        return count

    def has_input(self) -> bool:
        """Return whether data have arrived, or the other side has closed the connection."""
        return self.wait_for_input(0)

    def wait_for_input(self, seconds: float) -> bool:
        """Wait at most `seconds` for data, or for the other side to close; return whether either happened."""
        return (self._tls is not None and self._tls.pending() > 0) or bool(self._poll.poll(seconds * 1000))

    def _make_lost_error(self, error: OSError) -> PravegaError:
        if isinstance(error, BlockingIOError | TimeoutError):
            return ServerTimeoutError(
                f"the segment store at {self.endpoint} did not answer within {round(self._seconds, 2):g} s"
            )
        if isinstance(error, ssl.SSLError):
            return make_connection_error(error, self.endpoint)
        reason = error.strerror or str(error) or type(error).__name__
        return ServerUnavailableError(f"the connection to the segment store at {self.endpoint} was lost ({reason})")

    def abort(self) -> None:
        """Make a call that waits in another thread fail now. The connection must still be closed afterwards."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # It is already disconnected.
            return

    def close(self) -> None:
        """Close the connection. The protocol has no farewell."""
        self._socket.close()

    def __repr__(self) -> str:
        return f"Connection({self.endpoint}{', TLS' if self._tls is not None else ''})"


def _notice_silence(connected: socket.socket) -> None:
    """Let the operating system end the connection after a time of silence, if it can."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENCE // 2)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _SILENCE // 4)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE * 1000)


class ConnectionPool:
    """Keeps idle connections. Thread-safe. A borrowed connection belongs to its borrower alone until it is given back.

    Connections of writers are kept apart, since a segment store closes them when the token of a writer expires.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._idle: dict[tuple[Endpoint, bool], list[tuple[Connection, float]]] = {}
        self._context: ssl.SSLContext | None = None
        self._closed = False

    def borrow(self, endpoint: Endpoint, seconds: float, *, writing: bool = False) -> Connection:
        """Return an idle connection that still seems to be alive, or open a new one. `seconds` limits each wait.

        Raises the errors of `Connection.open`, and ClientClosedError after `close`.
        """
        while True:
            with self._lock:
                self._check_open()
                idle = self._idle.get((endpoint, writing))
                connection, since = idle.pop() if idle else (None, 0.0)
            if connection is None:
                return self.open(endpoint, seconds)
            fresh = time.monotonic() - since < IDLE_SECONDS and time.time() < connection.usable_until
            if fresh and not connection.has_input():
                connection.set_timeout(seconds)
                return connection
            # It is too old, or the other side has closed it or sent something unexpected.
            connection.close()

    def open(self, endpoint: Endpoint, seconds: float) -> Connection:
        """Open a new connection, which the caller borrows."""
        with self._lock:
            self._check_open()
            if self._config.tls and self._context is None:
                self._context = make_ssl_context(self._config)
        return Connection.open(endpoint, self._context, seconds)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosedError("the client is closed; connect again")

    def give_back(self, connection: Connection, *, writing: bool = False) -> None:
        """Give back a connection on which no reply is outstanding."""
        connection.used_before = True
        with self._lock:
            idle = self._idle.setdefault((connection.endpoint, writing), [])
            if not self._closed and len(idle) < _KEPT and connection.writers < _MOST_WRITERS:
                idle.append((connection, time.monotonic()))
                return
        connection.close()

    def forget(self, endpoint: Endpoint) -> None:
        """Close the idle connections to a segment store, after one turned out to be dead."""
        with self._lock:
            idle = [entry for writing in (False, True) for entry in self._idle.pop((endpoint, writing), ())]
        for connection, _ in idle:
            connection.close()

    def close(self) -> None:
        """Close all idle connections now, and borrowed ones when they are given back."""
        with self._lock:
            self._closed = True
            connections = [connection for idle in self._idle.values() for connection, _ in idle]
            self._idle.clear()
        for connection in connections:
            connection.close()
