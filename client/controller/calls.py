"""Holds what controller calls have in common: the channel, and the names of things in access control lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_pravega.errors import PravegaError, ServerFailedError, StreamNotFoundError

from ..stream import Stream
from .channel import ControllerChannel
from .errors import Purpose, Right

ROOT_RESOURCE = "prn::/"
"""Stands for the list of scopes."""


def scope_resource(scope: str) -> str:
    """Return a scope, as access control lists name it."""
    return f"prn::/scope:{scope}"


def stream_resource(stream: Stream) -> str:
    """Return a stream, as access control lists name it."""
    return f"prn::/scope:{stream.scope}/stream:{stream.name}"


def key_value_table_resource(scope: str, table: str) -> str:
    """Return a key-value table, as access control lists name it."""
    return f"prn::/scope:{scope}/key-value-table:{table}"


def stream_not_found(stream: Stream) -> StreamNotFoundError:
    """Make the error for a stream that is not there."""
    return StreamNotFoundError(f"there is no stream '{stream.name}' in scope '{stream.scope}'")


class ControllerCalls:
    """Base of the groups of calls that make up `Controller`."""

    _channel: ControllerChannel

    def _call(self, rpc: str, request: Any, purpose: Purpose) -> Any:
        return self._channel.call(rpc, request, purpose)[0]

    def _stream_purpose(
        self,
        action: str,
        stream: Stream,
        right: Right = "READ",
        *,
        refine: Callable[[str], PravegaError | None] | None = None,
        idempotent: bool = True,
    ) -> Purpose:
        return Purpose(
            f"{action} '{stream}'",
            stream_resource(stream),
            right,
            missing=lambda: stream_not_found(stream),
            refine=refine,
            idempotent=idempotent,
        )

    def _failed(self, purpose: Purpose, status: object) -> ServerFailedError:
        """Make the error for a reply with the status FAILURE, which carries no reason."""
        return ServerFailedError(
            f"cannot {purpose.action}: the controller at {self._channel.endpoint} answered {status}; see its log"
        )


def after_lost_reply(tries: int) -> str:
    """Return a remark for "exists already" after more than one try: the first one may have been carried out."""
    if tries == 1:
        return ""
    return "; the reply to a first try was lost, so it may be this call that made it"
