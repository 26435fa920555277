"""A single append: all events of a write in one block of one segment, with the life of a transaction.

A segment store stores a block and the number of its writer's last event in one step. So events that fit into one block
need no transaction: nobody sees a part of them. The id of a single append is that of its writer, and names its segment:
whoever knows the id can find out whether the block is stored, and prevent that it will be.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_pravega import errors

from .controller.transaction_calls import TransactionStatus
from .retry import limit_retries, retry
from .segments.append import SegmentAppender
from .segments.failures import TRANSIENT, SegmentAddress
from .segments.store import SegmentStore
from .stream import Access, SegmentRange, Stream, get_segment_epoch, get_segment_number, make_segment_id
from .transaction import Transaction
from .wire import commands as wire
from .wire.replies import SegmentAttributeUpdated

if TYPE_CHECKING:
    from . import Pravega

_MARK = 0xFE
"""The first byte of an id: that of a transaction begins with its epoch, an int of Java, which is not negative."""
_BITS = 24
"""Bits of the segment's epoch, and of its number."""
_TIME_BITS = 40
"""Bits of the time in milliseconds, before 32 random ones. A segment store sorts what it notes of writers by ids."""
_ABORTED = (1 << 63) - 1
"""The last event number of a writer that may not append any more."""


@dataclass(frozen=True, eq=False)
class SingleAppend:
    """An append of `events` framed events, the `data`; only a commit needs these. `segments`: those of the stream."""

    store: SegmentStore
    stream: Stream
    id: uuid.UUID
    segments: Sequence[SegmentRange] = ()
    data: bytes = b""
    events: int = 0

    @property
    def address(self) -> SegmentAddress:
        """Return the segment that gets the block."""
        number, epoch = (self.id.int >> bits & (1 << _BITS) - 1 for bits in (72, 72 + _BITS))
        return SegmentAddress(self.stream, make_segment_id(number, epoch))

    def status(self) -> TransactionStatus:
        """Return COMMITTED if the block is stored, ABORTED if it never will be, UNKNOWN if the segment is gone.

        OPEN may mean that it is being stored. Raises PermissionDeniedError for a user who may not write.
        """
        segment = self.address.segment_id
        info = self.store.segment_infos(self.stream, [segment]).get(segment)
        if info is None:
            return TransactionStatus.UNKNOWN
        with self._open_appender() as appender:
            number = appender.last_event_number  # read last: it is final if the segment was sealed before
        if number == _ABORTED or (info.sealed and not number):
            return TransactionStatus.ABORTED
        return TransactionStatus.COMMITTED if number else TransactionStatus.OPEN

    def commit(self, timeout: float = 300.0) -> None:
        """Store the block once, however often this is called.

        Raises TransactionNotOpenError after an abort, SegmentSealedError if the stream was scaled before, and
        TransactionOutcomeUnknownError if the segment store does not answer for `timeout` seconds.
        """
        why = "another writer, which thought this one dead, has aborted it"
        try:
            with limit_retries(timeout), self._open_appender() as appender:
                appender.append(self.data, self.events)
                appender.flush()
                number = appender.last_event_number
        except (errors.SegmentSealedError, errors.SegmentNotFoundError) as error:
            # A block that was sent on a lost connection may be stored before the seal that this one has met.
            state = self._find_end()
            if state is TransactionStatus.COMMITTED:
                return
            if state is TransactionStatus.UNKNOWN and appender.retries:
                raise self._make_unknown_error(error) from error
            if isinstance(error, errors.SegmentSealedError):
                raise
            number, why = _ABORTED, error.message
        except errors.PravegaError as error:
            raise self._make_unknown_error(error) from error
        if number == _ABORTED:
            raise errors.TransactionNotOpenError(
                f"append {self.id} to stream '{self.stream}' failed: {why}. No event of it is visible"
            )

    def abort(self) -> None:
        """Prevent the append, also by others that try it at this moment.

        Raises TransactionNotOpenError if the block is stored, TransactionOutcomeUnknownError if nobody tells.
        """
        if self._find_end(self._give_up) is TransactionStatus.COMMITTED:
            raise errors.TransactionNotOpenError(f"append {self.id} to stream '{self.stream}' is already stored")

    def _give_up(self) -> None:
        """Have the block refused from now on, unless it is stored or on its way into the log."""
        with suppress(errors.SegmentSealedError, errors.SegmentNotFoundError):
            self.store.request(self.address, Access.WRITE, "end a writer of", self._pack_end, SegmentAttributeUpdated)

    def _pack_end(self, request_id: int, segment: str, token: str) -> bytes:
        return wire.update_attribute(request_id, segment, self.id, (_ABORTED, wire.NO_EVENT_NUMBER), token)

    def _find_end(self, step: Callable[[], None] = lambda: None) -> TransactionStatus:
        """Return the state that the append has for good, looking again after each `step`."""

        def look(seconds_left: float) -> TransactionStatus:
            step()
            state = self.status()
            if state is TransactionStatus.OPEN:
                raise errors.ServerTimeoutError("the segment store has neither stored nor refused it")
            return state

        try:
            return retry(look, timeout=self.store.config.retry_timeout, transient=TRANSIENT)
        except errors.PravegaError as error:
            raise self._make_unknown_error(error) from error

    def _make_unknown_error(self, error: errors.PravegaError) -> errors.TransactionOutcomeUnknownError:
        return errors.TransactionOutcomeUnknownError(
            f"it is unknown whether append {self.id} to stream '{self.stream}' is stored: {error.message}; look at "
            "the data before you write it again"
        )

    def _open_appender(self) -> SegmentAppender:
        return SegmentAppender(self.store, self.stream, self.address.segment_id, self.id)


def make_append_id(segment_id: int) -> uuid.UUID | None:
    """Return an id for a single append to a segment; None for a segment whose epoch or number is too large."""
    epoch, number = get_segment_epoch(segment_id), get_segment_number(segment_id)
    if max(epoch, number) >> _BITS:
        return None
    now = (time.time_ns() // 1_000_000) & ((1 << _TIME_BITS) - 1)
    return uuid.UUID(int=(_MARK << 2 * _BITS | epoch << _BITS | number) << 72 | now << 32 | secrets.randbits(32))


def is_append_id(transaction: uuid.UUID) -> bool:
    """Return whether an id in the commit log is that of a single append, and not of a transaction."""
    return transaction.int >> 120 == _MARK


def rejoin(pravega: Pravega, stream: Stream, id: uuid.UUID) -> Transaction | SingleAppend:
    """Return what an id of the commit log stands for, to ask for its state, or to abort it."""
    if is_append_id(id):
        return SingleAppend(pravega.segments, stream, id)
    return Transaction(pravega.controller, stream, id, [], 0)
