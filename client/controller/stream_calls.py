"""Controller calls for whole streams: list, create, configure, seal, truncate, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark_pravega import errors

from ..stream import Stream, StreamConfiguration
from ..stream_cut import StreamCut
from . import controller_pb2 as pb
from .channel import (
    TRIES_OF_FAILED_CALLS,
    ControllerCalls,
    describe_lost_reply,
    name_scope_resource,
    remind_of_nothing_else,
)
from .failures import Purpose
from .messages import decode_configuration, encode_configuration, make_stream_cut_message, make_stream_info
from .scope_calls import make_scope_not_found_error

_NO_MORE = (
    "; it may still do it, and refuses the same request until then. If it has lost the first one, the stream can be "
    "read, written, sealed and deleted, but takes no other {}: copy it to a new stream"
)
"""What becomes of a truncation or a change that is late: `startTruncation` and `updateStream` in
StreamMetadataTasks.java write no event while one of their kind is under way."""


class StreamCalls(ControllerCalls):
    def list_streams(self, scope: str) -> list[str]:
        """Return the sorted names of the streams in a scope that the caller may read.

        They include internal streams, of watermarks and reader groups, which begin with `_`. Raises ScopeNotFoundError.
        """
        refusals = dict.fromkeys(("NOT_FOUND", "SCOPE_NOT_FOUND"), make_scope_not_found_error(scope))
        purpose = Purpose(f"list the streams of scope '{scope}'", name_scope_resource(scope), "READ", refusals)
        request = pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope=scope), continuationToken=pb.ContinuationToken())
        streams = self._list_pages("listStreamsInScope", request, purpose, "streams")
        return sorted({stream.stream for stream in streams})

    def stream_exists(self, stream: Stream) -> bool:
        """Return whether a stream exists. Needs READ on it."""
        reply: pb.ExistsResponse = self._call(
            "checkStreamExists", make_stream_info(stream), self._stream_purpose("look for stream", stream)
        )
        return reply.exists

    def stream_configuration(self, stream: Stream) -> StreamConfiguration:
        """Return the settings of a stream. Raises StreamNotFoundError."""
        reply: pb.StreamConfig = self._call(
            "getStreamConfiguration",
            make_stream_info(stream),
            self._stream_purpose("look up the settings of stream", stream),
        )
        return decode_configuration(reply)

    def create_stream(self, stream: Stream, configuration: StreamConfiguration) -> None:
        """Create a stream. Needs READ_UPDATE on the scope.

        The controller answers FAILURE if a step of it fails, say because its store is slow for a moment. The stream
        is half-made then, and asking again completes it. The answer to that is STREAM_EXISTS (`createStreamBody` of
        StreamMetadataTasks.java): the settings show whether it is the requested stream.

        Raises StreamExistsError, ScopeNotFoundError, InvalidNameError, InvalidOptionError, ServerFailedError.
        """
        purpose = Purpose(f"create stream '{stream}'", name_scope_resource(stream.scope), "READ_UPDATE")
        request = encode_configuration(stream, configuration)
        reply, tries = self._channel.call("createStream", request, purpose)
        failures = 0
        while reply.status == pb.CreateStreamStatus.FAILURE and failures < TRIES_OF_FAILED_CALLS - 1:
            failures += 1
            reply, tries = self._channel.call("createStream", request, purpose)
        exists = reply.status == pb.CreateStreamStatus.STREAM_EXISTS
        if exists and failures and self.stream_configuration(stream) == configuration:
            return
        refusals = {
            "STREAM_EXISTS": errors.StreamExistsError(
                f"stream '{stream.name}' already exists in scope '{stream.scope}'{describe_lost_reply(tries)}"
            ),
            "SCOPE_NOT_FOUND": make_scope_not_found_error(stream.scope),
            "INVALID_STREAM_NAME": errors.InvalidNameError(
                f"Pravega does not accept '{stream.name}' as the name of a stream; use letters, digits, '-' and '.'"
            ),
        }
        self._check(reply, replace(purpose, refusals=refusals))

    def update_stream(self, stream: Stream, configuration: StreamConfiguration) -> None:
        """Replace all settings of a stream. To change one setting, read them all, change it and write them back.

        Raises StreamNotFoundError, StreamSealedError, InvalidOptionError; ServerTimeoutError if it is late, since it
        cannot be asked for again.
        """
        when_late = _NO_MORE.format("change of settings")
        purpose = self._change_purpose("change the settings of stream", stream, when_late=when_late)
        self._call_checked("updateStream", encode_configuration(stream, configuration), purpose)

    def seal_stream(self, stream: Stream, remind: Callable[[], None] = remind_of_nothing_else) -> None:
        """Seal a stream, which takes no more events then; the server aborts open transactions on it.

        It first waits for those that are being committed: if sealing is late, `remind` is called before it is asked for
        again. Sealing a sealed stream succeeds. Raises StreamNotFoundError.
        """
        purpose = self._change_purpose(
            "seal stream",
            stream,
            remind=remind,
            when_late="; it waits for the transactions that are being committed to the stream",
        )
        reply: pb.UpdateStreamStatus = self._call("sealStream", make_stream_info(stream), purpose)
        if reply.status != pb.UpdateStreamStatus.STREAM_SEALED:
            self._check(reply, purpose)

    def truncate_stream(self, cut: StreamCut) -> None:
        """Forget everything before a stream cut, which becomes the head.

        The controller does NOT check that the offsets are borders between events and not beyond the tail. A wrong
        truncation cannot be undone, so callers must check the offsets with the segment stores first. Raises
        InvalidOptionError for a cut that does not cover the whole key space or lies before the head,
        StreamNotFoundError, StreamSealedError; ServerTimeoutError if it is late, since it cannot be asked for again:
        the head has moved by then, but the events before it may keep their place in storage.
        """
        when_late = _NO_MORE.format("truncation, nor does its retention remove any events")
        refused_cut = errors.InvalidOptionError(
            f"stream '{cut.stream}' cannot be truncated at {cut}: the cut must name segments that cover "
            "the whole key space and must not lie before the present head of the stream, and no other truncation "
            "may be under way"
        )
        purpose = self._change_purpose("truncate stream", cut.stream, {"FAILURE": refused_cut}, when_late=when_late)
        self._call_checked("truncateStream", make_stream_cut_message(cut), purpose)

    def delete_stream(self, stream: Stream) -> None:
        """Delete a sealed stream. Raises StreamNotFoundError, and UnsupportedOperationError if it is not sealed."""
        refusals = {
            "STREAM_NOT_SEALED": errors.UnsupportedOperationError(
                f"stream '{stream}' is not sealed; seal it before you delete it"
            )
        }
        purpose = self._stream_purpose("delete stream", stream, "READ_UPDATE", refusals, remind=remind_of_nothing_else)
        self._call_checked("deleteStream", make_stream_info(stream), purpose, done="STREAM_NOT_FOUND")

    def _change_purpose(
        self, action: str, stream: Stream, refusals: Mapping[str, errors.PravegaError] | None = None, **more: Any
    ) -> Purpose:
        of_changes = {
            "SCOPE_NOT_FOUND": make_scope_not_found_error(stream.scope),
            "STREAM_SEALED": errors.StreamSealedError(f"cannot {action} '{stream}': it is sealed"),
        }
        return self._stream_purpose(action, stream, "READ_UPDATE", of_changes | dict(refusals or {}), **more)
