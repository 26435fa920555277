"""Tables as streams: micro-batches that together are the events, each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.streams import ParquetSink, into_memory


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
    for number in range(3):
        spark.sql(f"INSERT INTO {table} SELECT id, 'x' FROM range({number * 10}, {number * 10 + 10})")
        [progress] = sink.take(rows)
        assert progress["numInputRows"] == 10
        assert sink.take(rows) == []
    assert sorted(row.id for row in sink.rows()) == list(range(30))


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
