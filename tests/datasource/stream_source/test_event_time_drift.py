"""Segments in step by event time: where micro-batches end by the watermarks of real streams."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa
import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.routing import SegmentRouter, hash_keys
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.client.watermarks import find_watermarks_end, read_watermarks
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.stream_source.event_time_drift import EventTimePace, keep_in_step
from pyspark_pravega.datasource.stream_source.frontier import Frontier
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from tests.catalog.streaming.changes_streams import scale
from tests.catalog.tables.test_debezium import write
from tests.datasource.stream_source.queries import Batch, Query
from tests.debezium import Record
from tests.scopes import Sweeper

NOON = 1_700_000_000_000
MINUTE = 60_000
KEYS = 12


@pytest.fixture(scope="module")
def pravega(quick_config: ClientConfig) -> Iterator[Pravega]:
    """A cluster that makes a watermark every second."""
    with connect(quick_config) as connected:
        yield connected


@pytest.fixture
def stream(pravega: Pravega, quick_scope: str) -> Stream:
    """A stream of two segments."""
    stream = Stream(quick_scope, "timed")
    pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=2)))
    return stream


@dataclass(frozen=True)
class TimedStreams:
    """Streams with minutes of events, each with a watermark behind it; `uneven` has keys of its left segment alone.

    `scaled` was split and merged in between. `going` has minutes from 60 on, `stopped` none after the first, although
    an event; `begins` is where these two ended after one minute.
    """

    plain: Stream
    uneven: Stream
    scaled: Stream
    stopped: Stream
    going: Stream
    begins: Mapping[Stream, dict[int, int]]


@pytest.fixture(scope="module")
def timed(pravega: Pravega, quick_config: ClientConfig, _sweeper: Sweeper) -> Iterator[TimedStreams]:
    """The streams are written at the same time, because a watermark takes a second."""
    for scope in _sweeper.scope(quick_config):
        plain, uneven, scaled, stopped, going = streams = [
            Stream(scope, name) for name in ("plain", "uneven", "scaled", "stopped", "going")
        ]
        for stream in streams:
            segments = 1 if stream is stopped else 2
            pravega.controller.create_stream(stream, StreamConfiguration(ScalingPolicy(min_segments=segments)))
        router = SegmentRouter(pravega.controller.current_segments(uneven))
        places = router.places(hash_keys(pa.array([f"key-{key}" for key in range(KEYS)])))
        left = [key for key in range(KEYS) if router.segment_ids[places[key]] == 0]
        assert 0 < len(left) < KEYS
        write_minutes(pravega, {plain: 1, uneven: 1, scaled: 1, stopped: 1, going: 60})
        begins = {stream: dict(measure_tail(pravega, stream).positions) for stream in (stopped, going)}
        write(pravega, stopped, [Record("key", b"1:0")])
        scale(pravega, scaled, 0)
        for minute in range(2, 7):
            still = {uneven: minute, going: 59 + minute} if minute < 6 else {}
            write_minutes(pravega, {plain: minute, scaled: minute, **still}, {uneven: left})
            scale(pravega, scaled, minute - 1)
        yield TimedStreams(plain, uneven, scaled, stopped, going, begins)


def write_minutes(
    pravega: Pravega, minutes: Mapping[Stream, int], keys: Mapping[Stream, Iterable[int]] | None = None
) -> None:
    """Write a minute to each stream, an event for each key, and wait for its watermark behind them.

    A time is noted for the end of a stream as often as a server forgets it.
    """
    for stream, minute in minutes.items():
        some = (keys or {}).get(stream, range(KEYS))
        write(pravega, stream, [Record(f"key-{key}", b"%d:%d" % (minute, key)) for key in some])
    left = {stream: NOON + minute * MINUTE for stream, minute in minutes.items()}
    deadline = time.monotonic() + 60
    while left := {stream: noted for stream, noted in left.items() if noted not in times(pravega, stream)}:
        assert time.monotonic() < deadline
        for stream, noted in left.items():
            pravega.controller.note_time("writer", measure_tail(pravega, stream), noted)
        time.sleep(0.2)


def times(pravega: Pravega, stream: Stream) -> list[int]:
    return [mark.time for _, mark in read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))]


def minutes(batch: Batch) -> dict[int, list[int]]:
    """The minutes of a batch's events, by segment."""
    return {
        segment: sorted({int(event.partition(b":")[0]) for event in events}) for segment, events in batch.events.items()
    }


def read(query: Query, since: StreamCut | None = None) -> list[Batch]:
    """All micro-batches; each is planned by a service that knows nothing, and again with the same ends."""
    at = query.start()
    if since is not None:
        at = replace(at, cut=since, begin=since.positions)
    found: list[Batch] = []
    while True:
        query = replace(query, memory=SourceMemory())
        batch = query.next(at)
        if batch is None:
            return found
        assert batch.count and query.batch(at, batch.end) == batch
        found.append(batch)
        at = batch.end


def drifting(pravega: Pravega, stream: Stream, drift: str = "2 minutes", **more: str) -> Query:
    return Query(pravega, stream, {"max-event-time-drift": drift, **more})


def shown(batches: Iterable[Batch]) -> list[Mapping[int, list[int]]]:
    return [minutes(batch) for batch in batches]


def test_segments_are_read_in_step(pravega: Pravega, timed: TimedStreams) -> None:
    """Whatever else bounds a micro-batch: no event lies beyond the first watermark behind the drift."""
    stream = timed.plain
    begin, cut = Query(pravega, stream).start().cut, None
    for _, mark in read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream)):
        if mark.time == NOON + 4 * MINUTE:
            cut = mark.positions
    assert cut is not None
    write(pravega, stream, [Record(f"key-{key}", b"9:%d" % key) for key in range(KEYS)])  # no watermark behind them
    both = [[1], [2, 3, 4], [5, 6, 9]]
    assert shown(read(drifting(pravega, stream))) == [{0: each, 1: each} for each in both]
    query = drifting(pravega, stream)
    assert shown(query.batches()) == [{0: each, 1: each} for each in both], "one service for all micro-batches"
    # One segment is four minutes ahead and waits for the other one.
    ahead = StreamCut(stream, {0: begin.positions[0], 1: cut[1]})
    alone = [{0: [1]}, {0: [2, 3, 4]}, {0: [5, 6, 9], 1: [5, 6, 9]}]
    assert shown(read(drifting(pravega, stream), ahead)) == alone
    assert shown(read(drifting(pravega, stream, "1 hour"), ahead))[1:] == [{0: [2, 3, 4, 5, 6, 9], 1: [5, 6, 9]}], (
        "events before the first watermark may be of any time"
    )
    assert shown(read(drifting(pravega, stream, "1ms"), ahead)) == [
        {0: [1]}, {0: [2]}, {0: [3]}, {0: [4]}, {0: [5], 1: [5]}, {0: [6], 1: [6]}, {0: [9], 1: [9]}
    ]  # fmt: skip
    assert shown(read(Query(pravega, stream), ahead)) == [{0: [1, 2, 3, 4, 5, 6, 9], 1: [5, 6, 9]}]
    few = read(drifting(pravega, stream, maxRowsPerTrigger="3"), ahead)
    assert max(batch.count for batch in few) == 3
    assert sum(batch.count for batch in few) == sum(batch.count for batch in read(Query(pravega, stream), ahead))
    first = next(number for number, batch in enumerate(few) if 1 in batch.events)
    assert {minute for batch in few[:first] for minute in minutes(batch)[0]} >= {1, 2}


def test_a_segment_without_unread_events_holds_nothing_back(pravega: Pravega, timed: TimedStreams) -> None:
    stream = timed.uneven
    query = drifting(pravega, stream, "1 minute")
    batches = list(query.batches())
    assert shown(batches) == [{0: [1], 1: [1]}, {0: [2, 3]}, {0: [4, 5]}]
    write(pravega, stream, [Record(f"key-{key}", b"6:%d" % key) for key in range(KEYS)])
    assert shown(query.batches(batches[-1].end)) == [{0: [6], 1: [6]}]


def test_a_stream_whose_watermarks_have_stopped_holds_no_other_back(pravega: Pravega, timed: TimedStreams) -> None:
    """It is far behind in event time for ever, and gets events all the same."""
    stream, begins = timed.going, timed.begins
    ends = {each: dict(measure_tail(pravega, each).positions) for each in begins}
    looks = {each: EventTimePace().look(pravega, each, Frontier(begins[each], ends[each])) for each in begins}
    found = keep_in_step(looks, timedelta(minutes=2))
    assert found.keys() == {stream}
    assert all(begins[stream][segment] < end < ends[stream][segment] for segment, end in found[stream].items())


def test_splits_and_merges(pravega: Pravega, timed: TimedStreams) -> None:
    """Every event comes once, those of a key in their order, and no micro-batch is empty."""
    stream = timed.scaled
    for drift in ("1ms", "1 minute", "3 minutes"):
        for batches in (read(drifting(pravega, stream, drift)), list(drifting(pravega, stream, drift).batches())):
            found: dict[int, list[int]] = {}
            for batch in batches:
                assert batch.count
                for segment in sorted(batch.events):
                    for event in batch.events[segment]:
                        minute, key = map(int, event.split(b":"))
                        found.setdefault(key, []).append(minute)
            assert found == {key: list(range(1, 7)) for key in range(KEYS)}


def test_times_that_no_writer_has_noted(pravega: Pravega, stream: Stream) -> None:
    """Nothing is bounded then; a catalog refuses the option."""
    write(pravega, stream, [Record(f"key-{key}", b"1:%d" % key) for key in range(KEYS)])
    assert shown(read(drifting(pravega, stream))) == [{0: [1], 1: [1]}]
