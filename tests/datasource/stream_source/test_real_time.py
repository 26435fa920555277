"""Real-time mode: long-running tasks follow their segments; each event comes once, in the order of its key."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.routing import SegmentRouter, hash_keys
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import Stream
from tests.streams import PATIENCE

LONG = "10 minutes"
"""Longer than any test waits: where a batch ends in the meantime, it is because the stream was scaled."""


class LinesSink:
    """Writes rows into a file for each task and epoch; one that is done again replaces what it wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)

    def open(self, partition: int, epoch: int) -> bool:
        self.file = Path(self.directory, f"{epoch:06}-{partition}").open("w")  # noqa: SIM115 closed by `close`
        return True

    def process(self, row: Row) -> None:
        self.file.write(f"{row.place} {row.id}\n")

    def close(self, error: Exception | None) -> None:
        self.file.close()

    def rows(self) -> dict[str, list[int]]:
        """The ids by place, in the order of the epochs."""
        found = defaultdict(list)
        for file in sorted(Path(self.directory).iterdir()):
            for line in file.read_text().splitlines():
                place, id = line.split()
                found[place].append(int(id))
        return dict(found)

    def has_taken(self, count: int) -> Callable[[], bool]:
        """A condition: it has so many rows at least."""
        return lambda: sum(map(len, self.rows().values())) >= count


def writer(rows: DataFrame, sink: LinesSink) -> Any:
    return rows.writeStream.foreach(sink).outputMode("update").trigger(realTime=LONG)  # type: ignore[call-overload, no-any-return]


@contextmanager
def follow_query(writer: DataStreamWriter, checkpoint: Path) -> Iterator[StreamingQuery]:
    """Run a query; it is stopped after the body.

    What `stop` makes of it is not looked at: Spark interrupts the query, and if that meets the thread that writes its
    progress in this mode, it calls the query failed.
    """
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def append(pravega: Pravega, stream: Stream, first: int, last: int) -> None:
    """Write rows as another program does: Spark's task slots are taken by the query."""
    segments = pravega.controller.current_segments(stream)
    keys = [f"p{id % 10}" for id in range(first, last)]
    router = SegmentRouter(segments)
    targets = [router.segment_ids[place] for place in router.places(hash_keys(pa.array(keys)))]
    for segment in segments:
        with SegmentAppender(pravega.segments, stream, segment.segment_id, uuid.uuid4()) as appender:
            for id in range(first, last):
                if targets[id - first] == segment.segment_id:
                    event = json.dumps({"id": id, "place": keys[id - first]}).encode()
                    appender.append(bytes(frame(pa.array([event], pa.binary()))), 1)
            appender.flush()


def scale(pravega: Pravega, stream: Stream, merge: bool) -> None:
    """Merge all segments into one, or split the first."""
    segments = sorted(pravega.controller.current_segments(stream), key=lambda segment: segment.min_key)
    if merge:
        pravega.controller.scale_stream(stream, [segment.segment_id for segment in segments], [(0.0, 1.0)])
    else:
        low, high = segments[0].min_key, segments[0].max_key
        ranges = [(low, (low + high) / 2), ((low + high) / 2, high)]
        pravega.controller.scale_stream(stream, [segments[0].segment_id], ranges)


def wait_until(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert query.exception() is None and time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    name = f"pravega.`{scope}`.sensor"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, place STRING) TBLPROPERTIES ('format'='json', 'framing'='none')")
    return name


@pytest.fixture
def sink(tmp_path: Path) -> LinesSink:
    (tmp_path / "rows").mkdir()
    return LinesSink(tmp_path / "rows")


def test_events_come_once_and_in_order_while_segments_split_and_merge(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, sink: LinesSink, tmp_path: Path
) -> None:
    stream = Stream(scope, "sensor")
    rows = spark.readStream.table(table).where("id >= 0")

    with follow_query(writer(rows, sink), tmp_path / "checkpoint") as query:
        append(pravega, stream, 0, 100)
        scale(pravega, stream, merge=False)
        wait_until(query, sink.has_taken(100))
        append(pravega, stream, 100, 200)
        scale(pravega, stream, merge=True)
        wait_until(query, sink.has_taken(200))
    append(pravega, stream, 200, 300)
    scale(pravega, stream, merge=False)
    with follow_query(writer(rows, sink), tmp_path / "checkpoint") as query:
        wait_until(query, sink.has_taken(300))
    assert sink.rows() == {f"p{place}": list(range(place, 300, 10)) for place in range(10)}


def test_a_query_without_end_has_no_end_cut(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, tmp_path: Path
) -> None:
    cut = pravega.controller.head(Stream(scope, "sensor")).to_text()
    rows = spark.readStream.option("endStreamCut", cut).table(table)
    query = writer(rows, LinesSink(tmp_path)).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with pytest.raises(StreamingQueryException, match="'endStreamCut'='.*' ends the query"):
            query.awaitTermination(PATIENCE)
    finally:
        query.stop()


def quick_writer(rows: DataFrame, sink: LinesSink) -> Any:
    """A writer whose batches end after two seconds: until then, a few rows stay in the buffer of the sink."""
    return writer(rows, sink).trigger(realTime="2 seconds")


@contextmanager
def short_batches(spark: SparkSession) -> Iterator[None]:
    """Let Spark take batches of two seconds."""
    spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "1000")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.streaming.realTimeMode.minBatchDuration")


def test_a_checkpoint_goes_on_in_micro_batches_and_back(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, sink: LinesSink, tmp_path: Path
) -> None:
    """The sink replaces what a repeated batch has written, so each event is there once."""
    stream = Stream(scope, "sensor")
    rows = spark.readStream.option("max-rows-per-trigger", "30").table(table)

    def run_in_real_time(first: int) -> None:
        append(pravega, stream, first, first + 100)
        with follow_query(quick_writer(rows, sink), tmp_path / "checkpoint") as query:
            wait_until(query, sink.has_taken(first + 100))
            wait_until(query, lambda: query.lastProgress is not None and query.lastProgress["numInputRows"] == 0)

    def run_in_micro_batches(first: int) -> None:
        append(pravega, stream, first, first + 100)
        batches = rows.writeStream.foreach(sink).outputMode("update").trigger(availableNow=True)
        with follow_query(batches, tmp_path / "checkpoint") as query:
            assert query.awaitTermination(PATIENCE)
        assert max(progress["numInputRows"] for progress in query.recentProgress) <= 30

    with short_batches(spark):
        run_in_real_time(0)
        run_in_micro_batches(100)
        run_in_real_time(200)
        run_in_micro_batches(300)
    assert sink.rows() == {f"p{place}": list(range(place, 400, 10)) for place in range(10)}


def test_a_task_that_begins_after_its_batch_keeps_its_place(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, sink: LinesSink, tmp_path: Path
) -> None:
    """With more segments than cores, some tasks begin when those of the others have ended with the batch."""
    stream, rows = Stream(scope, "sensor"), spark.readStream.table(table)
    ids: list[int] = []

    def run_in_real_time(condition: Callable[[StreamingQuery], bool]) -> None:
        with short_batches(spark), follow_query(quick_writer(rows, sink), tmp_path / "checkpoint") as query:
            wait_until(query, lambda: condition(query))

    def run_in_micro_batches(first: int) -> None:
        append(pravega, stream, first, first + 100)
        batches = rows.writeStream.foreachBatch(lambda batch, _: ids.extend(row.id for row in batch.collect()))
        with follow_query(batches.trigger(availableNow=True), tmp_path / "checkpoint") as query:
            assert query.awaitTermination(PATIENCE)

    append(pravega, stream, 0, 100)
    # Spark takes the checkpoint in real-time mode again only if its first whole batch was of that mode.
    run_in_real_time(lambda query: sink.has_taken(100)() and len(query.recentProgress) > 0)
    while len(pravega.controller.current_segments(stream)) <= spark.sparkContext.defaultParallelism:
        scale(pravega, stream, merge=False)
    run_in_micro_batches(100)
    run_in_real_time(lambda query: len(query.recentProgress) > 1)
    run_in_micro_batches(200)
    assert sorted(id for id in ids if id >= 100) == list(range(100, 300))


def test_bad_events_become_letters(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, sink: LinesSink, tmp_path: Path
) -> None:
    stream = Stream(scope, "sensor")
    rows = spark.readStream.option("dead-letter", f"{scope}/letters").table(table)
    [segment] = pravega.controller.current_segments(stream)
    with short_batches(spark), follow_query(quick_writer(rows, sink), tmp_path / "checkpoint") as query:
        append(pravega, stream, 0, 10)
        with SegmentAppender(pravega.segments, stream, segment.segment_id, uuid.uuid4()) as appender:
            appender.append(bytes(frame(pa.array([b"no JSON"], pa.binary()))), 1)
            appender.flush()
        append(pravega, stream, 10, 20)
        wait_until(query, lambda: sum(map(len, sink.rows().values())) == 20)
    # A batch may end when its task has written the letter, and before Spark has heard of the event.
    assert {letter.event for letter in spark.table(f"pravega.`{scope}`.letters").collect()} == {b"no JSON"}


def test_duplicates_are_dropped(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, sink: LinesSink, tmp_path: Path
) -> None:
    """With state, which takes a second stage that runs at the same time."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    stream = Stream(scope, "sensor")
    rows = spark.readStream.table(table).dropDuplicates(["place"])
    try:
        with short_batches(spark), follow_query(quick_writer(rows, sink), tmp_path / "checkpoint") as query:
            append(pravega, stream, 0, 5)
            append(pravega, stream, 0, 20)
            wait_until(query, lambda: len(sink.rows()) == 10)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    assert sink.rows() == {f"p{place}": [place] for place in range(10)}


def test_times_of_events_are_refused(spark: SparkSession, table: str, tmp_path: Path) -> None:
    rows = spark.readStream.table(table).select("id", "place", "_event_time")
    query = writer(rows, LinesSink(tmp_path)).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with pytest.raises(StreamingQueryException, match="too old in real-time mode"):
            query.awaitTermination(PATIENCE)
    finally:
        query.stop()
