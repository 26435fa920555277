"""Consumers of streaming queries: retention follows what a query has finished, and keeps what it still needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.consumers.consumer import drop_consumer, list_consumers
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.streams import ParquetSink, into_memory, run_available, running

RETENTION = "'retention.type'='size', 'retention.minimum'='1', 'scaling.min-segments'='2'"


def eventually(found: Callable[[], Any], wanted: object) -> None:
    """Wait until a value is found."""
    deadline = time.monotonic() + 60
    while (now := found()) != wanted:
        assert time.monotonic() < deadline, f"{now} is not {wanted}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pravega(quick_config: ClientConfig) -> Iterator[Pravega]:
    with connect(quick_config) as connected:
        yield connected


class Kept:
    """A table of a stream with retention, on servers that apply it all the time."""

    def __init__(self, spark: SparkSession, pravega: Pravega, scope: str, name: str, properties: str = "") -> None:
        self.stream = Stream(scope, name)
        self.table = f"quick.`{scope}`.{name}"
        self._spark, self._pravega = spark, pravega
        spark.sql(f"CREATE TABLE {self.table} (id BIGINT) TBLPROPERTIES ({RETENTION}{properties})")

    def insert(self, first: int, last: int) -> None:
        self._spark.sql(f"INSERT INTO {self.table} SELECT id FROM range({first}, {last}, 1, 1)")

    def consumed(self, **options: str) -> DataFrame:
        return self._spark.readStream.options(consumer="nightly", **options).table(self.table)

    def changes(self) -> DataFrame:
        return self._spark.readStream.option("consumer", "nightly").changes(self.table)

    def head(self) -> StreamCut:
        return self._pravega.controller.head(self.stream)

    def tail(self) -> StreamCut:
        return measure_tail(self._pravega, self.stream)

    def position(self) -> StreamCut | None:
        (found,) = list_consumers(self._pravega, self.stream)
        return found.position


@pytest.fixture
def kept(quick_spark: SparkSession, pravega: Pravega, quick_scope: str) -> Kept:
    return Kept(quick_spark, pravega, quick_scope, "kept")


def test_retention_follows_the_query(
    quick_spark: SparkSession, pravega: Pravega, kept: Kept, quick_scope: str, tmp_path: Path
) -> None:
    other = Kept(quick_spark, pravega, quick_scope, "other")  # without a consumer: shows that retention was applied
    with into_memory(kept.consumed(), tmp_path) as sink:
        assert sink.rows() == [], "from now on the consumer holds retention back"
        kept.insert(0, 100)
        first = kept.tail()
        assert len(sink.rows()) == 100
        kept.insert(100, 200)
        assert len(sink.rows()) == 200  # now the first batch is committed
        eventually(kept.position, first)
        eventually(kept.head, first)
        second = kept.tail()
        kept.insert(200, 300)
        assert len(sink.rows()) == 300
    assert kept.position() == second, "the end of the last committed batch, told when the query stops"
    eventually(kept.head, second)
    insert_until_retention(other)
    assert kept.head() == second, "the query has not committed the rest"


@pytest.mark.parametrize(
    "properties", ["", ", 'format'='debezium-json', 'primary-key'='id'"], ids=["appended", "changes-of-rows"]
)
def test_retention_follows_a_stream_of_changes(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path, properties: str
) -> None:
    kept = Kept(quick_spark, pravega, quick_scope, "changing", properties)
    with into_memory(kept.changes(), tmp_path) as sink:
        assert sink.rows() == [], "from now on the consumer holds retention back"
        kept.insert(0, 100)
        first = kept.tail()
        assert len(sink.rows()) == 100
        assert kept.position() != first, "the batch is not committed"
        kept.insert(100, 200)
        assert len(sink.rows()) == 200
        eventually(kept.position, first)
        eventually(kept.head, first)
        second = kept.tail()
        kept.insert(200, 300)
        assert len(sink.rows()) == 300
    assert kept.position() == second
    kept.insert(300, 350)
    run_available(kept.changes().writeStream.format("noop"), tmp_path)
    assert kept.position() == kept.tail(), "with availableNow nothing is left to hold"


def test_each_of_several_streams_has_a_consumer(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    """Also one that comes while the query runs: nothing of it is freed before it has been read."""
    first = Kept(quick_spark, pravega, quick_scope, "halla")
    quick_spark.sql(f"CREATE TABLE quick.`{quick_scope}`.halls USING pravega TBLPROPERTIES ('pattern'='hall[ab]')")
    options = {"consumer": "nightly", "discovery-interval": "1s"}
    halls = f"quick.`{quick_scope}`.halls"
    with into_memory(quick_spark.readStream.options(**options).table(halls), tmp_path) as sink:
        assert sink.rows() == [], "from now on the consumer holds retention back"
        first.insert(0, 10)
        assert len(sink.rows()) == 10
        second = Kept(quick_spark, pravega, quick_scope, "hallb")
        begin = second.head()
        eventually(
            lambda: [(one.name, one.position) for one in list_consumers(pravega, second.stream)],
            [("nightly-of-hallb", begin)],
        )
        second.insert(10, 20)
        assert len(sink.rows()) == 20
        assert second.position() == second.head() == begin, "the batch is not committed"
        ends = first.tail(), second.tail()
        first.insert(20, 30)
        assert len(sink.rows()) == 30
        eventually(lambda: (first.position(), second.position()), ends)
        eventually(first.head, ends[0])  # of the other one retention keeps the least that its policy says
    rows = quick_spark.readStream.options(**options).table(halls)
    run_available(rows.writeStream.format("noop"), tmp_path)
    assert (first.position(), second.position()) == (first.tail(), second.tail())
    other = quick_spark.readStream.options(**options).table(first.table)
    with into_memory(other, tmp_path / "other") as sink:
        sink.rows()
        names = [one.name for one in list_consumers(pravega, first.stream)]
    assert names == ["nightly", "nightly-of-halla"], "one stream alone has a consumer of another name"


def test_a_first_batch_of_several_streams_is_repeated_from_its_start(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    """The query begins at the latest events: when it is started again, these are others than those of its batch."""
    both = [Kept(quick_spark, pravega, quick_scope, name) for name in ("halla", "hallb")]
    halls = f"quick.`{quick_scope}`.halls"
    quick_spark.sql(f"CREATE TABLE {halls} USING pravega TBLPROPERTIES ('pattern'='hall[ab]')")
    options = {"consumer": "nightly", "start-stream-cut": "latest"}
    rows = quick_spark.readStream.options(**options).table(halls)
    for one in both:
        one.insert(0, 10)

    def fail(batch: DataFrame, _: int) -> None:
        raise ValueError(f"{batch.count()} rows came too early")

    query = rows.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(fail).start()
    eventually(lambda: [len(list_consumers(pravega, one.stream)) for one in both], [1, 1])
    for one in both:
        one.insert(10, 20)
    with pytest.raises(StreamingQueryException, match="rows came too early"):
        query.awaitTermination(60)
    for one in both:
        one.insert(20, 30)
    seen: list[int] = []
    run_available(
        rows.writeStream.foreachBatch(lambda batch, _: seen.extend(row.id for row in batch.collect())), tmp_path
    )
    assert sorted(seen) == sorted([*range(10, 30)] * 2)
    assert [one.position() for one in both] == [one.tail() for one in both]


def test_retention_passes_a_consumer_at_the_maximum(
    quick_spark: SparkSession, pravega: Pravega, kept: Kept, quick_scope: str
) -> None:
    other = Kept(quick_spark, pravega, quick_scope, "other")
    quick_spark.sql(
        f"CALL quick.system.create_consumer(table => '`{quick_scope}`.kept', consumer => 'slow', position => 'tail')"
    )
    held = kept.head()
    kept.insert(0, 100)
    insert_until_retention(other)
    assert kept.head() == held, "without a maximum it is held"
    quick_spark.sql(f"ALTER TABLE {kept.table} SET TBLPROPERTIES ('retention.maximum'='10')")
    insert_until_retention(kept)
    assert kept.position() == held


def insert_until_retention(kept: Kept) -> None:
    """Insert rows until retention has removed some."""
    before, deadline = kept.head(), time.monotonic() + 60
    while kept.head() == before:
        assert time.monotonic() < deadline
        kept.insert(0, 100)


@pytest.mark.long
def test_a_restarted_query_finds_what_it_needs(kept: Kept, quick_spark: SparkSession, tmp_path: Path) -> None:
    sink = ParquetSink(quick_spark, tmp_path)
    sink.take(kept.consumed())  # from now on retention leaves what it has not read
    ends = []
    for number in range(2):
        kept.insert(number * 10, number * 10 + 10)
        ends.append(kept.tail())
        sink.take(kept.consumed(maxRowsPerTrigger="6"))
        assert kept.position() == ends[-1], "with availableNow nothing is left to hold"
    assert sorted(row.id for row in sink.rows()) == list(range(20))
    kept.insert(20, 30)
    for end in (ends[-1], kept.tail()):  # the batch of the first run is committed by the start of the second
        with running(kept.consumed().writeStream.format("noop"), sink.checkpoint) as query:
            query.processAllAvailable()
        assert kept.position() == end


def test_reads_begin_where_a_consumer_stands(
    kept: Kept, quick_spark: SparkSession, quick_scope: str, tmp_path: Path
) -> None:
    """Batches, and queries without a checkpoint: `move_consumer` rewinds them."""
    quick_spark.sql(f"ALTER TABLE {kept.table} SET TBLPROPERTIES ('retention.minimum'='1g')")
    begin = {"start-stream-cut": "Consumer"}
    there = {**begin, "consumer": "nightly"}

    def batch() -> list[int]:
        return sorted(row.id for row in quick_spark.read.options(**there).table(kept.table).collect())

    with pytest.raises(
        PySparkException, match="has no consumer 'nightly'. Its consumers and reader groups: none"
    ) as caught:
        batch()
    assert caught.value.getCondition() == "PRAVEGA_CONSUMER_NOT_FOUND"
    with pytest.raises(
        StreamingQueryException, match="has no consumer 'nightly'. Its consumers and reader groups: none"
    ):
        run_available(kept.consumed(**begin).writeStream.format("noop"), tmp_path / "missing")
    kept.insert(0, 10)
    ParquetSink(quick_spark, tmp_path / "first").take(kept.consumed())
    assert batch() == []
    kept.insert(10, 20)
    assert batch() == list(range(10, 20)) and batch() == list(range(10, 20)), "a batch does not move it"
    with pytest.raises(PySparkException, match="'nightli'. Its consumers .*: nightly. Did you mean 'nightly'"):
        quick_spark.read.options(**{**there, "consumer": "nightli"}).table(kept.table).collect()
    second = ParquetSink(quick_spark, tmp_path / "second")
    second.take(kept.consumed(**begin))
    assert sorted(row.id for row in second.rows()) == list(range(10, 20)), "the checkpoint of the first run is lost"
    assert kept.position() == kept.tail()
    moved = "position => '1'"
    quick_spark.sql(f"CALL quick.system.move_consumer(table => '`{quick_scope}`.kept', consumer => 'nightly', {moved})")
    assert batch() == list(range(10, 20))
    third = ParquetSink(quick_spark, tmp_path / "third")
    third.take(kept.consumed(**begin))
    kept.insert(20, 30)
    third.take(kept.consumed(**begin))  # with a checkpoint, that counts
    assert sorted(row.id for row in third.rows()) == list(range(10, 30))
    named = quick_spark.sql(f"SELECT id FROM {kept.table} WITH ('start-stream-cut'='consumer', 'consumer'='nightly')")
    assert named.collect() == []


@contextmanager
def failing(rows: DataFrame, checkpoint: Path) -> Iterator[StreamingQuery]:
    """Run a query that fails before it is stopped."""
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()


def fails(kept: Kept, query: StreamingQuery, message: str) -> None:
    """Give a query more and more rows, until it fails with a message."""
    with pytest.raises(StreamingQueryException, match=message):
        for number in range(100):
            kept.insert(number, number + 1)
            query.processAllAvailable()


def test_one_consumer_is_for_one_query(kept: Kept, tmp_path: Path) -> None:
    kept.insert(0, 10)
    with failing(kept.consumed(), tmp_path / "old") as old:
        old.processAllAvailable()
        with running(kept.consumed().writeStream.format("noop"), tmp_path / "new") as new:
            new.processAllAvailable()
            fails(kept, old, r"PRAVEGA_CONSUMER_IN_USE.*'nightly'.*taken over by another query")
            new.processAllAvailable()


@pytest.mark.long
def test_real_time_mode_moves_its_consumer(quick_spark: SparkSession, kept: Kept, tmp_path: Path) -> None:
    """When a batch has ended, and the next one begins."""
    kept.insert(0, 100)
    end = kept.tail()
    quick_spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "1000")
    writer = kept.consumed().where("id >= 0").writeStream.foreach(lambda row: None).outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(realTime="1 second")  # type: ignore[call-overload]
    query = writer.start()
    try:
        eventually(lambda: query.lastProgress is not None, True)
        eventually(kept.position, end)
        assert query.exception() is None
    finally:
        query.stop()
        quick_spark.conf.unset("spark.sql.streaming.realTimeMode.minBatchDuration")


def test_a_consumer_that_is_dropped_ends_its_query(kept: Kept, pravega: Pravega, tmp_path: Path) -> None:
    kept.insert(0, 10)
    with failing(kept.consumed(), tmp_path) as query:
        query.processAllAvailable()
        drop_consumer(pravega, kept.stream.scope, "nightly")
        fails(kept, query, r"PRAVEGA_CONSUMER_NOT_FOUND.*'nightly'.*dropped")


def test_streams_without_retention_have_no_consumers(
    quick_spark: SparkSession, quick_scope: str, tmp_path: Path
) -> None:
    table = f"quick.`{quick_scope}`.everything"
    quick_spark.sql(f"CREATE TABLE {table} (id BIGINT)")
    rows = quick_spark.readStream.option("consumer", "nightly").table(table)
    with failing(rows, tmp_path) as query:
        with pytest.raises(StreamingQueryException, match=r"PRAVEGA_UNSUPPORTED_OPERATION.*has no retention policy"):
            query.processAllAvailable()


def test_only_streaming_reads_have_a_consumer(kept: Kept, quick_spark: SparkSession) -> None:
    read = quick_spark.read.option("consumer", "nightly")
    for rows in (read.table(kept.table), quick_spark.read.option("consumer", "nightly").changes(kept.table)):
        with pytest.raises(Exception, match=r"PRAVEGA_INVALID_OPTION.*'consumer' is given, but .* has no consumer"):
            rows.collect()


def test_drop_table_drops_its_consumers(
    kept: Kept, quick_spark: SparkSession, pravega: Pravega, tmp_path: Path
) -> None:
    ParquetSink(quick_spark, tmp_path).take(kept.consumed())
    assert pravega.controller.reader_group(kept.stream.scope, "nightly") is not None
    quick_spark.sql(f"DROP TABLE {kept.table}")
    assert pravega.controller.reader_group(kept.stream.scope, "nightly") is None
