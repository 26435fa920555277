"""Append JSON events at a rate, beside a measured query: `python -m bench.feeder SCOPE STREAM RATE SECONDS`.

Every event has `id`, `sent` (milliseconds since 1970 when it was given to the segment store), `temp` and `note`: about
100 bytes. Events go to all segments in turns, by plain appends. The last line of its output is the number of events.
"""

from __future__ import annotations

import os
import sys
import time
import uuid

import pyarrow as pa

from bench.servers import open_cluster
from pyspark_pravega.client import connect
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import Stream

STEP = 0.002
"""Least seconds from one append to the next."""

_STAMP = b"1000000000000"


def make_block(count: int) -> bytes:
    """Return framed events whose `sent` is still to be filled in."""
    events = [b'{"id":%9d,"sent":%s,"temp":%5.1f,"note":"%s"}' % (n, _STAMP, n % 100, b"x" * 44) for n in range(count)]
    return bytes(memoryview(frame(pa.array(events, pa.binary()))))


def main() -> None:
    """Append until the time is over."""
    scope, name, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    with open_cluster() as config, connect(config) as pravega:
        stream = Stream(scope, name)
        segments = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        appenders = [SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) for segment in segments]
        blocks: dict[int, bytes] = {}
        sent = turn = 0
        begin = time.time()
        while (now := time.time()) < begin + seconds:
            due = min(int((now - begin) * rate) - sent, 10_000)
            if due > 0:
                if due not in blocks:
                    blocks[due] = make_block(due)
                data = blocks[due].replace(_STAMP, b"%d" % (now * 1000))
                appenders[turn].append(data, due)
                turn = (turn + 1) % len(appenders)
                sent += due
            time.sleep(max(STEP - (time.time() - now), 0))
        for appender in appenders:
            appender.flush()
            appender.close()
    print(sent)


if __name__ == "__main__":
    main()
