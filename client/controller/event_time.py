"""Controller calls for event time: what writers note, of which the controller makes the watermarks of a stream."""

from __future__ import annotations

from pyspark_pravega.errors import InvalidOptionError

from ..stream import Stream
from ..stream_cut import StreamCut
from . import controller_pb2 as pb
from .calls import ControllerCalls, stream_not_found
from .messages import stream_cut_message, stream_info


class EventTimeCalls(ControllerCalls):
    """Times of writers."""

    def note_time(self, writer: str, position: StreamCut, time: int) -> None:
        """Promise that what this writer appends after `position` is not older than `time`.

        The controller puts the times of all writers together every 10 seconds or so. `commit_transaction` does the
        same for a transaction, whose end it knows. Raises InvalidOptionError if the writer was further already,
        StreamNotFoundError.
        """
        purpose = self._stream_purpose(f"note a time of writer '{writer}' on stream", position.stream, "READ_UPDATE")
        request = pb.TimestampFromWriter(writer=writer, position=stream_cut_message(position), timestamp=time)
        reply: pb.TimestampResponse = self._call("noteTimestampFromWriter", request, purpose)
        if reply.result in (pb.TimestampResponse.INVALID_TIME, pb.TimestampResponse.INVALID_POSITION):
            raise InvalidOptionError(
                f"cannot {purpose.action}: it has noted a later time or position before "
                f"({pb.TimestampResponse.Status.Name(reply.result)})"
            )
        if reply.result != pb.TimestampResponse.SUCCESS:
            raise self._failed(purpose, pb.TimestampResponse.Status.Name(reply.result))

    def remove_writer(self, writer: str, stream: Stream) -> bool:
        """Take a writer for finished, so that times of others do not wait for it; False if it had noted none.

        The time it noted last still counts once. Raises StreamNotFoundError.
        """
        purpose = self._stream_purpose(f"remove writer '{writer}' from stream", stream, "READ_UPDATE")
        request = pb.RemoveWriterRequest(writer=writer, stream=stream_info(stream))
        reply: pb.RemoveWriterResponse = self._call("removeWriter", request, purpose)
        if reply.result == pb.RemoveWriterResponse.STREAM_DOES_NOT_EXIST:
            raise stream_not_found(stream)
        if reply.result == pb.RemoveWriterResponse.INTERNAL_ERROR:
            raise self._failed(purpose, "INTERNAL_ERROR")
        return reply.result == pb.RemoveWriterResponse.SUCCESS
