"""INSERTs of keys that exist: with 'insert.conflict'='fail' the statement fails, and nothing is written."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.catalog.writing.test_row_changes import condition, create, history, rows

FAIL = {"insert.conflict": "fail", "scaling.min-segments": "2"}
COLUMNS = "id BIGINT, name STRING"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO {t} VALUES (3, 'c'), (1, 'x')", '{"id":1}, '),
        ("INSERT INTO {t} VALUES (3, 'c'), (3, 'd')", 'The INSERT changes the row of the key {"id":3} more than once'),
        ("INSERT INTO {t} SELECT id, upper(name) FROM {t} WHERE id = 2", '{"id":2}'),
        (
            "MERGE INTO {t} t USING (SELECT 2 AS k, 'z' AS n) s ON t.name = s.n WHEN MATCHED THEN DELETE "
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (k, n)",
            '{"id":2}',
        ),
        (
            "MERGE INTO {t} t USING (SELECT 2 AS k, 'z' AS n) s ON t.name = s.n "
            "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (k, n)",
            '{"id":2}',
        ),
        ("UPDATE {t} SET id = 2 WHERE id = 1", "Choose another key, or DELETE that row first"),
    ],
)
def test_a_key_that_exists_fails_the_statement(spark: SparkSession, scope: str, statement: str, message: str) -> None:
    table = create(spark, scope, "t", COLUMNS, **FAIL)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    raised = condition(spark, statement.format(t=table))
    assert raised.startswith("PRAVEGA_DUPLICATE_KEY") and message in raised
    assert rows(spark, table) == [(1, "a"), (2, "b")] and len(history(spark, table)) == 1


def test_what_does_not_insert_a_key_that_exists(spark: SparkSession, scope: str) -> None:
    table = create(spark, scope, "t", COLUMNS, **FAIL)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'new')")
    spark.sql(f"UPDATE {table} SET id = 3, name = 'c' WHERE id = 2")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT explode(array(2, 3)) AS k) s ON t.id = s.k "
        "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT (id, name) VALUES (k, 'inserted')"
    )
    assert rows(spark, table) == [(1, "new"), (2, "inserted"), (3, "merged")]
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('insert.conflict'='replace')")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'replaced')")
    assert rows(spark, table)[0] == (1, "replaced")


def test_one_of_many_inserts_of_a_key_wins(spark: SparkSession, scope: str) -> None:
    table = create(spark, scope, "t", COLUMNS, **FAIL)
    won: list[tuple[int, str]] = []

    def insert(worker: str) -> None:
        for id in range(5):
            try:
                spark.sql(f"INSERT INTO {table} VALUES ({id}, '{worker}')")
                won.append((id, worker))
            except PySparkException as error:
                assert error.getCondition() == "PRAVEGA_DUPLICATE_KEY" and error.getSqlState() == "23505", error

    threads = [threading.Thread(target=insert, args=(worker,)) for worker in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(spark, table) == sorted(won) and [id for id, _ in sorted(won)] == list(range(5))
    assert history(spark, table) == [("INSERT", 1)] * 5


def test_writes_that_cannot_be_checked_are_refused(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    assert "needs 'primary-key'" in condition(
        spark,
        f"CREATE TABLE pravega.`{scope}`.keyless (id BIGINT) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'insert.conflict'='fail')",
    )
    table = create(spark, scope, "t", COLUMNS, **FAIL)
    raised = condition(spark, f"INSERT INTO {table} WITH ('write-mode'='at-least-once') VALUES (1, 'a')")
    assert "'write-mode'='at-least-once' is not compared with the keys that exist" in raised
    events = f"pravega.`{scope}`.events"
    spark.sql(f"CREATE TABLE {events} ({COLUMNS}) USING pravega")
    spark.sql(f"INSERT INTO {events} VALUES (1, 'a')")
    writer = spark.readStream.table(events).writeStream.option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException, match=r"outputMode\('append'\) is not compared with the keys that exist"):
        writer.trigger(availableNow=True).toTable(table).awaitTermination()
    assert rows(spark, table) == []
