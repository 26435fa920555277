"""Queries of streams that Spark refuses are told, and those that it takes are not."""

from __future__ import annotations

import pytest

from pyspark_pravega.sql.flink.report import ALL_TRANSLATED, Severity
from pyspark_pravega.sql.flink.translation import translate

JSON = "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"


def declare_table(name: str, more: str = "") -> str:
    return (
        f"CREATE TABLE {name} (id INT, name STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = "
        f"'pravega', 'scope' = 'iot', 'scan.streams' = '{name}', 'sink.stream' = '{name}', {JSON}{more});"
    )


TABLES = (
    "SET 'state.checkpoints.dir' = '/c';"
    + declare_table("s")
    + declare_table("t")
    + declare_table("rest", ", 'scan.execution.type' = 'batch'")
    + "CREATE VIEW v AS SELECT id, ts FROM s;"
)
BOUND = "a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts"

REFUSED = [
    # aggregates
    ("SELECT MAX(id) FROM s", "without a window"),
    ("SELECT 1 + COUNT(*) FROM s", "without a window"),
    ("SELECT 1 FROM s HAVING COUNT(*) > 1", "without a window"),
    ("SELECT id FROM (SELECT SUM(id) AS id FROM s)", "without a window"),
    ("SELECT id FROM s GROUP BY id", "without a window"),
    ("SELECT DISTINCT id FROM s", "without a window"),
    ("SELECT DISTINCT MAX(id) FROM s GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)", "without a window"),
    ("WITH c AS (SELECT id FROM s) SELECT MAX(id) FROM c", "without a window"),
    ("SELECT MAX(id) FROM v", "without a window"),
    # joins
    ("SELECT a.id FROM s a LEFT JOIN t b ON a.id = b.id", "without an interval"),
    ("SELECT a.id FROM s a RIGHT OUTER JOIN t b ON a.id = b.id", "without an interval"),
    ("SELECT a.id FROM s a FULL JOIN v b ON a.id = b.id", "without an interval"),
    ("SELECT a.id FROM s a LEFT JOIN t b ON a.id = b.id AND a.ts > b.ts", "without an interval"),
    ("SELECT a.id FROM s a LEFT JOIN t b ON a.id = b.id AND a.id BETWEEN b.id AND b.id + 1", "without an interval"),
    (f"SELECT a.id FROM s a LEFT JOIN t b ON a.id = b.id WHERE {BOUND}", "without an interval"),
    (f"SELECT a.id FROM s a LEFT JOIN t b ON {BOUND}", "without an equality of columns"),
    ("SELECT a.id FROM s a, t b", "without an equality of columns"),
    ("SELECT a.id FROM s a CROSS JOIN t b WHERE a.id > b.id", "without an equality of columns"),
    ("SELECT a.id FROM s a, t b WHERE a.id = a.id", "without an equality of columns"),
    ("SELECT a.id FROM rest a LEFT JOIN s b ON a.id = b.id", "LEFT JOIN of a table"),
    ("SELECT a.id FROM s a RIGHT JOIN rest b ON a.id = b.id", "RIGHT JOIN of a table"),
    ("SELECT a.id FROM s a FULL JOIN rest b ON a.id = b.id", "FULL JOIN of a table"),
    ("SELECT a.id FROM rest r JOIN s a ON r.id = a.id LEFT JOIN t b ON a.id = b.id", "without an interval"),
    # inner queries
    ("SELECT id FROM s WHERE id NOT IN (SELECT id FROM t)", "IN, EXISTS"),
    ("SELECT id FROM s WHERE id IN (SELECT id FROM t)", "IN, EXISTS"),
    ("SELECT id FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.id = s.id)", "IN, EXISTS"),
    ("SELECT id FROM rest WHERE id IN (SELECT id FROM v)", "IN, EXISTS"),
    ("SELECT id FROM s WHERE id = (SELECT id FROM t)", "IN, EXISTS"),
    ("SELECT (SELECT id FROM t) FROM rest", "IN, EXISTS"),
    # sets
    ("SELECT id FROM s EXCEPT SELECT id FROM rest", "EXCEPT of a stream"),
    ("SELECT id FROM rest EXCEPT SELECT id FROM s", "EXCEPT of a stream"),
    ("SELECT id FROM s INTERSECT SELECT id FROM t", "INTERSECT of a stream"),
    ("SELECT id FROM s INTERSECT ALL SELECT id FROM t", "INTERSECT of a stream"),
    ("SELECT id FROM s UNION SELECT id FROM t", "UNION of a stream"),
    ("SELECT id FROM s UNION ALL SELECT id FROM rest", "UNION ALL of a stream and a table"),
    ("SELECT id FROM s UNION ALL SELECT 1", "UNION ALL of a stream and a table"),
    # order and number of rows
    ("SELECT id FROM s FETCH FIRST 5 ROWS ONLY", "neither sorts nor limits"),
    ("SELECT id FROM s LIMIT 5", "neither sorts nor limits"),
    ("SELECT id FROM s OFFSET 5 ROWS", "neither sorts nor limits"),
    ("SELECT id FROM s ORDER BY id", "neither sorts nor limits"),
    ("(SELECT id FROM s) FETCH NEXT ROW ONLY", "neither sorts nor limits"),
    ("SELECT id FROM (SELECT id FROM v FETCH FIRST 5 ROWS ONLY)", "neither sorts nor limits"),
    ("SELECT id FROM s UNION ALL SELECT id FROM t LIMIT 3", "neither sorts nor limits"),
]
TAKEN = [
    "SELECT MAX(id) FROM s GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
    "SELECT a.id FROM s a JOIN t b ON a.id = b.id",
    "SELECT a.id FROM s a, v b WHERE a.id = b.id",
    "SELECT id FROM s JOIN t USING (id)",
    f"SELECT a.id FROM s a LEFT JOIN t b ON a.id = b.id AND {BOUND}",
    f"SELECT a.id FROM s a FULL JOIN v b ON a.id = b.id AND {BOUND}",
    "SELECT a.id FROM s a LEFT JOIN t b ON a.id = b.id AND a.ts >= b.ts AND a.ts <= b.ts + INTERVAL '1' HOUR",
    "SELECT a.id FROM s a LEFT JOIN rest b ON a.id = b.id",
    "SELECT b.id FROM rest a RIGHT JOIN s b ON a.id = b.id",
    "SELECT id FROM s WHERE id IN (SELECT id FROM rest)",
    "SELECT id FROM s WHERE id IN (1, 2)",
    "SELECT id FROM s WHERE id = (SELECT MAX(id) FROM rest)",
    "SELECT id FROM s UNION ALL SELECT id FROM v",
    "SELECT a.id FROM s a JOIN (SELECT id FROM rest ORDER BY id LIMIT 3) b ON a.id = b.id",
    "SELECT MAX(id) FROM rest",
    "SELECT id FROM rest UNION SELECT id FROM rest FETCH FIRST 5 ROWS ONLY",
]


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_what_spark_refuses_is_told(query: str, reason: str) -> None:
    done = translate(f"{TABLES} INSERT INTO t (id) {query}")
    serious = [finding for finding in done.findings if finding.severity is not Severity.NOTE]
    assert reason in str(serious)


@pytest.mark.parametrize("query", TAKEN)
def test_what_spark_takes_is_translated(query: str) -> None:
    done = translate(f"{TABLES} INSERT INTO t (id) {query}")
    assert done.exit_code == ALL_TRANSLATED, done.findings
