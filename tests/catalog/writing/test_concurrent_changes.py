"""Statements that change rows at the same time: each depends on what it has read, and fails if that has changed."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.catalog.writing.conftest import Gate
from tests.catalog.writing.test_row_changes import create, history, rows
from tests.processes import descendants, running

CONFLICTS = [
    # lost update
    ("serializable", "UPDATE {t} SET name = gate('x') WHERE id = 1", "UPDATE {t} SET name = 'y' WHERE id = 1", True),
    ("snapshot", "UPDATE {t} SET name = gate('x') WHERE id = 1", "DELETE FROM {t} WHERE id = 1", True),
    ("snapshot", "DELETE FROM {t} WHERE gate(name) = 'a'", "INSERT INTO {t} VALUES (1, 'z', 0, 'v')", True),
    # other rows
    ("serializable", "UPDATE {t} SET name = gate('x') WHERE id = 1", "UPDATE {t} SET name = 'y' WHERE id = 2", False),
    ("snapshot", "UPDATE {t} SET name = gate(name) || '!'", "INSERT INTO {t} VALUES (3, 'c', 0, 'v')", False),
    # phantom by predicate
    (
        "serializable",
        "UPDATE {t} SET name = gate('x') WHERE n = 0",
        "INSERT INTO {t} VALUES (3, 'c', 0, 'v')",
        True,
    ),
    (
        "serializable",
        "UPDATE {t} SET name = gate('x') WHERE n = 0",
        "INSERT INTO {t} VALUES (3, 'c', 9, 'v')",
        False,
    ),
    # write skew: each depends on a row that the other changes
    (
        "serializable",
        "UPDATE {t} SET n = length(gate('12')) WHERE id = 1 AND (SELECT sum(n) FROM {t}) = 0",
        "UPDATE {t} SET n = 5 WHERE id = 2",
        True,
    ),
    (
        "snapshot",
        "UPDATE {t} SET n = length(gate('12')) WHERE id = 1 AND (SELECT sum(n) FROM {t}) = 0",
        "UPDATE {t} SET n = 5 WHERE id = 2",
        False,
    ),
    # the columns of conditions have types that Spark's have not, and the property has capitals
    ("SNAPSHOT", "DELETE FROM {t} WHERE v = gate('v')", "INSERT INTO {t} VALUES (3, 'c', 0, 'v')", False),
    (
        "Serializable",
        "DELETE FROM {t} WHERE v = 'v' AND gate(v) > ''",
        "INSERT INTO {t} VALUES (3, 'c', 0, 'v')",
        True,
    ),
    (
        "serializable",
        "DELETE FROM {t} WHERE v = 'v' AND gate(v) > ''",
        "INSERT INTO {t} VALUES (3, 'c', 0, 'w')",
        False,
    ),
    # what inserts rows that it does not find
    (
        "snapshot",
        "MERGE INTO {t} t USING (SELECT 9 AS k) s ON t.id = s.k WHEN NOT MATCHED "
        "THEN INSERT (id, name) VALUES (k, gate('x'))",
        "INSERT INTO {t} VALUES (9, 'y', 0, 'v')",
        True,
    ),
    ("serializable", "INSERT INTO {t} SELECT id + 10, gate(name), n, v FROM {t}", "DELETE FROM {t} WHERE id = 2", True),
    # a MERGE depends on all rows
    (
        "serializable",
        "MERGE INTO {t} t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET name = gate('x')",
        "UPDATE {t} SET name = 'y' WHERE id = 2",
        True,
    ),
]


@pytest.mark.parametrize(("isolation", "statement", "meanwhile", "conflicts"), CONFLICTS)
def test_concurrent_changes(
    spark: SparkSession, scope: str, gate: Gate, isolation: str, statement: str, meanwhile: str, conflicts: bool
) -> None:
    columns = "id BIGINT, name STRING, n INT, v VARCHAR(5)"
    table = create(spark, scope, "t", columns, **{"changes.isolation": isolation})
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a', 0, 'v'), (2, 'b', 0, 'v')")
    with ThreadPoolExecutor() as threads:
        late = threads.submit(lambda: spark.sql(statement.format(t=table)))
        gate.wait(late)
        spark.sql(meanwhile.format(t=table))
        before = rows(spark, table)
        gate.opened.touch()
        if not conflicts:
            late.result()
            assert len(history(spark, table)) == 3 and rows(spark, table) != before
            return
        with pytest.raises(PySparkException) as raised:
            late.result()
    assert raised.value.getCondition() == "PRAVEGA_CONCURRENT_CHANGE" and raised.value.getSqlState() == "40001"
    assert rows(spark, table) == before and len(history(spark, table)) == 2


def test_a_service_that_dies_before_the_commit(spark: SparkSession, scope: str, gate: Gate) -> None:
    """Another one takes the transaction over, looks for conflicts, and commits it."""
    table = create(spark, scope, "t", "id BIGINT, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
    with ThreadPoolExecutor() as threads:
        late = threads.submit(lambda: spark.sql(f"UPDATE {table} SET name = gate('x') WHERE id = 1"))
        gate.wait(late)
        for pid in descendants(jvm):
            if "pyspark_pravega.catalog.service" in running(pid):
                os.kill(pid, signal.SIGKILL)
        gate.opened.touch()
        late.result()
    assert rows(spark, table) == [(1, "x"), (2, "b")] and len(history(spark, table)) == 2
