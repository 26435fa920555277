"""Events that the commit log counts: as many as there are, and none where anything else may be in the stream."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pyarrow as pa

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.key_value.key_value_table import ANY
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME, make_row_key
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.scan.borders import count_events_by_log
from tests.datasource.scans import rows, scan
from tests.datasource.transactions import EVENT_BYTES, begin_insert, insert_into_all, raw_table


def count_by_log(pravega: Pravega, stream: Stream) -> int | None:
    """What the log says, which is also what a scan finds."""
    planned = scan(pravega, raw_table(stream), ["event"])
    number = count_events_by_log(pravega, stream, planned)
    assert number is None or number == len(rows(planned))
    return number


def append(pravega: Pravega, stream: Stream, segment: int, *payloads: bytes) -> None:
    """Append events as other programs do."""
    with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
        appender.append(frame(pa.array(payloads, pa.binary())), len(payloads))
        appender.flush()


def test_all_that_was_committed(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(3)
    assert count_by_log(pravega, stream) is None  # there is no log
    for number in (1, 2, 3):
        insert_into_all(pravega, stream, 3, rows=number)
    assert count_by_log(pravega, stream) == 18
    # One whose driver died before it was entered, and that another process commits.
    left, _ = begin_insert(pravega, stream, [b"left"] * 4)
    ids = [segment.segment_id for segment in left.transaction.segments]
    pravega.segments.seal_segments(stream, ids, left.transaction.id)
    left.publish(4, CommitRequest("STREAM", again=True, log=CommitLog(pravega, stream)))
    assert count_by_log(pravega, stream) == 22
    # What is entered, and what is committed and not published, is not in the count of all versions.
    insert, _ = begin_insert(pravega, stream, [b"x"] * 5)
    log = CommitLog(pravega, stream)
    assert log.enter(insert.transaction.id, rows=5, operation="TEST")
    assert count_by_log(pravega, stream) == 22
    insert.transaction.commit(60)
    assert count_by_log(pravega, stream) is None
    log.publish(insert.transaction.id, lambda: measure_tail(pravega, stream))
    assert count_by_log(pravega, stream) is None  # who entered it did not tell what it holds
    assert scan(pravega, raw_table(stream), start_stream_cut=measure_tail(pravega, stream).to_text()).head is None


def test_nothing_else_is_taken_for_it(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """Bytes of others may be as many as those of a transaction that is gone, or is not measured."""
    stream = new_stream(2)
    insert_into_all(pravega, stream, 2)
    assert count_by_log(pravega, stream) == 2
    segments = pravega.controller.current_segments(stream)
    low, high = (segment.segment_id for segment in sorted(segments, key=lambda segment: segment.min_key))
    append(pravega, stream, high, b"", b"", b"", b"")
    assert count_by_log(pravega, stream) is None
    # The events of the low segment are removed, and the four others have as many bytes as they had.
    assert EVENT_BYTES == 4 * 8
    pravega.controller.truncate_stream(StreamCut(stream, {low: EVENT_BYTES, high: 0}))
    assert len(rows(scan(pravega, raw_table(stream), ["event"]))) == 5 and count_by_log(pravega, stream) is None
    pravega.controller.scale_stream(stream, [low], [(0, 0.25), (0.25, 0.5)])
    successors = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
    pravega.controller.truncate_stream(StreamCut(stream, dict.fromkeys(successors, 0)))
    assert len(rows(scan(pravega, raw_table(stream), ["event"]))) == 5 and count_by_log(pravega, stream) is None


def test_rows_of_older_releases(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """They tell no content, and what they leave out is never taken for nothing."""
    stream = new_stream(1)
    insert_into_all(pravega, stream, 1)
    assert count_by_log(pravega, stream) == 1
    table = pravega.key_value_table(stream.scope, TABLE_NAME)
    entry = table.get(make_row_key(stream, 0))
    assert entry is not None
    head = {name: value for name, value in json.loads(entry.value).items() if name != "content"}
    table.put(make_row_key(stream, 0), json.dumps(head).encode(), ANY)
    assert count_by_log(pravega, stream) is None
    insert_into_all(pravega, stream, 1)
    assert count_by_log(pravega, stream) is None
