"""CHAR(n) and VARCHAR(n) on each way to write, which all do what Spark's INSERT does."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.script.statement_failures import ScriptFailedError
from pyspark_pravega.sql.script import split_script

COLUMNS = "id INT NOT NULL, c CHAR(3), a ARRAY<VARCHAR(2)>, m MAP<STRING, CHAR(2)>, s STRUCT<x: VARCHAR(2), y: INT>"
FITS = "'é' AS c, array('b ', 'b  ') AS a, map('k', 'd') AS m, named_struct('x', 'ef   ', 'y', 1) AS s"
LONG = {
    "c": "'abcd' AS c, array('b') AS a, map('k', 'd') AS m, named_struct('x', 'e', 'y', 1) AS s",
    "s.x": "'a' AS c, array('b') AS a, map('k', 'd') AS m, named_struct('x', 'efg', 'y', 1) AS s",
}


@pytest.fixture(scope="module")
def scope(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE NAMESPACE pravega.lengths")
    yield "lengths"
    spark.sql("DROP NAMESPACE pravega.lengths CASCADE")


def rows(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    found = spark.table(table).selectExpr("c", "a", "m", "s.x", "s.y")
    return [tuple(row) for row in found.collect()]


def by_options(rows: DataFrame, name: str, path: Path, **options: str) -> None:
    writer = rows.write.options(**options).format("pravega").option("catalog", "pravega").option("scope", "lengths")
    writer.option("stream", name.replace("_", "-")).mode("append").save()


def without_transaction(rows: DataFrame, name: str, path: Path) -> None:
    by_options(rows, name, path, **{"write-mode": "at-least-once"})


def by_stream(rows: DataFrame, name: str, path: Path, **options: str) -> None:
    rows.write.parquet(str(path / "rows"))
    source = rows.sparkSession.readStream.schema(rows.schema).parquet(str(path / "rows"))
    writer = source.writeStream.options(**options).option("checkpointLocation", str(path / "checkpoint"))
    query = writer.trigger(availableNow=True).toTable(f"pravega.lengths.{name}")
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def into_several(rows: DataFrame, name: str, path: Path) -> None:
    by_stream(rows.selectExpr("*", f"'{name}' AS target"), name, path, **{"stream-column": "target"})


def by_streaming_insert(rows: DataFrame, name: str, path: Path) -> None:
    spark, source = rows.sparkSession, f"pravega.lengths.from_{uuid.uuid4().hex}"
    rows.writeTo(source).using("pravega").create()
    script = f"""
    SET pravega.stream.checkpoint = '{path / "checkpoint"}'; SET pravega.stream.trigger = 'available now';
    INSERT INTO pravega.lengths.{name} BY NAME SELECT * FROM STREAM {source};
    """
    runner = ScriptRunner(spark.newSession(), split_script(script), ProgressDisplay(io.StringIO()))
    assert runner.run(lambda: False)


WAYS = [by_options, without_transaction, by_stream, into_several, by_streaming_insert]


@pytest.mark.parametrize("way", WAYS)
def test_each_way_writes_what_insert_writes(
    spark: SparkSession, scope: str, tmp_path: Path, way: Callable[[DataFrame, str, Path], None]
) -> None:
    name = way.__name__
    table = f"pravega.lengths.{name}"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING pravega TBLPROPERTIES ('format'='json')")
    spark.sql(f"INSERT INTO {table} SELECT 1, {FITS}")
    [inserted] = rows(spark, table)
    way(spark.sql(f"SELECT 2 AS id, {FITS}"), name, tmp_path)
    assert rows(spark, table) == [inserted, inserted]
    for column, values in LONG.items():
        said = "EXCEED_LIMIT_LENGTH"
        if way is not by_streaming_insert:  # Spark itself checks that one, as it does any INSERT
            said = rf"(?s)column '{column}' is a text of . characters.*{said}"
        with pytest.raises((PySparkException, ScriptFailedError), match=said):
            way(spark.sql(f"SELECT 3 AS id, {values}"), name, tmp_path / column)
    assert len(rows(spark, table)) == 2


def test_key_value_tables(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """Their keys too, and UPDATE and MERGE."""
    table = "pravega.lengths.entries"
    properties = "'format'='kvtable', 'value-format'='json', 'primary-key'='k(6)'"
    spark.sql(f"CREATE TABLE {table} (k CHAR(3), v VARCHAR(2)) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} VALUES ('a', 'x ')")
    by_stream(spark.sql("SELECT 'a  ' AS k, 'yz ' AS v UNION ALL SELECT 'b', 'z'"), "entries", tmp_path)
    assert sorted(tuple(row) for row in spark.table(table).collect()) == [("a  ", "yz"), ("b  ", "z")]
    for place, values in enumerate(("'abcd' AS k, 'x' AS v", "'a' AS k, 'xyz' AS v")):
        with pytest.raises(PySparkException, match="(?s)column '[kv]' is a text of . characters.*EXCEED_LIMIT_LENGTH"):
            by_stream(spark.sql(f"SELECT {values}"), "entries", tmp_path / str(place))
    spark.sql(f"UPDATE {table} SET v = 'n ' WHERE k = 'b'")
    for statement in (
        f"UPDATE {table} SET v = 'xyz'",
        f"MERGE INTO {table} USING (SELECT 'a' AS k) AS s ON {table}.k = s.k WHEN MATCHED THEN UPDATE SET v = 'xyz'",
    ):
        with pytest.raises(PySparkException, match="EXCEED_LIMIT_LENGTH"):
            spark.sql(statement)
    assert sorted(tuple(row) for row in spark.table(table).collect()) == [("a  ", "yz"), ("b  ", "n ")]


def test_fields_of_structs_go_by_their_names(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    for format in ("avro", "json"):
        table = f"pravega.lengths.turned_{format}"
        spark.sql(f"CREATE TABLE {table} (s STRUCT<x: INT, y: INT>) USING pravega TBLPROPERTIES ('format'='{format}')")
        turned = spark.sql("SELECT named_struct('y', 2, 'x', 1) AS s")
        by_options(turned, f"turned-{format}", tmp_path)
        by_stream(turned, f"turned_{format}", tmp_path / format)
        assert [tuple(row.s) for row in spark.table(table).collect()] == [(1, 2)] * 2
