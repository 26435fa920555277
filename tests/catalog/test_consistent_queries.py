"""One query sees one state of each table, however often it names it; the next query sees the next state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    name = f"pravega.`{scope}`.numbers"
    spark.sql(
        f"CREATE TABLE {name} (v BIGINT) USING pravega TBLPROPERTIES ('format'='json', 'scaling.min-segments'='2')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(100)")
    return name


@contextmanager
def inserting(spark: SparkSession, table: str) -> Iterator[None]:
    """INSERT without pause while the block runs."""
    over = threading.Event()
    failures: list[BaseException] = []

    def insert() -> None:
        try:
            while not over.is_set():
                spark.sql(f"INSERT INTO {table} SELECT id FROM range(100)")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not failures


QUERIES = [
    "SELECT count(*) = (SELECT count(v) FROM {t}) FROM {t}",
    "SELECT max(n) = min(n) FROM (SELECT count(*) AS n FROM {t} UNION ALL SELECT count(v) FROM {t} WHERE v >= 0)",
    "SELECT max(n) = min(n) FROM (SELECT count(*) AS n FROM {t} CHANGES FROM VERSION 1 UNION ALL "
    "SELECT count(v) FROM {t} CHANGES FROM VERSION 1 WHERE v >= 0)",
    "WITH w AS (SELECT count(*) AS n FROM {t}) SELECT a.n = b.n FROM w a JOIN (SELECT sum(1) AS n FROM {t}) b",
]


def test_all_scans_of_a_query_end_at_the_same_tail(spark: SparkSession, table: str) -> None:
    with inserting(spark, table):
        for number in range(8):
            query = QUERIES[number % len(QUERIES)].format(t=table)
            assert spark.sql(query).first() == (True,), query


def test_a_frame_made_before_an_insert_shows_its_rows(spark: SparkSession, table: str) -> None:
    frame = spark.table(table).selectExpr("count(*)")
    assert frame.first() == (100,)
    spark.sql(f"INSERT INTO {table} VALUES (1000)")
    assert frame.first() == (101,)
    assert spark.table(table).agg({"v": "max"}).first() == (1000,)


def test_a_cached_table_is_used_and_follows_its_inserts(spark: SparkSession, table: str) -> None:
    frame = spark.table(table)
    frame.cache()
    try:
        assert frame.count() == 100
        assert "InMemoryTableScan" in spark.table(table)._jdf.queryExecution().executedPlan().toString()
        spark.sql(f"INSERT INTO {table} VALUES (1000)")
        assert spark.table(table).count() == 101
    finally:
        frame.unpersist()


def test_a_table_made_again_is_another_one(spark: SparkSession, table: str) -> None:
    frame = spark.table(table)
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (v BIGINT) USING pravega TBLPROPERTIES ('format'='json')")
    with pytest.raises(PySparkException, match="TABLE_ID_MISMATCH|ID_MISMATCH|numbers"):
        frame.collect()
    assert spark.table(table).collect() == []
