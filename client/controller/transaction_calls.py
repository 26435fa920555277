"""Controller calls for transactions, and for the event times that writers note."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from typing import Any

from pyspark_pravega.errors import (
    InvalidOptionError,
    PravegaError,
    ServerFailedError,
    ServerUnavailableError,
    StreamSealedError,
    TransactionNotOpenError,
)

from ..retry import retry
from ..stream import SegmentRange, Stream
from ..stream_cut import StreamCut
from . import controller_pb2 as pb
from .channel import ControllerCalls
from .messages import (
    decode_ranges,
    decode_transaction_id,
    make_stream_cut_message,
    make_stream_info,
    make_transaction_id_message,
)

SHORTEST_LEASE_MS = 10_000
LONGEST_LEASE_MS = 600_000
"""The limits by default. A server may be configured with others; its answers then say so."""

_LEASE_TEXTS = ("lease should be greater", "lease value too large")
_SEALED = "State: SEALED"
"""The controller's only signs of a lease out of bounds and of a sealed stream, in the text of a status."""

# What Java sends for "no event time".
_NO_TIMESTAMP = -(1 << 63)


class TransactionStatus(enum.Enum):
    """The state of a transaction in the controller. UNKNOWN: it never existed, or is forgotten (after a day)."""

    UNKNOWN = pb.TxnState.UNKNOWN
    OPEN = pb.TxnState.OPEN
    COMMITTING = pb.TxnState.COMMITTING
    COMMITTED = pb.TxnState.COMMITTED
    ABORTING = pb.TxnState.ABORTING
    ABORTED = pb.TxnState.ABORTED


_COMMITTED = (TransactionStatus.COMMITTING, TransactionStatus.COMMITTED)
_ABORTED = (TransactionStatus.ABORTING, TransactionStatus.ABORTED)


@dataclass(frozen=True)
class CreatedTransaction:
    """A new transaction: its id (unique only within its stream), the segments to append to, and a token to do so.

    The ids of `segments` carry the transaction's epoch (`make_transaction_segment_id`), so the ids of older segments
    differ from those in `current_segments`.
    """

    id: uuid.UUID
    segments: list[SegmentRange]
    token: str = field(repr=False)


class TransactionCalls(ControllerCalls):
    def create_transaction(self, stream: Stream, lease_ms: int) -> CreatedTransaction:
        """Begin a transaction that lives `lease_ms` milliseconds, unless it is pinged.

        With pings it lives at most 1000 times the first lease, and at most a day. If the reply is lost, the call is
        sent again, and the first transaction stays open, empty and unused, until its lease ends. Raises
        InvalidOptionError for a lease out of bounds, StreamNotFoundError, StreamSealedError.
        """
        purpose = self._stream_purpose(
            "begin a transaction on stream",
            stream,
            "READ_UPDATE",
            refine=lambda details: _recognize_refusal(details, stream, lease_ms),
            idempotent=False,
        )
        request = pb.CreateTxnRequest(streamInfo=make_stream_info(stream), lease=lease_ms)
        reply: pb.CreateTxnResponse = self._call("createTransaction", request, purpose)
        return CreatedTransaction(
            decode_transaction_id(reply.txnId), decode_ranges(reply.activeSegments), reply.delegationToken
        )

    def ping_transaction(self, stream: Stream, transaction: uuid.UUID, lease_ms: int) -> None:
        """Make a transaction live `lease_ms` milliseconds from now on.

        Raises TransactionNotOpenError if it is committed, aborted, unknown, or has reached the longest life that the
        server allows; InvalidOptionError for a lease that is too long.
        """
        purpose = self._stream_purpose(f"keep alive transaction {transaction} on stream", stream, "READ_UPDATE")
        request = pb.PingTxnRequest(
            streamInfo=make_stream_info(stream), txnId=make_transaction_id_message(transaction), lease=lease_ms
        )
        status = pb.PingTxnStatus

        def ping(seconds_left: float) -> pb.PingTxnStatus:
            reply: pb.PingTxnStatus = self._call("pingTransaction", request, purpose)
            if reply.status == status.DISCONNECTED:
                raise ServerUnavailableError(f"cannot {purpose.action}: the controller is not ready to keep leases")
            return reply

        reply = retry(ping, timeout=self._channel.config.retry_timeout)
        if reply.status == status.OK:
            return
        if reply.status == status.LEASE_TOO_LARGE:
            raise _make_lease_error(lease_ms)
        if reply.status == status.MAX_EXECUTION_TIME_EXCEEDED:
            raise TransactionNotOpenError(
                f"transaction {transaction} on stream '{stream}' cannot be kept alive any longer: it has reached the "
                "longest life the server allows (1000 times its first lease, at most a day); begin it with "
                "a longer lease"
            )
        raise TransactionNotOpenError(
            f"transaction {transaction} on stream '{stream}' is no longer open "
            f"({status.Status.Name(reply.status).lower()})"
        )

    def commit_transaction(
        self, stream: Stream, transaction: uuid.UUID, *, writer: str = "", event_time: int | None = None
    ) -> None:
        """Ask for a commit; it is done once `transaction_status` returns COMMITTED.

        All appends must be acknowledged before. Asking again is harmless. `event_time` counts for the watermarks as a
        time noted by `writer`. Raises TransactionNotOpenError if the transaction is aborted or unknown.
        """
        purpose = self._stream_purpose(f"commit transaction {transaction} on stream", stream, "READ_UPDATE")
        noted = _NO_TIMESTAMP if event_time is None else event_time
        request = _make_request(stream, transaction, writerId=writer, timestamp=noted)
        reply: pb.TxnStatus = self._call("commitTransaction", request, purpose)
        if reply.status != pb.TxnStatus.SUCCESS:
            self._check_refusal("committed", stream, transaction, _COMMITTED)

    def abort_transaction(self, stream: Stream, transaction: uuid.UUID) -> None:
        """Drop a transaction and its data, even twice. Raises TransactionNotOpenError if it is committed or unknown."""
        purpose = self._stream_purpose(f"abort transaction {transaction} on stream", stream, "READ_UPDATE")
        request = _make_request(stream, transaction, timestamp=_NO_TIMESTAMP)
        reply: pb.TxnStatus = self._call("abortTransaction", request, purpose)
        if reply.status != pb.TxnStatus.SUCCESS:
            self._check_refusal("aborted", stream, transaction, _ABORTED)

    def transaction_status(self, stream: Stream, transaction: uuid.UUID) -> TransactionStatus:
        """Return the state of a transaction. Needs only READ."""
        purpose = self._stream_purpose(f"look up transaction {transaction} on stream", stream)
        reply: pb.TxnState = self._call("checkTransactionState", _make_request(stream, transaction), purpose)
        return TransactionStatus(reply.state)

    def _check_refusal(
        self, done: str, stream: Stream, transaction: uuid.UUID, statuses: tuple[TransactionStatus, ...]
    ) -> None:
        """Raise an error that explains a FAILURE by the state of the transaction, unless it is one of `statuses`."""
        status = self.transaction_status(stream, transaction)
        if status in statuses:
            return
        cannot = f"transaction {transaction} on stream '{stream}' cannot be {done}"
        if status is TransactionStatus.OPEN:
            raise ServerFailedError(f"{cannot}, although it is open; see the controller's log")
        lease = "" if status in _COMMITTED else "; its lease may have ended"
        raise TransactionNotOpenError(f"{cannot}: it is {status.name.lower()}{lease}")


def _make_request(stream: Stream, transaction: uuid.UUID, **more: Any) -> pb.TxnRequest:
    identity = make_transaction_id_message(transaction)
    return pb.TxnRequest(streamInfo=make_stream_info(stream), txnId=identity, **more)


def _recognize_refusal(details: str, stream: Stream, lease_ms: int) -> PravegaError | None:
    if any(text in details for text in _LEASE_TEXTS):
        return _make_lease_error(lease_ms)
    if _SEALED in details:
        return StreamSealedError(f"stream '{stream}' is sealed; nothing can be written to it. Write to another one")
    return None


def _make_lease_error(lease_ms: int) -> InvalidOptionError:
    return InvalidOptionError(
        f"the server refuses a transaction lease of {lease_ms} ms; it must be from {SHORTEST_LEASE_MS} to "
        f"{LONGEST_LEASE_MS} ms, unless the server is configured with other limits"
    )


class EventTimeCalls(ControllerCalls):
    """Event times that writers note, for watermarks."""

    def note_time(self, writer: str, position: StreamCut, time: int) -> None:
        """Promise that no event which this writer appends after `position` is older than `time`.

        The controller combines the times of all writers every 10 seconds or so. `commit_transaction` notes a time for
        the end of a transaction. Raises InvalidOptionError if the writer has noted a later time or position,
        StreamNotFoundError.
        """
        action = f"note a time of writer '{writer}' on stream"
        request = pb.TimestampFromWriter(writer=writer, position=make_stream_cut_message(position), timestamp=time)
        refusals = {
            result: InvalidOptionError(
                f"cannot {action} '{position.stream}': it has already noted a later time or position ({result})"
            )
            for result in ("INVALID_TIME", "INVALID_POSITION")
        }
        purpose = self._stream_purpose(action, position.stream, "READ_UPDATE", refusals)
        self._call_checked("noteTimestampFromWriter", request, purpose)

    def remove_writer(self, writer: str, stream: Stream) -> bool:
        """Remove a writer, so that watermarks no longer wait for it; return False if it has noted no time.

        The time that it noted last still counts once. Raises StreamNotFoundError.
        """
        purpose = self._stream_purpose(f"remove writer '{writer}' from stream", stream, "READ_UPDATE")
        request = pb.RemoveWriterRequest(writer=writer, stream=make_stream_info(stream))
        reply: pb.RemoveWriterResponse = self._call("removeWriter", request, purpose)
        if reply.result == pb.RemoveWriterResponse.UNKNOWN_WRITER:
            return False
        self._check(reply, purpose)
        return True
