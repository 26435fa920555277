"""Counts the events of a stream without reading them, where the commit log proves how many there are.

Each INSERT tells the log how many events its transaction holds, and how many bytes they take. Where those of all
versions together have as many bytes as the stream, nothing else is in it: they are its events. What others append makes
the stream longer than that, and then its events are read to count them.
"""

from __future__ import annotations

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import PermissionDeniedError

from .planned_scan import PlannedScan


def events_by_log(pravega: Pravega, stream: Stream, planned: PlannedScan) -> int | None:
    """Return how many rows a scan has, None where the commit log does not prove it.

    All versions that the head row of the scan tells of were visible before the stream was measured, so that their
    bytes are among those measured. This holds as long as none was taken away, by scaling or truncation.
    """
    head = planned.head
    if head is None or head.content is None or head.content.bytes != sum(planned.tail.values()):
        return None
    try:
        origin = pravega.known_streams.origin_if_whole(stream)
    except PermissionDeniedError:
        return None
    return head.content.events if origin is not None and origin == head.origin else None
