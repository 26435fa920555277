"""Watermarks: what precedes which byte of which segment, and what the controller makes of the times of commits."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration, make_segment_id
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks

LEFT, RIGHT, MERGED = 0, 1, make_segment_id(2, 1)
NEW_LEFT, NEW_RIGHT = make_segment_id(3, 2), make_segment_id(4, 2)


def test_what_precedes_a_byte_of_the_same_segment() -> None:
    mark = Watermark(7, 7, {LEFT: 10, RIGHT: 0}, {LEFT: (0.0, 0.5), RIGHT: (0.5, 1.0)})
    assert [mark.is_before(LEFT, offset) for offset in (0, 9, 10, 11)] == [False, False, True, True]
    assert mark.is_before(RIGHT, 0)
    assert mark.is_before(MERGED, 0) and mark.is_before(NEW_LEFT, 0)


def test_a_predecessor_is_not_preceded_and_another_part_of_the_keys_does_not_count() -> None:
    mark = Watermark(7, 7, {LEFT: 10, NEW_RIGHT: 3}, {LEFT: (0.0, 0.5), NEW_RIGHT: (0.5, 1.0)})
    assert not mark.is_before(RIGHT, 1 << 40) and not mark.is_before(RIGHT, 1 << 40, (0.5, 1.0))
    assert not mark.is_before(MERGED, 1 << 40) and not mark.is_before(MERGED, 1 << 40, (0.0, 1.0))
    # A successor of LEFT alone, older than NEW_RIGHT: only its part of the keys shows that it is later.
    assert not mark.is_before(MERGED, 0) and mark.is_before(MERGED, 0, (0.0, 0.5))


def test_a_reader_may_read_them(secure_client_config: Callable[..., ClientConfig], secure_scope: str) -> None:
    stream = Stream(secure_scope, "timed")
    with connect(secure_client_config()) as admin:
        admin.controller.create_stream(stream, StreamConfiguration())
        transaction = Transaction.begin(admin.controller, stream, 30_000)
        transaction.commit(event_time=("writer", 1234))
        with connect(secure_client_config("reader")) as reader:
            deadline = time.monotonic() + 60
            while (end := find_watermarks_end(reader, stream)) == 0 and time.monotonic() < deadline:
                time.sleep(0.2)
            ((_, mark),) = read_watermarks(reader, stream, 0, end)
    assert mark.time == 1234


@pytest.fixture
def quick(quick_config: ClientConfig) -> Iterator[Pravega]:
    with connect(quick_config) as connected:
        yield connected


def test_the_controller_makes_watermarks_of_the_times_of_commits(quick: Pravega, quick_scope: str) -> None:
    pravega, stream = quick, Stream(quick_scope, "timed")
    pravega.controller.create_stream(stream, StreamConfiguration(scaling=ScalingPolicy(min_segments=2)))
    assert find_watermarks_end(pravega, stream) == 0 and list(read_watermarks(pravega, stream, 0, 0)) == []
    assert find_watermarks_end(pravega, Stream(quick_scope, "without")) == 0
    transaction = Transaction.begin(pravega.controller, stream, 30_000)
    first, second = sorted(segment.segment_id for segment in transaction.segments)
    for segment in (first, second):
        with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4(), transaction.id) as appender:
            appender.append(frame(pa.array([b"event"] * (segment + 1))), segment + 1)
            appender.flush()
    transaction.commit(event_time=("writer", 1234))
    assert pravega.controller.remove_writer("writer", stream)
    assert not pravega.controller.remove_writer("another", stream)
    deadline = time.monotonic() + 60
    while (end := find_watermarks_end(pravega, stream)) == 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    ((at, mark),) = read_watermarks(pravega, stream, 0, end)
    assert at == end
    assert mark == Watermark(1234, 1234, {first: 13, second: 26}, {first: (0.0, 0.5), second: (0.5, 1.0)})
