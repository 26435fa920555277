"""An INSERT with one task: its few rows are stored by a single append, and any others in a transaction."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.client.segments.range_reader import SegmentRangeReader
from pyspark_pravega.client.single_append import SingleAppend, is_append_id, rejoin
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log import commit_log
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.commit import CommitRequest
from pyspark_pravega.datasource.insert.insert import DeferredInsert
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable
from pyspark_pravega.errors import InvalidRowError, TransactionNotOpenError, TransactionOutcomeUnknownError
from tests.cutting_proxy import CuttingProxy
from tests.datasource.insert.test_commit import visible
from tests.datasource.transactions import SETTINGS, raw_table

KEYED = StructType([StructField("id", LongType()), StructField("event", StringType())])


def begin(pravega: Pravega, stream: Stream, rows: list[bytes]) -> tuple[DeferredInsert, InsertMessage]:
    """An INSERT into a raw table whose task has run."""
    insert = DeferredInsert.begin(pravega, raw_table(stream), SETTINGS)
    batch = pa.record_batch([pa.array(rows, pa.binary())], names=["event"])
    return insert, run(insert, RAW_SCHEMA, iter([batch]))


def run(insert: DeferredInsert, schema: StructType, rows: Iterator[pa.RecordBatch]) -> InsertMessage:
    message = InsertWriter(insert.spec(schema)).write(rows)
    assert isinstance(message, InsertMessage)
    return message


def versions(pravega: Pravega, stream: Stream) -> list[tuple[int, bool]]:
    """The number of rows of each version, and whether a single append has stored them."""
    log = CommitLog(pravega, stream)
    head = log.head()
    assert head is not None and head.committing == ()
    found = [(one.rows, is_append_id(one.transaction)) for one in log.versions() if one.transaction is not None]
    ends = [sum(one.cut.positions.values()) for one in log.versions()]
    assert ends[-1:] == [sum(measure_tail(pravega, stream).positions.values())] and ends == sorted(set(ends))
    return found


def test_few_rows(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream, rows = new_stream(3), [b"one", b"two", b"three"]
    insert, message = begin(pravega, stream, rows)
    assert message.held is not None and message.rows == 3 and visible(pravega, stream) == []
    assert insert.commit([message]) == 3
    assert visible(pravega, stream) == sorted(rows) and versions(pravega, stream) == [(3, True)]


@pytest.mark.parametrize("rows", [[b"x" * 70_000], [b"xy" * 20] * 2000], ids=["one large row", "many rows"])
def test_more_than_a_few(pravega: Pravega, new_stream: Callable[..., Stream], rows: list[bytes]) -> None:
    stream = new_stream(2)
    insert, message = begin(pravega, stream, rows)
    assert message.held is None and message.transaction is not None
    assert rejoin(pravega, stream, message.transaction).status() is TransactionStatus.OPEN
    assert insert.commit([message]) == len(rows)
    assert visible(pravega, stream) == rows and versions(pravega, stream) == [(len(rows), False)]


def test_no_rows(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream()
    insert, message = begin(pravega, stream, [])
    assert insert.commit([message]) == 0 and CommitLog(pravega, stream).versions() == []


def keyed(stream: Stream) -> StreamTable:
    return StreamTable(stream, "json", "none", KEYED, routing_key="id")


def keyed_rows(ids: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {id}" for id in ids])], names=["id", "event"])


@pytest.mark.parametrize(("ids", "held"), [([5, 5, 5], True), (list(range(40)), False)], ids=["one key", "many keys"])
def test_rows_with_keys(pravega: Pravega, new_stream: Callable[..., Stream], ids: list[int], held: bool) -> None:
    stream = new_stream(4)
    insert = DeferredInsert.begin(pravega, keyed(stream), SETTINGS)
    message = run(insert, KEYED, iter([keyed_rows(ids)]))
    assert (message.held is not None) is held
    assert insert.commit([message]) == len(ids)
    expected = {int(position * 4) for position in hash_keys(pa.array(map(str, ids))).tolist()}
    lengths = {segment: info.write_offset for segment, info in pravega.segments.segment_infos(stream, range(4)).items()}
    assert {segment for segment, length in lengths.items() if length} == expected
    assert versions(pravega, stream) == [(len(ids), held)]


def test_rows_that_cannot_be_written(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The error is the one of a task with a transaction, and that is aborted."""
    stream = new_stream()
    with pytest.raises(InvalidRowError, match=rf"^\[\w+\] Table {stream}: .*\. No row of this INSERT is visible\."):
        begin(pravega, stream, [b"good", None])  # type: ignore[list-item]
    assert visible(pravega, stream) == []


def test_a_scaling_in_between(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """The rows are written in a transaction then, each to the segment of its key."""
    stream = new_stream()
    insert = DeferredInsert.begin(pravega, keyed(stream), SETTINGS)
    message = run(insert, KEYED, iter([keyed_rows(list(range(40)))]))
    assert message.held is not None
    pravega.controller.scale_stream(stream, [0], [(0.0, 0.5), (0.5, 1.0)])
    assert insert.commit([message]) == 40
    segments = [one.segment_id for one in pravega.controller.current_segments(stream)]
    assert all(info.write_offset for info in pravega.segments.segment_infos(stream, segments).values())
    assert len(visible(pravega, stream)) == 40 and versions(pravega, stream) == [(40, False)]


def test_another_service_writes_with_the_options_of_the_first(
    pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]
) -> None:
    """It knows the table as it is, and not the routing key that the statement named."""
    stream = new_stream()
    message = run(DeferredInsert.begin(pravega, keyed(stream), SETTINGS), KEYED, iter([keyed_rows([7] * 30)]))
    pravega.controller.scale_stream(stream, [0], [(0.0, 0.5), (0.5, 1.0)])
    with connect(client_config) as other:
        unkeyed = replace(keyed(stream), routing_key=None)
        assert DeferredInsert(other, unkeyed, SETTINGS).commit([message]) == 30
    segments = [one.segment_id for one in pravega.controller.current_segments(stream)]
    assert sum(info.write_offset > 0 for info in pravega.segments.segment_infos(stream, segments).values()) == 1
    assert versions(pravega, stream) == [(30, False)]


def test_rows_without_keys_are_spread(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream(2)
    for number in range(60):
        insert, message = begin(pravega, stream, [b"%d" % number])
        insert.commit([message])
        if all(info.write_offset for info in pravega.segments.segment_infos(stream, range(2)).values()):
            return
    pytest.fail("60 rows went to one of two segments")


def test_a_dead_writer_does_not_hold_up_who_waits_for_versions(
    pravega: Pravega, new_stream: Callable[..., Stream]
) -> None:
    stream = new_stream()
    leave(pravega, *begin(pravega, stream, [b"dead"]), "entered")
    log = CommitLog(pravega, stream, timeout=5.0)
    end, head = log.measure_settled_with_head(lambda until: until or measure_tail(pravega, stream), float("inf"))
    assert sum(end.positions.values()) == 0 and head is not None and len(head.committing) == 1


def test_a_segment_store_that_is_away(
    pravega: Pravega,
    client_config: ClientConfig,
    new_stream: Callable[..., Stream],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who waits for the append before goes on waiting when it cannot ask for its state."""
    stream = new_stream()
    first = leave(pravega, *begin(pravega, stream, [b"first"]), "entered")
    proxy, looks = CuttingProxy(pravega.segments.location(stream, 0)), threading.Semaphore(0)

    def look(*about: Any) -> Any:
        looks.release()
        return rejoin(*about)

    monkeypatch.setattr(commit_log, "rejoin", look)
    with closing(proxy), connect(replace(client_config, retry_timeout=0.2)) as other, ThreadPoolExecutor(1) as pool:
        insert, message = begin(other, stream, [b"second"])
        locate = other.controller.segment_location
        monkeypatch.setattr(
            other.controller, "segment_location", lambda *of: proxy.endpoint if of[0] == stream else locate(*of)
        )
        other.segments.forget_location(stream, 0)
        waiting = pool.submit(insert.commit, [message])
        assert looks.acquire(timeout=60)
        proxy.away.set()
        other.segments.pool.forget(proxy.endpoint)
        assert all(looks.acquire(timeout=60) for _ in range(4))
        first.commit()
        proxy.away.clear()
        assert waiting.result(60) == 1
    assert visible(pravega, stream) == [b"first", b"second"] and versions(pravega, stream) == [(1, True)] * 2


@pytest.mark.parametrize("moment", ["entered", "stored", "published"])
def test_a_service_that_ends_in_the_commit(
    pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream], moment: str
) -> None:
    """Another one commits again what may be committed: once."""
    stream = new_stream(2)
    insert, message = begin(pravega, stream, [b"row"])
    leave(pravega, insert, message, moment)
    with connect(client_config) as other:
        again = DeferredInsert(other, raw_table(stream), SETTINGS)
        assert again.commit([message], CommitRequest(again=True)) == 1
    assert visible(pravega, stream) == [b"row"] and versions(pravega, stream) == [(1, True)]


def leave(pravega: Pravega, insert: DeferredInsert, message: InsertMessage, moment: str) -> SingleAppend:
    """Do the steps of a commit until a moment, as a process that dies then."""
    stream, held = insert.table.stream, message.held
    assert held is not None and message.transaction is not None
    append = SingleAppend(pravega.segments, stream, message.transaction, insert.segments, held.events, message.rows)
    log, tail = CommitLog(pravega, stream), partial(measure_tail, pravega, stream)
    assert log.enter(append.id, rows=message.rows, operation="INSERT")
    log.wait_for_turn(append.id, tail)
    if moment != "entered":
        append.commit()
    if moment == "published":
        log.publish(append.id, tail)
    return append


@pytest.mark.parametrize("moment", ["entered", "stored"])
def test_a_writer_that_dies_in_the_commit(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The next writer publishes what is stored, and prevents what is not; nobody is held up for long."""
    monkeypatch.setattr(commit_log, "TURN_SECONDS", 0.5)
    stream = new_stream(2)
    dead = leave(pravega, *begin(pravega, stream, [b"dead"]), moment)
    cut, head = CommitLog(pravega, stream).tail(lambda until: until or measure_tail(pravega, stream))
    assert head.version == 0 and (sum(cut.positions.values()) > 0) is (moment == "stored")
    insert, message = begin(pravega, stream, [b"next"])
    assert insert.commit([message]) == 1
    if moment == "entered":
        with pytest.raises(TransactionNotOpenError):
            dead.commit()
    rows = [b"next"] if moment == "entered" else [b"dead", b"next"]
    assert visible(pravega, stream) == rows and versions(pravega, stream) == [(1, True)] * len(rows)


@pytest.mark.parametrize("removed", [False, True], ids=["sealed", "removed"])
def test_an_outcome_that_nobody_knows(pravega: Pravega, new_stream: Callable[..., Stream], removed: bool) -> None:
    """A service ended, and the segment is sealed: the rows may have been written in a transaction."""
    stream = new_stream()
    insert, message = begin(pravega, stream, [b"row"])
    pravega.controller.scale_stream(stream, [0], [(0.0, 0.5), (0.5, 1.0)])
    if removed:
        pravega.controller.truncate_stream(measure_tail(pravega, stream))
    with pytest.raises(TransactionOutcomeUnknownError, match="look at the table before you run it again"):
        insert.commit([message], CommitRequest(again=True))
    assert visible(pravega, stream) == []


def read_up_to(pravega: Pravega, cut: StreamCut) -> list[bytes]:
    return [
        bytes(window.data[start : start + length])
        for segment, end in cut.positions.items()
        for window in SegmentRangeReader(pravega.segments, cut.stream, segment, 0, end)
        for start, length in zip(window.starts.tolist(), window.lengths.tolist(), strict=True)
    ]


def test_writers_at_once(pravega: Pravega, client_config: ClientConfig, new_stream: Callable[..., Stream]) -> None:
    """Single appends and transactions in turns: each is seen as a whole, and has a version of its own."""
    stream, threads, each, done = new_stream(2), 6, 5, threading.Event()
    few, many = 3, 6000

    def write(thread: int) -> None:
        with connect(client_config) as own:
            for number in range(each):
                rows = [b"%d %d" % (thread, number)] * (few if (thread + number) % 2 else many)
                insert, message = begin(own, stream, rows)
                assert insert.commit([message]) == len(rows)

    def read() -> int:
        looks = 0
        with connect(client_config) as own:
            while not done.is_set():
                end = CommitLog(own, stream).measure_settled(lambda until: until or measure_tail(own, stream))
                assert set(Counter(read_up_to(own, end)).values()) <= {few, many}
                looks += 1
        return looks

    with ThreadPoolExecutor(threads + 1) as pool:
        reading = pool.submit(read)
        try:
            list(pool.map(write, range(threads)))
        finally:
            done.set()
        assert reading.result(60)
    counts = Counter(visible(pravega, stream))
    assert len(counts) == threads * each and set(counts.values()) == {few, many}
    assert Counter(versions(pravega, stream)) == Counter([(few, True), (many, False)] * (threads * each // 2))
