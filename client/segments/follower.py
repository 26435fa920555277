"""Reads a segment while it grows: at the tail, the segment store answers as soon as something is appended."""

from __future__ import annotations

import time

from pyspark_pravega.errors import DataLossError, ServerUnavailableError

from ..retry import retry
from ..stream import Access
from ..wire import commands as wire
from ..wire.replies import NoSuchSegment, Reply, SegmentIsSealed, SegmentIsTruncated, SegmentRead
from .connection import Connection
from .failures import TRANSIENT, SegmentAddress
from .store import SegmentStore


class SegmentFollower:
    """Reads a segment from an offset on, over its own connection. Not thread-safe. Always call `close`."""

    def __init__(
        self, store: SegmentStore, address: SegmentAddress, offset: int, *, fail_on_data_loss: bool = True
    ) -> None:
        self._store = store
        self._address = address
        self._fail_on_data_loss = fail_on_data_loss
        self._connection: Connection | None = None
        self._asked = False
        self.offset = offset
        """Where the next bytes are read. It jumps if bytes were removed and data loss is allowed."""
        self.sealed = False
        """Whether the segment takes no more appends and has been read to its end."""

    def read(self, until: float) -> bytes | bytearray | memoryview:
        """Wait for bytes, until a time (`time.monotonic`) or the end of the segment; return them, or nothing.

        Continues after lost connections, moved segments and expired tokens. Raises DataLossError for bytes that were
        removed, the errors of the segment store's refusals, and ServerUnavailableError or ServerTimeoutError if it
        cannot be reached for `retry_timeout`.
        """

        def attempt(seconds_left: float) -> bytes | bytearray | memoryview:
            try:
                return self._receive(until, seconds_left)
            except TRANSIENT:
                self._lose_connection()
                raise
            except BaseException:
                self._drop_connection()
                raise

        return retry(attempt, timeout=self._store.config.retry_timeout, transient=TRANSIENT)

    def _receive(self, until: float, seconds_left: float) -> bytes | bytearray | memoryview:
        connection = self._ask(seconds_left)
        while not self.sealed:
            if not connection.wait_for_input(max(until - time.monotonic(), 0.0)):
                return b""
            reply = connection.receive()
            self._asked = False
            if not isinstance(reply, SegmentRead):
                self._handle_refusal(reply)
                return b""
            self.sealed = reply.end_of_segment
            if reply.offset != self.offset:
                raise ServerUnavailableError(
                    f"the segment store sent bytes of segment '{self._address.name}' from another offset"
                )
            if len(reply.data):
                self.offset += len(reply.data)
                return reply.data
            if not self.sealed:
                connection = self._ask(seconds_left)  # the segment store waits only for a minute
        return b""

    def _ask(self, seconds_left: float) -> Connection:
        config, stream = self._store.config, self._address.stream
        if self._connection is None:
            endpoint = self._store.location(stream, self._address.segment_id)
            self._connection = self._store.pool.borrow(endpoint, min(seconds_left, config.request_timeout))
            self._connection.set_timeout(config.request_timeout)
            self._asked = False
        if not self._asked and not self.sealed:
            token = self._store.tokens.token(stream, Access.READ)
            self._connection.send(wire.read_segment(self.offset, self._address.name, self.offset, wire.MAX_READ, token))
            self._asked = True
        return self._connection

    def _handle_refusal(self, reply: Reply) -> None:
        """Continue after a refusal, or raise its error."""
        stream, name = self._address.stream, self._address.name
        if isinstance(reply, SegmentIsTruncated) and reply.start_offset > self.offset:
            if self._fail_on_data_loss:
                raise DataLossError(
                    f"bytes {self.offset:,} to {reply.start_offset:,} of segment '{name}' were removed by truncation "
                    "before they could be read; allow data loss (fail-on-data-loss=false) to read what is left"
                )
            self.offset = reply.start_offset
            return
        if isinstance(reply, NoSuchSegment) and self._store.controller.stream_exists(stream):
            if self._fail_on_data_loss:
                raise DataLossError(
                    f"segment '{name}' was removed by truncation before its bytes from {self.offset:,} on could be "
                    "read; allow data loss (fail-on-data-loss=false) to read what is left"
                )
            self.sealed = True
            return
        if isinstance(reply, SegmentIsSealed) and self._is_at_end():
            self.sealed = True
            return
        raise self._store.make_refusal(reply, self._address, Access.READ, "read", renew=True)

    def _is_at_end(self) -> bool:
        segment_id = self._address.segment_id
        info = self._store.segment_infos(self._address.stream, [segment_id]).get(segment_id)
        return info is not None and info.sealed and info.write_offset == self.offset

    def _lose_connection(self) -> None:
        if self._connection is None:
            self._store.forget_location(self._address.stream, self._address.segment_id)
        else:
            self._store.pool.forget(self._connection.endpoint)
        self._drop_connection()

    def _drop_connection(self) -> None:
        connection, self._connection, self._asked = self._connection, None, False
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Give the connection back, or close it if a reply is outstanding."""
        if self._connection is not None and not self._asked:
            self._store.pool.give_back(self._connection)
            self._connection = None
        self._drop_connection()
