"""Writes whose rows go to the streams that a column names: by streaming queries, and by data frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog

TARGETS = ("even", "odd_ones")


@pytest.fixture(scope="module")
def scope(spark: SparkSession) -> Iterator[str]:
    """A namespace with the table `any_one`, those of TARGETS, and one with other columns."""
    spark.sql("CREATE NAMESPACE pravega.targets")
    spark.sql("CREATE TABLE pravega.targets.any_one (id INT, name STRING) TBLPROPERTIES ('routing-key'='name')")
    for target in TARGETS:
        spark.sql(f"CREATE TABLE pravega.targets.{target} LIKE pravega.targets.any_one")
    spark.sql("CREATE TABLE pravega.targets.narrow (id INT)")
    spark.sql("CREATE TABLE pravega.targets.wide (id INT, name STRING, target STRING)")
    spark.sql("CREATE TABLE pravega.targets.wider LIKE pravega.targets.wide")
    yield "targets"
    spark.sql("DROP NAMESPACE pravega.targets CASCADE")


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in spark.table(f"pravega.targets.{table}").collect())


def versions(pravega: Pravega, stream: str) -> int:
    return len(CommitLog(pravega, Stream("targets", stream)).versions())


def named(spark: SparkSession, first: int, end: int) -> DataFrame:
    names = "IF(id % 2 = 0, 'even', 'odd_ones') AS target"
    return spark.range(first, end, numPartitions=3).selectExpr(
        "CAST(id AS INT) AS id", "concat('x', id) AS name", names
    )


def test_a_streaming_query_writes_each_row_once_to_its_stream(
    spark: SparkSession, pravega: Pravega, scope: str, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    for batch in range(2):
        named(spark, 100 * batch, 100 * batch + 100).write.mode("append").parquet(str(source))
        rows = spark.readStream.schema("id INT, name STRING, target STRING").parquet(str(source))
        writer = rows.writeStream.option("stream-column", "target").option("checkpointLocation", str(checkpoint))
        for again in (False, True):
            if again:  # Spark repeats the micro-batch
                for commit in (f"{batch}", f".{batch}.crc"):
                    (checkpoint / "commits" / commit).unlink()
            query = writer.trigger(availableNow=True).toTable("pravega.targets.any_one")
            assert query.awaitTermination(120)
            end = 100 * batch + 100
            assert ids(spark, "even") == list(range(0, end, 2))
            assert ids(spark, "odd_ones") == list(range(1, end, 2))
            assert [versions(pravega, stream) for stream in ("even", "odd-ones")] == [batch + 1] * 2
    assert ids(spark, "any_one") == []
    assert spark.table("pravega.targets.even").columns == ["id", "name"]


def test_a_data_frame_writes_to_several_streams(spark: SparkSession, scope: str) -> None:
    """By options, and with a table that has the column, which is then written."""
    before = ids(spark, "even"), ids(spark, "odd_ones")
    rows = named(spark, 1000, 1100)
    writer = rows.write.format("pravega").option("catalog", "pravega").option("scope", scope)
    writer.option("stream", "any-one").option("stream-column", "target").mode("append").save()
    assert ids(spark, "even") == before[0] + list(range(1000, 1100, 2))
    assert ids(spark, "odd_ones") == before[1] + list(range(1001, 1100, 2))
    wide = rows.selectExpr("id", "name", "IF(id < 1010, 'wide', 'wider') AS target")
    for _ in range(2):  # the second time it is known
        versioned = wide.writeTo("pravega.targets.wide").option("txn-app-id", "wide").option("txn-version", 1)
        versioned.option("stream-column", "Target").append()
        assert ids(spark, "wide") == list(range(1000, 1010))
        assert ids(spark, "wider") == list(range(1010, 1100))
    assert {row.target for row in spark.table("pravega.targets.wider").collect()} == {"wider"}


@pytest.mark.parametrize(
    ("target", "condition", "words"),
    [
        ("'nowhere'", "PRAVEGA_STREAM_NOT_FOUND", "no stream targets/nowhere, which 'target' names"),
        ("NULL", "PRAVEGA_INVALID_ROW", "'target', which names the stream of each row, is NULL"),
        pytest.param(
            "'other/even'",
            "PRAVEGA_INVALID_ROW",
            "'target' is 'other/even'.*must be the name of a stream",
            marks=pytest.mark.long,
        ),
        ("'narrow'", "PRAVEGA_INVALID_SCHEMA", "targets/narrow, which 'target' names.*id int"),
    ],
)
def test_a_wrong_name_leaves_nothing_visible(
    spark: SparkSession, scope: str, tmp_path: Path, target: str, condition: str, words: str
) -> None:
    before = {table: ids(spark, table) for table in (*TARGETS, "any_one", "narrow")}
    source = tmp_path / "rows"
    wrong = named(spark, 0, 100).selectExpr("id", "name", f"IF(id = 77, {target}, target) AS target")
    wrong.write.parquet(str(source))
    rows = spark.readStream.schema("id INT, name STRING, target STRING").parquet(str(source))
    writer = rows.writeStream.option("stream-column", "target").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(StreamingQueryException, match=rf"(?s){condition}.*{words}.*No row of this micro-batch"):
        writer.trigger(availableNow=True).toTable("pravega.targets.any_one").awaitTermination()
    assert {table: ids(spark, table) for table in before} == before


def test_options_that_do_not_fit(spark: SparkSession, scope: str) -> None:
    rows = named(spark, 0, 10)
    writer = rows.write.format("pravega").option("catalog", "pravega").option("scope", scope).mode("append")
    writer = writer.option("stream", "any-one")
    for options, words in (
        (
            {"stream-column": "targets"},
            "'stream-column'='targets' is not a column of the rows, which have id, name, tar",
        ),
        ({"stream-column": "id"}, "'stream-column'='id' is a column of type int"),
        ({"stream-column": "target", "write-mode": "at-least-once"}, "'write-mode'='at-least-once' asks for none"),
        ({"stream-column": "target", "txn-version": "1"}, "needs 'txn-app-id' too"),
    ):
        with pytest.raises(AnalysisException, match=f"PRAVEGA_INVALID_OPTION.*{words}"):
            writer.options(**options).save()
        writer = rows.write.format("pravega").option("catalog", "pravega").option("scope", scope).mode("append")
        writer = writer.option("stream", "any-one")
    entries = rows.selectExpr("id", "name", "target")
    spark.sql(
        "CREATE TABLE pravega.targets.entries (id INT, name STRING, target STRING) "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='id')"
    )
    with pytest.raises(AnalysisException, match="'stream-column' does not apply to targets/entries"):
        entries.writeTo("pravega.targets.entries").option("stream-column", "target").append()
