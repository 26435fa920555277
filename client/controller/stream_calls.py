"""Controller calls for whole streams: list, create, configure, seal, truncate, delete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    StreamExistsError,
    StreamSealedError,
    UnsupportedOperationError,
)

from ..stream import Stream, StreamConfiguration
from ..stream_cut import StreamCut
from . import controller_pb2 as pb
from .channel import (
    TRIES_OF_FAILED_CALLS,
    ControllerCalls,
    describe_lost_reply,
    make_stream_not_found_error,
    name_scope_resource,
    remind_of_nothing_else,
)
from .errors import Purpose
from .messages import decode_configuration, encode_configuration, make_stream_cut_message, make_stream_info
from .scope_calls import make_scope_not_found_error

_NO_MORE = (
    "; it may still do it, and refuses the same request until then. If it has lost the first one, the stream can be "
    "read, written, sealed and deleted, but takes no other {}: copy it to a new stream"
)
"""What becomes of a truncation or a change that is late: `startTruncation` and `updateStream` in
StreamMetadataTasks.java write no event while one of their kind is under way."""


class StreamCalls(ControllerCalls):
    """Streams."""

    def list_streams(self, scope: str, tag: str | None = None) -> list[str]:
        """Return the sorted names of the streams in a scope that the caller may read, or of those with a tag.

        Without a tag they include internal streams, of watermarks and reader groups, which begin with `_`. Raises
        ScopeNotFoundError.
        """
        purpose = Purpose(
            f"list the streams of scope '{scope}'",
            name_scope_resource(scope),
            "READ",
            missing=lambda: make_scope_not_found_error(scope),
        )
        names: list[str] = []
        token = pb.ContinuationToken()
        while True:
            reply = self._list_page(scope, tag, token, purpose)
            if reply.status == pb.StreamsInScopeResponse.SCOPE_NOT_FOUND:
                raise make_scope_not_found_error(scope)
            if reply.status != pb.StreamsInScopeResponse.SUCCESS:
                raise self._failed(purpose, pb.StreamsInScopeResponse.Status.Name(reply.status))
            # A page may carry a token although no page follows: only an empty page is the end.
            if not reply.streams:
                return sorted(set(names))
            names += [stream.stream for stream in reply.streams]
            token = reply.continuationToken

    def _list_page(
        self, scope: str, tag: str | None, token: pb.ContinuationToken, purpose: Purpose
    ) -> pb.StreamsInScopeResponse:
        scope_info = pb.ScopeInfo(scope=scope)
        reply: pb.StreamsInScopeResponse
        if tag is None:
            request = pb.StreamsInScopeRequest(scope=scope_info, continuationToken=token)
            reply = self._call("listStreamsInScope", request, purpose)
        else:
            tagged = pb.StreamsInScopeWithTagRequest(scope=scope_info, tag=tag, continuationToken=token)
            reply = self._call("listStreamsInScopeForTag", tagged, purpose)
        return reply

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
        if reply.status == pb.CreateStreamStatus.STREAM_EXISTS:
            if failures and self.stream_configuration(stream) == configuration:
                return
            raise StreamExistsError(
                f"stream '{stream.name}' already exists in scope '{stream.scope}'{describe_lost_reply(tries)}"
            )
        if reply.status == pb.CreateStreamStatus.SCOPE_NOT_FOUND:
            raise make_scope_not_found_error(stream.scope)
        if reply.status == pb.CreateStreamStatus.INVALID_STREAM_NAME:
            raise InvalidNameError(
                f"Pravega does not accept '{stream.name}' as the name of a stream; use letters, digits, '-' and '.'"
            )
        if reply.status != pb.CreateStreamStatus.SUCCESS:
            raise self._failed(purpose, pb.CreateStreamStatus.Status.Name(reply.status))

    def update_stream(self, stream: Stream, configuration: StreamConfiguration) -> None:
        """Replace all settings of a stream. To change one setting, read them all, change it and write them back.

        Raises StreamNotFoundError, StreamSealedError, InvalidOptionError; ServerTimeoutError if it is late, since it
        cannot be asked for again.
        """
        purpose = self._stream_purpose("change the settings of stream", stream, "READ_UPDATE")
        purpose = replace(purpose, when_late=_NO_MORE.format("change of settings"))
        reply = self._call("updateStream", encode_configuration(stream, configuration), purpose)
        self._check_update(reply, stream, purpose)

    def seal_stream(self, stream: Stream, remind: Callable[[], None] = remind_of_nothing_else) -> None:
        """Seal a stream, which takes no more events then; the server aborts open transactions on it.

        It first waits for those that are being committed: if sealing is late, `remind` is called before it is asked for
        again. Sealing a sealed stream succeeds. Raises StreamNotFoundError.
        """
        purpose = replace(
            self._stream_purpose("seal stream", stream, "READ_UPDATE"),
            remind=remind,
            when_late="; it waits for the transactions that are being committed to the stream",
        )
        reply: pb.UpdateStreamStatus = self._call("sealStream", make_stream_info(stream), purpose)
        if reply.status != pb.UpdateStreamStatus.STREAM_SEALED:
            self._check_update(reply, stream, purpose)

    def truncate_stream(self, cut: StreamCut) -> None:
        """Forget everything before a stream cut, which becomes the head.

        The controller does NOT check that the offsets are borders between events and not beyond the tail. A wrong
        truncation cannot be undone, so callers must check the offsets with the segment stores first. Raises
        InvalidOptionError for a cut that does not cover the whole key space or lies before the head,
        StreamNotFoundError, StreamSealedError; ServerTimeoutError if it is late, since it cannot be asked for again:
        the head has moved by then, but the events before it may keep their place in storage.
        """
        purpose = self._stream_purpose("truncate stream", cut.stream, "READ_UPDATE")
        purpose = replace(purpose, when_late=_NO_MORE.format("truncation, nor does its retention remove any events"))
        reply: pb.UpdateStreamStatus = self._call("truncateStream", make_stream_cut_message(cut), purpose)
        if reply.status == pb.UpdateStreamStatus.FAILURE:
            raise InvalidOptionError(
                f"stream '{cut.stream}' cannot be truncated at {cut}: the cut must name segments that cover "
                "the whole key space and must not lie before the present head of the stream, and no other truncation "
                "may be under way"
            )
        self._check_update(reply, cut.stream, purpose)

    def delete_stream(self, stream: Stream) -> None:
        """Delete a sealed stream. Raises StreamNotFoundError, and UnsupportedOperationError if it is not sealed."""
        purpose = replace(self._stream_purpose("delete stream", stream, "READ_UPDATE"), remind=remind_of_nothing_else)
        reply, tries = self._channel.call("deleteStream", make_stream_info(stream), purpose)
        if reply.status == pb.DeleteStreamStatus.STREAM_NOT_FOUND:
            if tries == 1:
                raise make_stream_not_found_error(stream)
        elif reply.status == pb.DeleteStreamStatus.STREAM_NOT_SEALED:
            raise UnsupportedOperationError(f"stream '{stream}' is not sealed; seal it before you delete it")
        elif reply.status != pb.DeleteStreamStatus.SUCCESS:
            raise self._failed(purpose, pb.DeleteStreamStatus.Status.Name(reply.status))

    def _check_update(self, reply: pb.UpdateStreamStatus, stream: Stream, purpose: Purpose) -> None:
        if reply.status == pb.UpdateStreamStatus.STREAM_NOT_FOUND:
            raise make_stream_not_found_error(stream)
        if reply.status == pb.UpdateStreamStatus.SCOPE_NOT_FOUND:
            raise make_scope_not_found_error(stream.scope)
        if reply.status == pb.UpdateStreamStatus.STREAM_SEALED:
            raise StreamSealedError(f"cannot {purpose.action}: it is sealed")
        if reply.status != pb.UpdateStreamStatus.SUCCESS:
            raise self._failed(purpose, pb.UpdateStreamStatus.Status.Name(reply.status))
