"""Micro-batches: all events once, in the order of their keys, within limits, whatever becomes of segments."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.stream_source.admission import NO_LIMITS
from pyspark_pravega.datasource.stream_source.frontier import StreamSegments
from pyspark_pravega.datasource.stream_source.memory import Admission, QueryMemory
from pyspark_pravega.errors import CheckpointError, DataLossError, InvalidOptionError, StreamNotFoundError
from tests.catalog.streaming.changes_streams import scale
from tests.catalog.tables.test_debezium import create_stream, write
from tests.datasource.stream_source.queries import Batch, Query
from tests.datasource.transactions import EVENT_BYTES, insert_into_all
from tests.debezium import Record

NewStream = Callable[..., Stream]


def events(numbers: Iterable[int], keys: int = 20, size: int = 0) -> list[Record]:
    return [Record(f"key-{number % keys}", b"%d:%d;" % (number % keys, number) + bytes(size)) for number in numbers]


def numbers_by_key(batches: Iterable[Batch]) -> dict[int, list[int]]:
    """The numbers of events for each key, in the order of the batches; segments of one batch by their ids."""
    found: dict[int, list[int]] = {}
    for batch in batches:
        for segment in sorted(batch.events):
            for event in batch.events[segment]:
                key, number = map(int, event.partition(b";")[0].split(b":"))
                found.setdefault(key, []).append(number)
    return found


def in_order(count: int, keys: int = 20) -> dict[int, list[int]]:
    return {key: list(range(key, count, keys)) for key in range(min(keys, count))}


@pytest.mark.parametrize(("rows", "size"), [(23, 290), pytest.param(7, 90, marks=pytest.mark.long)])
def test_splits_and_merges_between_events(pravega: Pravega, new_stream: NewStream, rows: int, size: int) -> None:
    """All scaling has happened before the query reads: batch after batch follows the segments."""
    stream = new_stream(2)
    start = Query(pravega, stream).start()
    for number in range(6):
        write(pravega, stream, events(range(number * 40, number * 40 + 40)))
        scale(pravega, stream, number)
    for options in ({}, {"maxRowsPerTrigger": str(rows)}, {"maxBytesPerTrigger": str(size)}):
        batches = list(Query(pravega, stream, options).batches(start))
        assert numbers_by_key(batches) == in_order(240)
        assert all(batch.count for batch in batches)
        if "maxRowsPerTrigger" in options:
            assert max(batch.count for batch in batches) == rows
        if "maxBytesPerTrigger" in options:
            assert size - 30 < max(batch.bytes for batch in batches) <= size


@pytest.mark.parametrize(("events_at_least", "scaled"), [(300, 3), pytest.param(800, 6, marks=pytest.mark.long)])
def test_splits_and_merges_while_reading(
    pravega: Pravega, new_stream: NewStream, events_at_least: int, scaled: int
) -> None:
    """Between any two batches there may be events, a scaling, or another driver that goes on from the checkpoint."""
    chance = random.Random(7)
    stream, written, scalings = new_stream(2), 0, 0
    query = Query(pravega, stream, {"maxRowsPerTrigger": "25"})
    since, batches = query.start(), []
    while written < events_at_least or scalings < scaled:
        for _ in range(chance.randrange(3)):
            write(pravega, stream, events(range(written, written + 20)))
            written += 20
        if chance.random() < 0.4:
            scale(pravega, stream, scalings)
            scalings += 1
        if chance.random() < 0.2:
            query = Query(pravega, stream, query.options)
        batch = query.next(since)
        if batch is not None:
            assert query.batch(since, batch.end) == batch  # a batch that is done again has the same events
            since = batch.end
            batches.append(batch)
    batches += query.batches(since)
    assert numbers_by_key(batches) == in_order(written)


@pytest.mark.parametrize("options", [{}, pytest.param({"maxRowsPerTrigger": "7"}, marks=pytest.mark.long)])
def test_segments_that_began_and_ended_between_batches(
    pravega: Pravega, new_stream: NewStream, options: dict[str, str]
) -> None:
    """Those before them had been read, so that no offset names them."""
    stream = new_stream(2)
    write(pravega, stream, events(range(40)))
    query = Query(pravega, stream, options)
    batches = list(query.batches())
    for number in range(40, 160, 40):
        for segment in pravega.controller.current_segments(stream):
            half = (segment.min_key + segment.max_key) / 2
            halves = [(segment.min_key, half), (half, segment.max_key)]
            pravega.controller.scale_stream(stream, [segment.segment_id], halves)
        write(pravega, stream, events(range(number, number + 40)))
    batches += query.batches(batches[-1].end)
    assert numbers_by_key(batches) == in_order(160)


def test_successors_wait_for_all_that_were_merged(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    scale(pravega, stream, 0)
    write(pravega, stream, events(range(300)))
    merged = {segment.segment_id for segment in pravega.controller.current_segments(stream) if segment.min_key > 0}
    scale(pravega, stream, 1)  # a merge
    [successor] = {
        segment.segment_id for segment in pravega.controller.current_segments(stream) if segment.max_key == 1
    }
    write(pravega, stream, events(range(300, 340)))
    batches = list(Query(pravega, stream, {"maxRowsPerTrigger": "60"}).batches())
    assert numbers_by_key(batches) == in_order(340)
    first = next(number for number, batch in enumerate(batches) if successor in batch.events)
    assert first > 1
    assert all(merged.isdisjoint(batch.events) for batch in batches[first:])


def test_limits_are_fair_between_segments(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(4)
    write(pravega, stream, events(range(4000), keys=400))
    whole = {segment: len(event) for segment, event in next(Query(pravega, stream).batches()).events.items()}
    for number, batch in enumerate(Query(pravega, stream, {"maxRowsPerTrigger": "400"}).batches()):
        assert batch.count <= 400
        if number < 8:
            shares = {segment: len(batch.events[segment]) / count for segment, count in whole.items()}
            assert min(shares.values()) > 0.5 * max(shares.values())


def test_a_limit_smaller_than_an_event(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    write(pravega, stream, events(range(6), size=3000))
    batches = list(Query(pravega, stream, {"maxBytesPerTrigger": "1"}).batches())
    assert [batch.count for batch in batches] == [1] * 6
    assert numbers_by_key(batches) == in_order(6)


def test_what_is_available_now_does_not_grow(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    write(pravega, stream, events(range(100)))
    scale(pravega, stream, 0)
    write(pravega, stream, events(range(100, 200)))
    query = Query(pravega, stream, {"maxRowsPerTrigger": "30"})
    last = query.read()[1].last()
    write(pravega, stream, events(range(200, 300)))
    scale(pravega, stream, 1)
    write(pravega, stream, events(range(300, 400)))
    batches, since = [], query.start()
    while (batch := query.next(since, last)) is not None:
        batches.append(batch)
        since = batch.end
    assert numbers_by_key(batches) == in_order(200)
    assert numbers_by_key([*batches, *query.batches(since)]) == in_order(400)


def test_too_few_rows_are_waited_for(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    write(pravega, stream, events(range(10)))
    query = Query(pravega, stream, {"minRowsPerTrigger": "50", "maxTriggerDelay": "1h"})
    first = query.next(query.start())
    assert first is not None
    assert first.count == 10  # the first is not waited for
    write(pravega, stream, events(range(10, 40)))
    assert query.next(first.end) is None
    write(pravega, stream, events(range(40, 60)))
    second = query.next(first.end)
    assert second is not None
    assert second.count == 50
    write(pravega, stream, events(range(60, 70)))
    query.options = {"minRowsPerTrigger": "50", "maxTriggerDelay": "1ms"}
    third = query.next(second.end)
    assert third is not None
    assert third.count == 10


def test_a_sealed_stream(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    write(pravega, stream, events(range(10)))
    scale(pravega, stream, 0)
    write(pravega, stream, events(range(10, 20)))
    pravega.controller.seal_stream(stream)
    query = Query(pravega, stream)
    batches = list(query.batches())
    assert numbers_by_key(batches) == in_order(20)
    assert Query(pravega, stream, {"start-stream-cut": "latest"}).start().cut == batches[-1].end.cut


def test_an_end_that_the_checkpoint_has_passed(pravega: Pravega, new_stream: NewStream) -> None:
    """It ends the query, in whatever epochs the segments of either lie; the same ends are kept to from before them."""
    stream = new_stream(2)
    start = Query(pravega, stream).start()
    for number in range(5):
        write(pravega, stream, events(range(number * 40, number * 40 + 40)))
        scale(pravega, stream, number)
    batches = list(Query(pravega, stream, {"maxRowsPerTrigger": "18"}).batches(start))
    offsets = [start, *(batch.end for batch in batches)]
    for index in range(5, len(offsets), 5):
        query = Query(pravega, stream, {"end-stream-cut": offsets[index].cut.to_text()})
        for since in offsets[index::4]:
            assert query.end(since).offset is since
        assert sum(batch.count for batch in query.batches(start)) == sum(batch.count for batch in batches[:index])
    pravega.controller.truncate_stream(offsets[-1].cut)  # behind the end nothing is missed
    assert Query(pravega, stream, {"end-stream-cut": offsets[9].cut.to_text()}).next(offsets[9]) is None
    reversed_ends = {"start-stream-cut": offsets[4].cut.to_text(), "end-stream-cut": offsets[3].cut.to_text()}
    with pytest.raises(InvalidOptionError, match="start and the end of the read contradict .* lies after"):
        Query(pravega, stream, reversed_ends).start()


def test_what_retention_removed(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    query = Query(pravega, stream)
    start = query.start()
    write(pravega, stream, events(range(100)))
    first = query.next(start)
    assert first is not None
    scale(pravega, stream, 0)
    write(pravega, stream, events(range(100, 200)))
    middle = query.read()[1].last()
    write(pravega, stream, events(range(200, 300)))
    pravega.controller.truncate_stream(middle.cut)
    rest = Query(pravega, stream, {"fail-on-data-loss": "false"})
    for begin in (start, first.end):
        for strict in (query, Query(pravega, stream)):
            with pytest.raises(DataLossError, match=r"[Bb]ytes .* of segment .* were removed before"):
                strict.next(begin)
        assert sum(batch.count for batch in rest.batches(begin)) == 100
    with pytest.raises(DataLossError, match="were removed before"):
        query.batch(start, first.end)
    assert rest.batch(start, first.end).count == 0
    assert sum(batch.count for batch in query.batches(middle)) == 100


def test_retention_removes_a_segment_that_was_read_to_its_end(pravega: Pravega, new_stream: NewStream) -> None:
    """It is no loss to a query that has seen the segment sealed; one that has not cannot know where that ended."""
    stream = new_stream(1)
    running, again = Query(pravega, stream), Query(pravega, stream)
    write(pravega, stream, events(range(50)))
    first = running.next(running.start())
    assert first is not None
    assert again.next(first.end) is None
    scale(pravega, stream, 0)
    assert running.next(first.end) is None
    head = running.read()[1].last()
    write(pravega, stream, events(range(50, 100)))
    second = running.end(first.end).offset
    pravega.controller.truncate_stream(head.cut)
    assert sum(batch.count for batch in running.batches(first.end)) == 50
    assert running.batch(first.end, second).count == 50
    there_may_be_none = "to the end of segment 0 of .* were removed .* so nothing may have been lost. Start the query"
    with pytest.raises(DataLossError, match=there_may_be_none):
        again.next(first.end)
    with pytest.raises(DataLossError, match=there_may_be_none):
        again.batch(first.end, second)
    rest = Query(pravega, stream, {"fail-on-data-loss": "false"})
    assert sum(batch.count for batch in rest.batches(first.end)) == 50


def test_what_is_removed_between_planning_and_reading(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(1)
    write(pravega, stream, events(range(10)))
    query = Query(pravega, stream)
    start = query.start()
    [piece] = query.read()[1].slices(start, query.end(start).offset)
    write(pravega, stream, events(range(10, 11)))
    middle = piece.start + 8 + len(b"0:0;")
    pravega.controller.truncate_stream(StreamCut(stream, {piece.segment_id: middle}))
    with pytest.raises(DataLossError, match=f"bytes 0 to {middle} of segment .* were removed by truncation"):
        list(SegmentRangeReader(pravega.segments, stream, piece.segment_id, piece.start, piece.end))
    rest = SegmentRangeReader(
        pravega.segments, stream, piece.segment_id, piece.start, piece.end, fail_on_data_loss=False
    )
    assert sum(len(window.starts) for window in rest) == 9


@pytest.mark.parametrize(
    ("end", "strict"),
    [
        *((end, "true") for end in ("none", "available now", "by option")),
        ("none", "false"),
        *(pytest.param(end, "false", marks=pytest.mark.long) for end in ("available now", "by option")),
    ],
)
def test_a_stream_that_is_dropped_or_made_again(pravega: Pravega, new_stream: NewStream, end: str, strict: str) -> None:
    """It is not taken for one that has lost events, whether the query has an end or not."""
    stream = new_stream(2)
    write(pravega, stream, events(range(10)))
    last = Query(pravega, stream).read()[1].last()
    options = {"fail-on-data-loss": strict} | ({"end-stream-cut": last.cut.to_text()} if end == "by option" else {})
    query = Query(pravega, stream, options, identity=f"{stream}/0")
    since = query.start()
    _, reading = query.read()
    pravega.controller.seal_stream(stream)
    pravega.controller.delete_stream(stream)
    with pytest.raises(StreamNotFoundError, match="there is no stream|has been dropped"):
        reading.end(since, last if end == "available now" else None, NO_LIMITS, QueryMemory())
    new_stream(2)
    with pytest.raises(CheckpointError, match="was dropped and recreated"):
        query.end(since, last if end == "available now" else None)
    with pytest.raises(CheckpointError, match="was dropped and recreated"):
        query.batch(since, last)


def test_how_far_a_query_is_behind(pravega: Pravega, new_stream: NewStream) -> None:
    stream = new_stream(2)
    query = Query(pravega, stream, {"maxRowsPerTrigger": "100"})
    since, behind = query.start(), []
    write(pravega, stream, events(range(10, 80), keys=80))
    scale(pravega, stream, 0)
    write(pravega, stream, events(range(10, 80), keys=80))
    total = 140 * (8 + len(b"10:10;"))
    while (end := query.end(since)).offset is not since:
        total -= query.batch(since, end.offset).bytes
        assert end.metrics["bytesBehind"] == str(total)
        assert end.metrics["estimatedEventsBehind"] == str(total // 14)
        each = [int(value) for key, value in end.metrics.items() if key.startswith("bytesBehind.")]
        assert sum(each) == total
        since = end.offset
        behind.append(total)
    assert len(behind) > 2
    assert behind[-1] == 0
    assert end.metrics["bytesBehind"] == end.metrics["secondsBehind"] == "0"
    assert "lostBytes" not in end.metrics


def test_the_age_of_versions_in_segments_that_are_not_reached(pravega: Pravega, new_stream: NewStream) -> None:
    """The offset has segments of a later epoch than those of the oldest unread version."""
    stream = new_stream(2)
    insert_into_all(pravega, stream, 2)
    after_first = {0: EVENT_BYTES}
    write(pravega, stream, events(range(40)))
    pravega.controller.scale_stream(stream, [0], [(0, 0.25), (0.25, 0.5)])
    insert_into_all(pravega, stream, 3)
    scaled = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
    pravega.controller.scale_stream(stream, [1], [(0.5, 0.75), (0.75, 1)])
    insert_into_all(pravega, stream, 4)
    later = {segment.segment_id: 0 for segment in pravega.controller.current_segments(stream)}
    newest = {segment: 0 for segment in later if segment not in scaled}
    query = Query(pravega, stream, {"maxRowsPerTrigger": "1"})
    since = query.read()[1].offset({**after_first, **newest})
    end = query.end(since)
    assert 0 in end.offset.cut.positions
    assert query.memory.query("checkpoint").unread_version == 2
    assert float(end.metrics["secondsBehind"]) >= 0


@pytest.mark.parametrize("rounds", [6, pytest.param(12, marks=pytest.mark.long)])
def test_what_is_known_of_segments_stays_small(pravega: Pravega, new_stream: NewStream, rounds: int) -> None:
    """Although they come and go; a query that is far behind reads them all the same."""
    stream, kept = new_stream(2), 4
    segments = StreamSegments(pravega, stream, kept)
    query = Query(pravega, stream, {"maxRowsPerTrigger": "30"})
    query.memory.segments = lambda *_: segments  # type: ignore[method-assign]
    first = since = query.start()
    batches = []
    for number in range(rounds):
        write(pravega, stream, events(range(number * 20, number * 20 + 20)))
        scale(pravega, stream, number)
        for batch in query.batches(since):
            batches.append(batch)
            since = batch.end
    assert numbers_by_key(batches) == in_order(20 * rounds)
    assert numbers_by_key(query.batches(first)) == in_order(20 * rounds)
    assert [len(memory.items()) for memory in (segments._ends, segments._successors)] == [kept, kept]


def test_a_query_that_is_behind_fetches_ahead(pravega: Pravega, new_stream: NewStream) -> None:
    """The next micro-batch is as found ahead, whatever has come since; what failed ahead is done again."""
    stream = new_stream(2)
    write(pravega, stream, events(range(400)))
    query = Query(pravega, stream, {"maxRowsPerTrigger": "50"})
    first = query.next(query.start())
    assert first is not None
    ahead = query.memory.query("checkpoint").ahead
    begun = ahead._begun
    assert begun is not None
    expected = begun[1]()
    write(pravega, stream, events(range(400, 800)))
    second = query.end(first.end)
    assert second.offset.cut.positions == expected.ends
    assert int(second.metrics["bytesBehind"]) > 400 * 12

    def fail() -> Admission:
        raise OSError("the server is away")

    ahead.begin(begun[0], fail)
    assert query.next(first.end) is not None
    batches = [first, *query.batches(first.end)]
    assert numbers_by_key(batches) == in_order(800)
    assert 40 < max(batch.count for batch in batches) <= 50


@pytest.mark.parametrize("user", ["reader", "no-tables"])
def test_rights_to_read_are_enough(
    secure_client_config: Callable[..., ClientConfig], secure_scope: str, user: str
) -> None:
    stream = Stream(secure_scope, "stream")
    with connect(secure_client_config()) as admin, connect(secure_client_config(user)) as pravega:
        create_stream(admin, stream, 2)
        start = Query(pravega, stream).start()
        write(admin, stream, events(range(50)))
        scale(admin, stream, 0)
        write(admin, stream, events(range(50, 100)))
        batches = list(Query(pravega, stream, {"maxRowsPerTrigger": "20"}).batches(start))
    assert numbers_by_key(batches) == in_order(100)
