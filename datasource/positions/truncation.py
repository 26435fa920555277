"""Truncates a stream where it ends, beside INSERTs and other programs."""

from __future__ import annotations

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import InvalidOptionError

from ..commit_log.commit_log import CommitLog
from .snapshot import measure_tail

_TRIES = 5


def truncate_at_end(pravega: Pravega, stream: Stream) -> None:
    """Remove all events that a stream has now; a commit at the same time is removed or kept as a whole.

    Raises StreamSealedError, StreamNotFoundError, PermissionDeniedError.
    """
    controller, log = pravega.controller, CommitLog(pravega, stream)
    for tries in range(1, _TRIES + 1):
        # The server accepts any offsets. These are the ends of segments, which never lie within an event: the server
        # appends and merges whole events. Nor do they divide a transaction.
        cut: StreamCut = log.measure_settled(lambda version: version or measure_tail(pravega, stream))
        head = controller.head(stream)
        if cut == head:
            return
        try:
            controller.truncate_stream(cut)
            return
        except InvalidOptionError:
            # Retention or another program truncates at the same time, perhaps behind the cut.
            if tries == _TRIES or controller.head(stream) == head:
                raise
