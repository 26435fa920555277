"""Controller calls for the segments of a stream: their ids and key ranges, their places, their succession."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pyspark_pravega.errors import (
    InvalidOptionError,
    PravegaError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    StreamNotFoundError,
    StreamSealedError,
)

from .. import cancellation
from ..config import Endpoint
from ..reminder import Reminder
from ..retry import retry
from ..stream import Access, SegmentRange, Stream, find_key_value_table, make_segment_name
from ..stream_cut import StreamCut
from . import controller_pb2 as pb
from .channel import ControllerCalls
from .messages import decode_range, decode_ranges, make_stream_cut_message, make_stream_info

_UNSPECIFIED_HOSTS = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")
"""Host names that a standalone server gives if nobody has configured its own."""

_CREATING = "State: CREATING"
"""The controller's only sign that a stream was never finished, in the text of an INTERNAL or UNKNOWN status."""


class HalfMadeStreamError(ServerFailedError):
    """The controller has not finished creating the stream: it failed, or is still at it."""


def _recognize_half_made(details: str, stream: Stream) -> PravegaError | None:
    if _CREATING not in details:
        return None
    return HalfMadeStreamError(
        f"stream '{stream}' is only half made, or is being created right now; drop it if that lasts"
    )


class SegmentCalls(ControllerCalls):
    """Segments, stream cuts, scaling, locations and delegation tokens."""

    def current_segments(self, stream: Stream) -> list[SegmentRange]:
        """Return the segments that take appends, by key range; none if the stream is sealed.

        So they do not give the tail of a sealed stream: it ends where the segments after its `head` end. Raises
        StreamNotFoundError.
        """
        reply: pb.SegmentRanges = self._call(
            "getCurrentSegments",
            make_stream_info(stream),
            self._stream_purpose(
                "look up the segments of stream", stream, refine=lambda said: _recognize_half_made(said, stream)
            ),
        )
        return decode_ranges(reply.segmentRanges)

    def is_half_made(self, stream: Stream) -> bool:
        """Return whether the controller has not finished creating a stream, because it failed or is still at it.

        All that can be done with such a stream is to delete it, without sealing it. Raises StreamNotFoundError.
        """
        try:
            self.current_segments(stream)
        except HalfMadeStreamError:
            return True
        return False

    def epoch_segments(self, stream: Stream, epoch: int) -> list[SegmentRange]:
        """Return the segments that were current in an epoch. Needs READ_UPDATE."""
        missing = StreamNotFoundError(
            f"there is no stream '{stream.name}' in scope '{stream.scope}', or it has no epoch {epoch}"
        )
        reply: pb.SegmentRanges = self._call(
            "getEpochSegments",
            pb.GetEpochSegmentsRequest(streamInfo=make_stream_info(stream), epoch=epoch),
            self._stream_purpose(
                f"look up the segments of epoch {epoch} of stream", stream, "READ_UPDATE", {"NOT_FOUND": missing}
            ),
        )
        return decode_ranges(reply.segmentRanges)

    def head(self, stream: Stream) -> StreamCut:
        """Return the position before the first event that still exists. Raises StreamNotFoundError."""
        reply: pb.SegmentsAtTime = self._call(
            "getSegments",
            pb.GetSegmentsRequest(streamInfo=make_stream_info(stream), timestamp=0),
            self._stream_purpose("look up the head of stream", stream),
        )
        return StreamCut(stream, {location.segmentId.segmentId: location.offset for location in reply.segments})

    def list_segments_between(self, start: StreamCut, end: StreamCut | None) -> tuple[list[int], str]:
        """Return the ids of all segments with data between two cuts, in no special order, and a token to read them.

        Without an end they go to the end of the stream. A start without positions means the head if there is no end,
        and the very first event ever written otherwise. A start before the head includes truncated segments. Needs
        only READ. Raises StreamNotFoundError, and InvalidOptionError for cuts that do not fit the stream or each other.
        """
        stream = start.stream
        if not start.positions and (end is None or not end.positions):
            # The server does not accept two open ends.
            start = self.head(stream)
        if end is not None and end.stream != stream:
            raise InvalidOptionError(f"the stream cuts belong to different streams, '{stream}' and '{end.stream}'")
        try:
            reply = self._list_segments_between(start, end)
        except (ServerFailedError, StreamNotFoundError) as failure:
            # The server's only answer to cuts that do not fit is UNKNOWN, INTERNAL or NOT_FOUND.
            for cut in (start, end):
                if cut is not None and cut.positions and not self.is_stream_cut_valid(cut):
                    raise InvalidOptionError(
                        f"{cut} is not a position in stream '{stream}': it must name segments of the stream "
                        "that cover the key space once"
                    ) from None
            if end is not None and isinstance(failure, ServerFailedError) and self._is_after(start, end):
                raise InvalidOptionError(f"{start} lies after {end}, so there is nothing between them") from None
            raise
        return [segment.segmentId for segment in reply.segments], reply.delegationToken

    def _list_segments_between(self, start: StreamCut, end: StreamCut | None) -> pb.StreamCutRangeResponse:
        stream = start.stream
        request = pb.StreamCutRange(streamInfo=make_stream_info(stream))
        getattr(request, "from").update(start.positions)
        if end is not None:
            request.to.update(end.positions)
        purpose = self._stream_purpose("look up the segments between two cuts of stream", stream)
        reply: pb.StreamCutRangeResponse = self._call("getSegmentsBetween", request, purpose)
        return reply

    def _is_after(self, start: StreamCut, end: StreamCut) -> bool:
        """Return whether a cut lies after another one, at least in part."""
        common = start.positions.keys() & end.positions.keys()
        if any(start.positions[segment] > end.positions[segment] for segment in common):
            return True
        try:
            self._list_segments_between(end, start)
        except ServerFailedError:
            return False
        return True

    def is_stream_cut_valid(self, cut: StreamCut) -> bool:
        """Return whether a cut's segments are the stream's and cover the keys once; offsets may lie past the tail."""
        stream = cut.stream
        if not cut.positions:
            return False
        purpose = self._stream_purpose("check a stream cut of stream", stream)
        try:
            reply: pb.StreamCutValidityResponse = self._call("isStreamCutValid", make_stream_cut_message(cut), purpose)
        except StreamNotFoundError:
            # The stream or the epoch of a segment was not found; this call fails if it was the stream.
            self.head(stream)
            return False
        except ServerFailedError:
            # The server fails for segments that the stream does not have.
            segment_ids, _ = self.list_segments_between(self.head(stream), None)
            if set(cut.positions) <= set(segment_ids):
                raise
            return False
        return reply.response

    def successors(self, stream: Stream, segment_id: int) -> dict[SegmentRange, list[int]]:
        """Return the segments that replace a sealed one, each with the ids of all its predecessors.

        There are none for a segment that is still open, or was sealed with its stream.
        """
        reply: pb.SuccessorResponse = self._call(
            "getSegmentsImmediatelyFollowing",
            pb.SegmentId(streamInfo=make_stream_info(stream), segmentId=segment_id),
            self._stream_purpose("look up the successors of a segment of stream", stream),
        )
        return {decode_range(entry.segment): list(entry.value) for entry in reply.segments}

    def segment_location(self, stream: Stream, segment_id: int) -> Endpoint:
        """Return the segment store that serves a segment now; the segment may move at any time.

        A store without its own name (0.0.0.0) is taken to be on the controller's host. Raises
        ServerUnavailableError if no store has taken the segment over within the retry time.
        """
        purpose = self._stream_purpose("find the segment store for stream", stream)
        request = pb.SegmentId(streamInfo=make_stream_info(stream), segmentId=segment_id)

        def locate(seconds_left: float) -> Endpoint:
            unserved = f"no segment store serves '{make_segment_name(stream, segment_id)}' now"
            try:
                reply: pb.NodeUri = self._call("getURI", request, purpose)
            except ServerFailedError as error:
                # While no store has the segment's container, ZKHostStore.getHostForContainer fails: INTERNAL.
                raise ServerUnavailableError(f"{unserved}: {error}") from error
            if not reply.endpoint or not 0 < reply.port < 65536:
                raise ServerUnavailableError(unserved)
            host = self._channel.endpoint.host if reply.endpoint in _UNSPECIFIED_HOSTS else reply.endpoint
            return Endpoint(host, reply.port)

        return retry(locate, timeout=self._channel.config.retry_timeout)

    def delegation_token(self, stream: Stream, access: Access) -> str:
        """Return a token to show to segment stores; "" if the server does not check tokens.

        Prefer `DelegationTokens`, which keeps a token while it is valid. Raises PermissionDeniedError.
        """
        purpose = self._stream_purpose(
            "get a token for stream", stream, "READ" if access is Access.READ else "READ_UPDATE"
        )
        table = find_key_value_table(stream)
        if table is not None:
            action = "read" if access is Access.READ else "write to"
            purpose = replace(purpose, action=f"{action} key-value table '{stream.scope}/{table}'")
        reply: pb.DelegationToken = self._call("getDelegationToken", make_stream_info(stream, access), purpose)
        return reply.delegationToken

    def scale_stream(
        self,
        stream: Stream,
        sealed: Sequence[int],
        ranges: Sequence[tuple[float, float]],
        *,
        timeout: float | None = None,
    ) -> None:
        """Replace the segments `sealed` by new ones with the given key ranges, and wait until it is done.

        If that is late, the same scaling is asked for again: the controller goes on with one that it has accepted, and
        refuses one that is done (`submitScale` of PersistentStreamBase.java).

        Raises InvalidOptionError if the new ranges do not cover exactly those of the sealed segments, or a segment is
        not current; StreamNotFoundError; ServerTimeoutError after `timeout` seconds (by default the retry time), in
        which case the scaling may still finish.
        """
        limit = self._channel.config.retry_timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        purpose = self._stream_purpose("scale stream", stream, "READ_UPDATE", idempotent=False)
        request = pb.ScaleRequest(
            streamInfo=make_stream_info(stream),
            sealedSegments=sealed,
            newKeyRanges=[pb.ScaleRequest.KeyRangeEntry(start=start, end=end) for start, end in ranges],
            scaleTimestamp=int(time.time() * 1000),
        )
        started: pb.ScaleResponse = self._call("scale", request, purpose)
        if started.status != pb.ScaleResponse.STARTED:
            # FAILURE stands for wrong ranges and for a sealed stream, PRECONDITION_FAILED for everything else.
            if not self.current_segments(stream):
                raise StreamSealedError(f"stream '{stream}' cannot be scaled: it is sealed")
            raise InvalidOptionError(
                f"stream '{stream}' cannot be scaled: the key ranges {list(ranges)} must cover exactly those of the "
                f"segments {list(sealed)}, which must be current segments of the stream, and leave it with "
                "at least as many segments as its scaling policy wants"
            )
        check = pb.ScaleStatusRequest(streamInfo=make_stream_info(stream), epoch=started.epoch)
        looking = self._stream_purpose("look up the progress of scaling stream", stream)
        pause, reminder = 0.05, Reminder(purpose.action)
        while True:
            state: pb.ScaleStatusResponse = self._call("checkScale", check, looking)
            if state.status == pb.ScaleStatusResponse.SUCCESS:
                return
            if state.status != pb.ScaleStatusResponse.IN_PROGRESS:
                name = pb.ScaleStatusResponse.ScaleStatus.Name(state.status)
                raise ServerFailedError(f"the scaling of stream '{stream}' failed ({name}); see the controller's log")
            if time.monotonic() + pause > deadline:
                raise ServerTimeoutError(
                    f"the scaling of stream '{stream}' was not finished after {limit:g} s; {reminder.explain()}, and "
                    "it may still finish"
                )
            reminder.ask_if_due(lambda: self._call("scale", request, purpose))
            cancellation.sleep(pause)
            pause = min(pause * 1.5, 1.0)
