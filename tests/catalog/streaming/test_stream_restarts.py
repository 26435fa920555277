"""Streaming queries that go on: after failures, with other schemas, and from checkpoints that do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.streams import ParquetSink, run_available


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    """A table with two rows, whose schema may change in any way."""
    name = f"pravega.`{scope}`.sensor"
    spark.sql(f"CREATE TABLE {name} (id INT, place STRING) TBLPROPERTIES ('compatibility'='allow-any')")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'hall'), (2, 'roof')")
    return name


@pytest.fixture
def change_schema(pravega: Pravega, scope: str) -> Callable[[Callable[[list[Any]], None]], None]:
    """A function that registers a new version of the table's schema, whose fields a function has changed."""

    def change(changed: Callable[[list[Any]], None]) -> None:
        registry = pravega.registry(scope)
        (latest,) = registry.latest_schemas("sensor")
        schema = json.loads(latest.schema.text)
        changed(schema["fields"])
        registry.add_schema("sensor", SchemaInfo.of_text(latest.schema.type, "Avro", json.dumps(schema)))

    return change


def test_a_column_that_is_added(
    spark: SparkSession, table: str, change_schema: Callable[..., None], tmp_path: Path
) -> None:
    sink = ParquetSink(spark, tmp_path)
    sink.take(spark.readStream.table(table))
    change_schema(lambda fields: fields.append({"name": "note", "type": ["null", "string"], "default": None}))
    spark.sql(f"INSERT INTO {table} VALUES (3, 'yard', 'new')")
    sink.take(spark.readStream.table(table))
    rows = spark.read.option("mergeSchema", True).parquet(str(tmp_path / "rows")).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, "hall", None), (2, "roof", None), (3, "yard", "new")]


def test_columns_that_are_gone_or_of_another_type(
    spark: SparkSession, table: str, change_schema: Callable[..., None], tmp_path: Path
) -> None:
    sink = ParquetSink(spark, tmp_path)
    sink.take(spark.readStream.table(table))

    def longer(fields: list[Any]) -> None:
        fields[0]["type"] = ["null", "long"]

    change_schema(longer)
    with pytest.raises(StreamingQueryException, match="Column id of stream .* was int .* but is bigint now"):
        sink.take(spark.readStream.table(table))
    change_schema(lambda fields: fields.pop())
    with pytest.raises(StreamingQueryException, match=r"PRAVEGA_CHECKPOINT_MISMATCH.*read column \w+ \(\w+\)|was int"):
        sink.take(spark.readStream.table(table))
    sink.take(spark.readStream.option("schema-version", 0).table(table))
    assert sorted(row.id for row in sink.rows()) == [1, 2]


def test_a_column_that_is_changed_while_a_query_runs(
    spark: SparkSession, table: str, change_schema: Callable[..., None], tmp_path: Path
) -> None:
    """The query knows the columns of its start; the error says why it cannot go on, and what to do."""
    rows = spark.readStream.table(table)

    def of_text(fields: list[Any]) -> None:
        fields[0] = {"name": "id", "type": "string"}

    change_schema(of_text)
    spark.sql(f"INSERT INTO {table} VALUES ('three', 'yard')")
    said = r"cannot be decoded: .*\. It was written with version 1 .* reads with version 0: .*Start the query again"
    with pytest.raises(StreamingQueryException, match=f"PRAVEGA_MALFORMED_EVENT.*{said}"):
        run_available(rows.writeStream.format("noop"), tmp_path / "running")
    with pytest.raises(StreamingQueryException, match="was int .* but is string now"):
        run_available(spark.readStream.table(table).writeStream.format("noop"), tmp_path / "running")


def test_a_stream_that_was_made_again(spark: SparkSession, table: str, tmp_path: Path) -> None:
    sink = ParquetSink(spark, tmp_path)
    sink.take(spark.readStream.table(table))
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (id INT, place STRING)")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'yard')")
    with pytest.raises(StreamingQueryException, match="was dropped and recreated since the checkpoint"):
        sink.take(spark.readStream.table(table))


def test_checkpoints_of_others(spark: SparkSession, table: str, tmp_path: Path) -> None:
    sink = ParquetSink(spark, tmp_path)
    sink.take(spark.readStream.changes(table).select("id", "place"))
    with pytest.raises(StreamingQueryException, match="its offset .* is not one that a Pravega"):
        sink.take(spark.readStream.table(table))
    spark.sql(f"CREATE TABLE {table}2 (id INT, place STRING)")
    other = ParquetSink(spark, tmp_path / "other")
    other.take(spark.readStream.table(table))
    with pytest.raises(StreamingQueryException, match="belongs to a query on stream"):
        other.take(spark.readStream.table(f"{table}2"))


@pytest.mark.parametrize("start", [pytest.param("earliest", marks=pytest.mark.long), "latest"])
def test_the_first_micro_batch_is_done_again(spark: SparkSession, table: str, start: str, tmp_path: Path) -> None:
    """Where it began is known, although Spark asks for it again when there are events that it would begin behind."""
    found: list[list[int]] = []

    def take(batch: DataFrame, number: int) -> None:
        found.append(sorted(row.id for row in batch.collect()))
        if len(found) == 1:
            raise RuntimeError("the target is down")

    frame = spark.readStream.option("start-stream-cut", start).option("maxRowsPerTrigger", 1)
    query = frame.table(table).writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path)).start()
    try:
        with pytest.raises(StreamingQueryException, match="the target is down"):
            query.awaitTermination(60)
    finally:
        query.stop()
    spark.sql(f"INSERT INTO {table} VALUES (3, 'yard'), (4, 'yard')")
    run_available(frame.table(table).writeStream.foreachBatch(take), tmp_path)
    assert found[0] == found[1]
    assert len(found[0]) == (1 if start == "earliest" else 0)
    expected = [1, 2, 3, 4] if start == "earliest" else [3, 4]
    assert sorted(number for batch in found[1:] for number in batch) == expected


def test_events_that_retention_removed(
    spark: SparkSession, pravega: Pravega, scope: str, table: str, tmp_path: Path
) -> None:
    sink = ParquetSink(spark, tmp_path)
    sink.take(spark.readStream.table(table))
    spark.sql(f"INSERT INTO {table} VALUES (3, 'yard')")
    stream = Stream(scope, "sensor")
    pravega.controller.truncate_stream(measure_tail(pravega, stream))
    spark.sql(f"INSERT INTO {table} VALUES (4, 'yard')")
    with pytest.raises(StreamingQueryException, match=r"PRAVEGA_DATA_LOSS.*Bytes [\d,]+ to [\d,]+ of segment 0 of"):
        sink.take(spark.readStream.table(table))
    [batch] = sink.take(spark.readStream.option("failOnDataLoss", False).table(table))
    assert sorted(row.id for row in sink.rows()) == [1, 2, 4]
    metrics = batch["sources"][0]["metrics"]
    assert int(metrics["lostBytes"]) > 0
    assert metrics["lostRanges"] == "1"
    spark.sql(f"INSERT INTO {table} VALUES (5, 'yard')")
    sink.take(spark.readStream.table(table))  # once behind the loss, nothing has to be said of it any more
    assert sorted(row.id for row in sink.rows()) == [1, 2, 4, 5]


def test_a_table_that_is_dropped_while_it_is_read(spark: SparkSession, table: str, tmp_path: Path) -> None:
    query = spark.readStream.table(table).writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        spark.sql(f"DROP TABLE {table}")
        with pytest.raises(
            PySparkException, match="PRAVEGA_STREAM_NOT_FOUND.*any more: it (was|has been) dropped.*new checkpoint"
        ):
            query.awaitTermination(60)
    finally:
        query.stop()
