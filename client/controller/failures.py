"""Turns the gRPC status and text of a failed controller call into the errors of this package.

The texts are those of Pravega 0.13 and its `getStatusFromException`: NOT_FOUND and FAILED_PRECONDITION come from the
metadata store; INTERNAL and UNKNOWN stand for everything that the server did not expect, and have a stack trace as
text if the server is configured so. They never hold the caller's credentials.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import grpc

from pyspark_pravega import errors

from ..config import Endpoint
from ..tls import find_grpc_tls_error

Right = Literal["READ", "READ_UPDATE"]


@dataclass(frozen=True)
class Purpose:
    """Why a call is made, for its error messages.

    `action` completes "cannot ..."; Pravega's access control list must grant `right` on `resource`. `refusals` are the
    errors for statuses of replies, and for NOT_FOUND of gRPC, by their names; `refine` may recognize further failures
    by the server's text. `idempotent` says whether a call that failed inside the server may be sent again.

    Some calls are answered only when all is done, and the server may lose them on the way. `remind` says that such a
    call may be sent again meanwhile, and is called before; without it, a missed deadline is final, and `when_late`
    completes its message.
    """

    action: str
    resource: str
    right: Right
    refusals: Mapping[str, errors.PravegaError] = field(default_factory=dict)
    refine: Callable[[str], errors.PravegaError | None] | None = None
    idempotent: bool = True
    remind: Callable[[], None] | None = None
    when_late: str = ""


_LOST_CONNECTIONS: dict[str, tuple[str, str | None]] = {
    "connection refused": ("connection refused", "refused"),
    "socket closed": ("socket closed", None),
    "connection reset": ("connection reset", None),
    "dns resolution failed": ("unknown host", "unknown host"),
    "hostname lookup error": ("unknown host", "unknown host"),
    "timeout": ("timeout", None),
}
"""Why a call met no server: for a message, and as `Unreached.why` if there was no connection at all.

By words in the text of gRPC's UNAVAILABLE, its only sign of what happened; in lower case."""

_HUNG_UP = "closed"
"""A word in the text of gRPC's UNAVAILABLE, in lower case, if the server closed the connection."""

_NO_RIGHT = "Authorization failed"
"""The controller's text for a missing right. PERMISSION_DENIED with another text: a stream's state forbids the call."""

# The connection broke, the server is overloaded, or another change to the same metadata came first.
_PASSING = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
)


def make_controller_error(
    status: grpc.StatusCode, details: str, purpose: Purpose, endpoint: Endpoint, *, with_credentials: bool
) -> errors.PravegaError:
    """Make the error for a failed call. ServerUnavailableError and ServerFailedError may pass; others are final."""
    refined = purpose.refine(details) if purpose.refine is not None else None
    if refined is not None:
        return refined
    cannot = f"cannot {purpose.action}"
    said = extract_server_text(details)
    if status is grpc.StatusCode.UNAUTHENTICATED:
        if with_credentials:
            return errors.AuthenticationError(f"{cannot}: the controller at {endpoint} refused the credentials")
        return errors.AuthenticationError(
            f"{cannot}: the controller at {endpoint} requires credentials, and none are given; "
            "give them in the same place as its address: those of an environment are not sent to addresses of a query"
        )
    if status is grpc.StatusCode.PERMISSION_DENIED:
        if said and said != _NO_RIGHT:
            return errors.UnsupportedOperationError(f"{cannot}: the controller does not allow it now ({said})")
        return errors.PermissionDeniedError(
            f"{cannot}: the user lacks the right {purpose.right} on '{purpose.resource}'; "
            "ask for that entry in Pravega's access control list"
        )
    if status is grpc.StatusCode.NOT_FOUND and status.name in purpose.refusals:
        return purpose.refusals[status.name]
    if status is grpc.StatusCode.UNAVAILABLE:
        tls_failure = find_grpc_tls_error(details, endpoint)
        if tls_failure is not None:
            return tls_failure
        lost, why_unreached = _find_lost_connection(details)
        unavailable = errors.ServerUnavailableError(
            f"{cannot}: the controller at {endpoint} cannot be reached ({lost}); check the address, and that "
            "the server runs"
        )
        if why_unreached is not None:
            unavailable.unreached = errors.Unreached(f"the controller at {endpoint}", why_unreached)
        return unavailable
    if status in _PASSING:
        return errors.ServerUnavailableError(
            f"{cannot}: the controller at {endpoint} could not handle the call ({status.name}{_put_after_colon(said)})"
        )
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.ServerTimeoutError(
            f"{cannot}: the controller at {endpoint} did not answer in time{_put_after_colon(said)}{purpose.when_late}"
        )
    if status is grpc.StatusCode.UNIMPLEMENTED:
        return errors.ServerFailedError(
            f"{cannot}: the server at {endpoint} does not know the call; is it a Pravega controller (port "
            "9090 by default)?"
        )
    if status is grpc.StatusCode.UNKNOWN and not said and with_credentials:
        # The server answers like this if its plug-in cannot parse the authorization header.
        return errors.AuthenticationError(
            f"{cannot}: the controller at {endpoint} could not read the credentials; check their form"
        )
    return errors.ServerFailedError(
        f"{cannot}: the controller at {endpoint} failed ({status.name}{_put_after_colon(said)})"
    )


def extract_server_text(details: str) -> str:
    """Return the first words of the server's description, without its stack trace."""
    text = details.removeprefix("controllerStackTrace=").split("\n", 1)[0].strip()
    # Of Java's nested exceptions only the text of the last one is of use to a user.
    text = re.sub(r"^(?:(?:[\w$]+\.)+[\w$]*(?:Exception|Error): )+", "", text)
    return text if len(text) <= 300 else text[:297] + "..."


def has_hung_up(details: str) -> bool:
    """Return whether gRPC's UNAVAILABLE means that the server closed the connection."""
    return _HUNG_UP in details.lower()


def _find_lost_connection(details: str) -> tuple[str, str | None]:
    # "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect ...:
    # Connection refused"
    text = details.rsplit("last error: ", 1)[-1]
    for words, lost in _LOST_CONNECTIONS.items():
        if words in text.lower():
            return lost
    return extract_server_text(text) or "no reason given", None


def _put_after_colon(text: str) -> str:
    return f": {text}" if text else ""
