"""Turns the refusals of segment stores into the errors of this package."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pyspark_pravega import errors

from ..stream import Access, Stream, find_key_value_table, make_segment_name
from ..wire import replies

TRANSIENT = (errors.ServerUnavailableError, errors.ServerTimeoutError)
"""Errors after which the same request may succeed, on another connection or at another segment store."""


@dataclass(frozen=True)
class SegmentAddress:
    """A segment of a stream, or a transaction's part of it."""

    stream: Stream
    segment_id: int
    transaction: uuid.UUID | None = None

    @property
    def name(self) -> str:
        """Return the segment store's name for it."""
        return make_segment_name(self.stream, self.segment_id, self.transaction)


def is_token_expired(reply: replies.Reply) -> bool:
    """Return whether the token has expired, so that the request may be repeated with a new one."""
    return isinstance(reply, replies.AuthTokenCheckFailed) and reply.code == replies.TOKEN_EXPIRED


def make_reply_error(reply: replies.Reply, address: SegmentAddress, access: Access, action: str) -> errors.PravegaError:
    """Make the error for an unexpected reply. `action` completes "cannot ..." in its message."""
    cannot = f"cannot {action} segment '{address.name}'"
    match reply:
        case replies.WrongHost():
            return errors.ServerUnavailableError(f"{cannot}: it has moved to another segment store, or is being moved")
        case replies.AuthTokenCheckFailed():
            return _make_permission_error(reply, address, access, cannot)
        case replies.NoSuchSegment() if address.transaction is not None:
            return _make_transaction_error(address, cannot, "its segments are gone")
        case replies.NoSuchSegment():
            return make_segment_not_found_error(address)
        case replies.SegmentIsSealed() if address.transaction is not None:
            return _make_transaction_error(address, cannot, "its segments are sealed for the commit")
        case replies.SegmentIsSealed():
            return errors.SegmentSealedError(
                f"{cannot}: it is sealed, because stream '{address.stream}' was scaled or sealed; "
                "write to the segments that follow it"
            )
        case replies.InvalidEventNumber():
            return errors.WriterFencedError(
                f"{cannot}: another connection writes as writer {reply.writer_id}, probably a newer attempt of the "
                "same task; this one must give up"
            )
        case replies.OperationUnsupported():
            return errors.ServerFailedError(f"{cannot}: the segment store does not support {reply.operation}")
        case replies.ErrorMessage():
            return errors.ServerFailedError(
                f"{cannot}: the segment store refused the request ({_take_first_line(reply.message)})"
            )
        case _:
            return errors.ProtocolError(
                f"{cannot}: the segment store answered with an unexpected {type(reply).__name__}"
            )


def make_segment_not_found_error(address: SegmentAddress) -> errors.PravegaError:
    """Make the error for a segment, or the partition of a key-value table, that does not exist."""
    stream = address.stream
    table = find_key_value_table(stream)
    if table is not None:
        return errors.KeyValueTableNotFoundError(f"there is no key-value table '{table}' in scope '{stream.scope}'")
    return errors.SegmentNotFoundError(
        f"there is no segment '{address.name}': it was removed by truncation, stream '{stream}' was deleted, or the "
        "segment never existed"
    )


def _make_transaction_error(address: SegmentAddress, cannot: str, why: str) -> errors.TransactionNotOpenError:
    return errors.TransactionNotOpenError(
        f"{cannot}: transaction {address.transaction} on stream '{address.stream}' takes no more events: {why}"
    )


def _make_permission_error(
    reply: replies.AuthTokenCheckFailed, address: SegmentAddress, access: Access, cannot: str
) -> errors.PravegaError:
    if reply.code == replies.TOKEN_EXPIRED:
        return errors.PermissionDeniedError(
            f"{cannot}: the segment store says that the delegation token has expired, although it was just renewed; "
            "check the clocks of the controller and of the segment stores"
        )
    stream = address.stream
    right = "READ" if access is Access.READ else "READ_UPDATE"
    return errors.PermissionDeniedError(
        f"{cannot}: the segment store did not accept the delegation token; the user needs the right {right} on "
        f"'prn::/scope:{stream.scope}/stream:{stream.name}'"
    )


def _take_first_line(text: str) -> str:
    first = text.split("\n", 1)[0].strip()
    return first if len(first) <= 300 else first[:297] + "..."
