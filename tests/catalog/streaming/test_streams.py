"""Tables as streams: micro-batches that together are the events, each once."""

from __future__ import annotations

import json
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.catalog.streaming.changes_streams import scale
from tests.streams import PATIENCE, ParquetSink, into_memory, running


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    """An empty table of two segments."""
    name = f"pravega.`{scope}`.sensor"
    spark.sql(f"CREATE TABLE {name} (id INT, place STRING) TBLPROPERTIES ('scaling.min-segments'='2')")
    return name


def test_a_running_stream_takes_what_comes(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, 'hall'), (2, 'roof')")
    with into_memory(spark.readStream.table(table), tmp_path) as sink:
        assert sorted(sink.rows()) == [(1, "hall"), (2, "roof")]
        for number in range(3, 6):
            spark.sql(f"INSERT INTO {table} VALUES ({number}, 'yard')")
            assert sorted(row.id for row in sink.rows()) == list(range(1, number + 1))


def test_a_query_goes_on_where_it_stopped(spark: SparkSession, table: str, tmp_path: Path) -> None:
    sink = ParquetSink(spark, tmp_path)
    rows = spark.sql(f"SELECT * FROM STREAM {table}")
    assert sink.take(rows) == []
    for number in range(2):
        spark.sql(f"INSERT INTO {table} SELECT id, 'x' FROM range({number * 10}, {number * 10 + 10})")
        [progress] = sink.take(rows)
        assert progress["numInputRows"] == 10
        assert sink.take(rows) == []
    assert sorted(row.id for row in sink.rows()) == list(range(20))


def test_columns_and_hidden_columns(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, 'hall'), (2, 'roof'), (3, 'roof')")
    rows = spark.readStream.table(table).where("place = 'roof'").select("_segment", "_offset", "id")
    sink = ParquetSink(spark, tmp_path)
    sink.take(rows)
    expected = spark.sql(f"SELECT _segment, _offset, id FROM {table} WHERE place = 'roof'").collect()
    assert sorted(sink.rows()) == sorted(expected)


def test_a_table_of_changes_is_refused(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    name = f"pravega.`{scope}`.customers"
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
    with pytest.raises(AnalysisException, match=r"readStream is not possible.*readStream\.changes.*\$changelog"):
        spark.readStream.table(name).writeStream.format("noop").start()
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    with into_memory(spark.readStream.table(f"pravega.`{scope}`.`customers$changelog`"), tmp_path) as sink:
        [row] = sink.rows()
    assert row.after.id == 1


def test_bounds_of_streams_are_those_of_batches(spark: SparkSession, table: str, tmp_path: Path) -> None:
    for number in range(1, 5):
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 'x'), ({number}, 'y')")
    changes = spark.sql(f"SELECT DISTINCT _commit_version, _commit_timestamp FROM {table} CHANGES FROM VERSION 1")
    published = {row[0]: row[1] for row in changes.collect()}
    moments = {number: moment.astimezone(UTC) for number, moment in published.items()}
    before_third = (moments[3] - timedelta(microseconds=1)).isoformat()
    millis = str(int(moments[2].timestamp() * 1000) + 1)
    for number, (options, expected) in enumerate(
        [
            ({"startVersion": "2", "endVersion": "3"}, {2, 3}),
            ({"start-timestamp": moments[3].isoformat()}, {3, 4}),
            ({"start-timestamp": before_third, "end-version": "3"}, {3}),
            ({"end-timestamp": millis}, {1, 2}),
            ({"start-version": "5"}, set()),
        ]
    ):
        sink = ParquetSink(spark, tmp_path / str(number))
        sink.take(spark.readStream.options(**options).table(table))
        found = {row.id for row in sink.rows()} if expected else set()
        assert found == expected, options
        assert {row.id for row in spark.read.options(**options).table(table).collect()} == expected, options


def test_bounds_without_sense(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x')")
    for number, (options, words) in enumerate(
        [
            ({"start-version": "3"}, "'start-version'='3' is not possible on stream.*the newest one is 1, published"),
            ({"end-version": "2"}, "'end-version'='2' is not possible on stream.*the newest one is 1, published"),
            ({"start-version": "1", "start-timestamp": "0"}, "'start-version' and 'start-timestamp' are given"),
            ({"end-timestamp": "1000"}, "lies before 1, published at"),
            ({"start-timestamp": "2026-01-01"}, "a time with its zone"),
            ({"start-timestamp": "2999-01-01T00:00:00Z"}, "lies in the future"),
            ({"start-stream-cut": "x"}, "not base64"),
        ]
    ):
        with pytest.raises(PySparkException, match=words):
            ParquetSink(spark, tmp_path / str(number)).take(spark.readStream.options(**options).table(table))
        with pytest.raises(PySparkException, match=words):
            spark.read.options(**options).table(table).collect()


def test_latest_and_a_stream_cut(spark: SparkSession, table: str, scope: str, pravega: Pravega, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
    cut = measure_tail(pravega, Stream(scope, "sensor")).to_text()
    rows = spark.readStream.option("start-stream-cut", "latest").table(table)
    sink = ParquetSink(spark, tmp_path / "latest")
    sink.take(rows)
    with into_memory(rows, tmp_path / "memory") as seen:
        assert seen.rows() == []
        spark.sql(f"INSERT INTO {table} VALUES (3, 'z')")
        sink.take(rows)
        assert [row.id for row in seen.rows()] == [3]
    assert [row.id for row in sink.rows()] == [3]
    bounded = spark.readStream.option("end-stream-cut", cut).table(table)
    with into_memory(bounded, tmp_path / "bounded") as seen:
        assert sorted(row.id for row in seen.rows()) == [1, 2]
        spark.sql(f"INSERT INTO {table} VALUES (4, 'z')")
        assert sorted(row.id for row in seen.rows()) == [1, 2]
    after = ParquetSink(spark, tmp_path / "after")
    after.take(spark.readStream.option("start-stream-cut", cut).table(table))
    assert sorted(row.id for row in after.rows()) == [3, 4]


def test_progress_tells_how_far_a_query_is_behind(spark: SparkSession, table: str, tmp_path: Path) -> None:
    for number in range(1, 4):
        spark.sql(f"INSERT INTO {table} SELECT {number}, 'x' FROM range(100)")
    sink = ParquetSink(spark, tmp_path)
    batches = sink.take(spark.readStream.option("maxRowsPerTrigger", 120).table(table))
    assert [batch["numInputRows"] for batch in batches] == [120, 120, 60]
    assert batches[0]["sources"][0]["description"] == table
    metrics = [batch["sources"][0]["metrics"] for batch in batches]
    left = [int(each["bytesBehind"]) for each in metrics]
    assert left[0] > left[1] > left[2] == 0
    assert int(metrics[0]["estimatedEventsBehind"]) == 180
    assert float(metrics[0]["secondsBehind"]) > float(metrics[2]["secondsBehind"]) == 0
    positions = [json.loads(batch["sources"][0]["endOffset"])["positions"] for batch in batches]
    assert json.loads(batches[0]["sources"][0]["latestOffset"])["positions"] == positions[2]


def test_once_takes_everything_in_one_micro_batch(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO {table} SELECT id, 'x' FROM range(100)")
    rows = spark.sql(f"SELECT id FROM STREAM {table} WITH ('maxRowsPerTrigger' = '7')")
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(once=True).start()
    try:
        assert query.awaitTermination(PATIENCE)
    finally:
        query.stop()
    assert [each["numInputRows"] for each in query.recentProgress] == [100]


def test_scaling_below_a_running_query(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, tmp_path: Path
) -> None:
    """Rows of one key come in their order, over all micro-batches of a query that runs through all of it."""
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('routing-key'='place')")
    found: list[tuple[str, int]] = []

    def take(batch: DataFrame, number: int) -> None:
        found.extend((row.place, row.id) for row in batch.collect())

    rows = spark.readStream.option("maxRowsPerTrigger", 60).table(table)
    with running(rows.writeStream.foreachBatch(take), tmp_path) as query:
        for number in range(4):
            spark.sql(f"INSERT INTO {table} SELECT {number} * 100 + id, 'key-' || id % 5 FROM range(100)")
            scale(pravega, Stream(scope, "sensor"), number)
        query.processAllAvailable()
    assert len(found) == 400
    for key in range(5):
        mine = [number for place, number in found if place == f"key-{key}"]
        assert len(mine) == 80
        assert [number // 100 for number in mine] == sorted(number // 100 for number in mine)
