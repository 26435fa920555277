"""One query sees one state of each table, however often it names it; the next query sees the next state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from tests.catalog.queries.test_aggregates import plan
from tests.datasource.scans import begin_numbers, insert_numbers, keyed_table


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


PUSHED = [
    ("SELECT count(*) FROM {t}", "LocalTableScan"),
    ("SELECT count(*), max(v) FROM {t}", "; aggregates: "),
    ("SELECT k, max(v), sum(k) FROM {t} GROUP BY k", "; aggregates: "),
    ("SELECT v FROM {t} WHERE v >= 20", "; filters: "),
    ("SELECT v FROM {t} WHERE k = 3", "; routing key: "),
    ("SELECT max(v) FROM {t} WHERE k IN (3, 4)", "; aggregates: "),
    ("SELECT v FROM {t} WHERE _offset >= 0 AND v >= 20", "; filters: "),
    ("SELECT v FROM {t} WHERE v >= 20 LIMIT 5", "; limit: "),
    ("SELECT count(*) FROM {t} CHANGES FROM VERSION 1 WHERE v >= 0 AND _commit_version > 1", "; filters: "),
]
"""Queries, and what of their plan shows what is pushed into the scan."""


def test_events_of_an_open_transaction_are_in_no_answer(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    """What is pushed down sees no more than a scan of all rows."""
    table, stream = f"pravega.`{scope}`.open", keyed_table(Stream(scope, "open"))
    properties = "'format'='json', 'framing'='none', 'routing-key'='k', 'scaling.min-segments'='2'"
    spark.sql(f"CREATE TABLE {table} (k INT NOT NULL, v BIGINT) TBLPROPERTIES ({properties})")
    insert_numbers(pravega, stream, 0, 20)
    queries = [(spark.sql(text.format(t=table)), part) for text, part in PUSHED]
    assert [part for rows, part in queries if part not in plan(rows)] == []

    def answers() -> list[list[Row]]:
        return [sorted(spark.sql(text.format(t=table)).collect()) for text, _ in PUSHED]

    before = answers()
    commit = begin_numbers(pravega, stream, 20, 60)
    assert answers() == before
    commit()
    assert [text for (text, _), old, new in zip(PUSHED, before, answers(), strict=True) if old == new] == []
