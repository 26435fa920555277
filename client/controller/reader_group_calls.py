"""Controller calls for reader groups, and for the subscribers of a stream, whose positions hold its retention back."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark_pravega import errors

from ..stream import Stream
from ..stream_cut import StreamCut
from . import controller_pb2 as pb
from .channel import ControllerCalls, name_scope_resource, remind_of_nothing_else
from .failures import Purpose
from .messages import make_stream_cut_message, make_stream_info
from .scope_calls import make_scope_not_found_error


class Holding(enum.Enum):
    """The events that the server keeps for a reader group: none, those after a given cut, or those after a checkpoint.

    The values are those of the protocol and of Java's enumeration.
    """

    NONE = 0
    MANUAL = 1
    AUTOMATIC = 2


@dataclass(frozen=True)
class ReaderGroup:
    """A reader group as the controller keeps it. `generation` counts its changes; only the newest one may act."""

    scope: str
    name: str
    id: uuid.UUID
    generation: int
    holding: Holding
    starts: tuple[StreamCut, ...]
    """A cut of each stream; one without positions stands for the head at the time."""

    # The defaults of Java's ReaderGroupConfig.
    refresh_ms: int = 3000
    checkpoints_ms: int = 30_000
    outstanding_checkpoints: int = 3

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Return the streams that the group reads."""
        return tuple(start.stream for start in self.starts)


class ReaderGroupCalls(ControllerCalls):
    """Reader groups and subscribers."""

    def create_reader_group(self, group: ReaderGroup) -> ReaderGroup:
        """Create a reader group and return it. If the name is taken, return the existing group: it has another id.

        The controller also creates the empty stream `_RG<name>`. It makes a group that holds events a subscriber of
        its streams, which holds nothing before its first cut. Needs READ_UPDATE on the scope. Raises
        ScopeNotFoundError, InvalidNameError.
        """
        refusals = {
            "SCOPE_NOT_FOUND": make_scope_not_found_error(group.scope),
            "INVALID_RG_NAME": errors.InvalidNameError(
                f"Pravega does not accept '{group.name}' as the name of a consumer; use letters, digits, '-' and '.'"
            ),
        }
        purpose = _make_purpose("create", group, refusals, remind=remind_of_nothing_else)
        return _read_group(self._call_checked("createReaderGroup", _make_message(group), purpose).config)

    def reader_group(self, scope: str, name: str) -> ReaderGroup | None:
        """Return the reader group of this name, or None. Needs READ on the scope."""
        purpose = Purpose(f"look up {_format_title(scope, name)}", name_scope_resource(scope), "READ")
        request = pb.ReaderGroupInfo(scope=scope, readerGroup=name)
        reply: pb.ReaderGroupConfigResponse = self._call("getReaderGroupConfig", request, purpose)
        if reply.status == pb.ReaderGroupConfigResponse.RG_NOT_FOUND:
            return None
        self._check(reply, purpose)
        return _read_group(reply.config)

    def update_reader_group(self, group: ReaderGroup) -> int:
        """Replace the settings of a reader group of this id and generation; return its next generation.

        Clients that know only an older generation cannot move the group any more; it keeps the positions that it holds.
        Raises ConsumerInUseError if another client has updated it first, ConsumerNotFoundError; ServerTimeoutError if
        it is late, since it cannot be asked for again (`updateReaderGroup` of StreamMetadataTasks.java).
        """
        refusals = {
            "RG_NOT_FOUND": _make_not_found_error(group.scope, group.name),
            "INVALID_CONFIG": errors.ConsumerInUseError(
                f"{_format_title(group.scope, group.name)} was changed by another client at the same moment; give each "
                "query its own consumer"
            ),
        }
        purpose = _make_purpose(
            "change",
            group,
            refusals,
            when_late="; it may still do it, and refuses the same request until then. If that lasts, it has lost the "
            "request: drop the consumer and create it again",
        )
        reply: pb.UpdateReaderGroupResponse = self._call_checked("updateReaderGroup", _make_message(group), purpose)
        return reply.generation

    def delete_reader_group(self, group: ReaderGroup) -> None:
        """Delete a reader group and its stream `_RG<name>`; the server then holds no events for it.

        Raises ConsumerNotFoundError if it does not exist, or was created again under another id.
        """
        refusals = {"RG_NOT_FOUND": _make_not_found_error(group.scope, group.name)}
        purpose = _make_purpose("drop", group, refusals, remind=remind_of_nothing_else)
        request = pb.ReaderGroupInfo(
            scope=group.scope, readerGroup=group.name, readerGroupId=str(group.id), generation=group.generation
        )
        self._call_checked("deleteReaderGroup", request, purpose, done="RG_NOT_FOUND")

    def subscribers(self, stream: Stream) -> list[tuple[str, str]]:
        """Return the scopes and names of the reader groups that hold events of a stream. Needs READ_UPDATE on it."""
        purpose = self._stream_purpose("list the subscribers of stream", stream, "READ_UPDATE")
        reply = self._call_checked("listSubscribers", make_stream_info(stream), purpose)
        parts = [subscriber.partition("/") for subscriber in reply.subscribers]
        return sorted((scope, name) for scope, _, name in parts)

    def move_subscriber(self, group: ReaderGroup, cut: StreamCut) -> None:
        """Let the server free, as far as retention allows, the events before a cut of a stream that the group reads.

        Needs READ_UPDATE on the stream. Raises ConsumerInUseError if another client has updated the group since,
        ConsumerNotFoundError if it is no longer a subscriber of the stream, InvalidOptionError if the cut lies before
        the one that it holds now, StreamNotFoundError.
        """
        name = _format_title(group.scope, group.name)
        request = pb.SubscriberStreamCut(
            subscriber=f"{group.scope}/{group.name}",
            generation=group.generation,
            readerGroupId=str(group.id),
            streamCut=make_stream_cut_message(cut),
        )
        refusals = {
            "GENERATION_MISMATCH": errors.ConsumerInUseError(
                f"{name} was taken over by another query, or changed by another client; one consumer is for one query"
            ),
            "SUBSCRIBER_NOT_FOUND": errors.ConsumerNotFoundError(
                f"{name} is no longer a consumer of stream '{cut.stream}'; it was dropped"
            ),
            "STREAM_CUT_NOT_VALID": errors.InvalidOptionError(
                f"{name} cannot be moved to {cut}, which lies before its present position"
            ),
        }
        purpose = self._stream_purpose(f"move {name} on stream", cut.stream, "READ_UPDATE", refusals)
        self._call_checked("updateSubscriberStreamCut", request, purpose)


def _make_purpose(verb: str, group: ReaderGroup, refusals: Mapping[str, errors.PravegaError], **more: Any) -> Purpose:
    action = f"{verb} {_format_title(group.scope, group.name)}"
    return Purpose(action, name_scope_resource(group.scope), "READ_UPDATE", refusals, **more)


def _format_title(scope: str, name: str) -> str:
    return f"consumer '{name}' of scope '{scope}'"


def _make_not_found_error(scope: str, name: str) -> errors.ConsumerNotFoundError:
    return errors.ConsumerNotFoundError(f"there is no consumer '{name}' in scope '{scope}'")


def _make_message(group: ReaderGroup) -> pb.ReaderGroupConfiguration:
    return pb.ReaderGroupConfiguration(
        scope=group.scope,
        readerGroupName=group.name,
        groupRefreshTimeMillis=group.refresh_ms,
        automaticCheckpointIntervalMillis=group.checkpoints_ms,
        maxOutstandingCheckpointRequest=group.outstanding_checkpoints,
        retentionType=group.holding.value,
        generation=group.generation,
        readerGroupId=str(group.id),
        startingStreamCuts=[make_stream_cut_message(start) for start in group.starts],
        endingStreamCuts=[pb.StreamCut(streamInfo=make_stream_info(stream)) for stream in group.streams],
    )


def _read_group(message: pb.ReaderGroupConfiguration) -> ReaderGroup:
    starts = tuple(
        StreamCut(Stream(start.streamInfo.scope, start.streamInfo.stream), dict(start.cut))
        for start in message.startingStreamCuts
    )
    return ReaderGroup(
        scope=message.scope,
        name=message.readerGroupName,
        id=uuid.UUID(message.readerGroupId),
        generation=message.generation,
        holding=Holding(message.retentionType),
        starts=starts,
        refresh_ms=message.groupRefreshTimeMillis,
        checkpoints_ms=message.automaticCheckpointIntervalMillis,
        outstanding_checkpoints=message.maxOutstandingCheckpointRequest,
    )
