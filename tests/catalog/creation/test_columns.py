"""Spark reads columns whose memory holds the next batch soon: what it keeps of one batch is right after all others."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from pyspark_pravega.datasource.scan.reader import BATCH_EVENTS

ROWS = 3 * BATCH_EVENTS
"""Of one segment, and so of one task."""
SOURCE = f"""
    SELECT id, concat('text ', hash(id), repeat('ż', int(id % 40))) AS t, IF(id % 7 = 0, NULL, hash(id, 1) % 1000) AS n,
      CAST(hash(id, 2) AS DECIMAL(20, 3)) AS d, CAST(concat('b', hash(id, 3)) AS BINARY) AS b,
      array(concat('a', id), NULL, concat('z', hash(id, 4))) AS a,
      map(concat('k', id % 3), concat('v', hash(id, 5))) AS m,
      named_struct('x', concat('x', hash(id, 6)), 'y', named_struct('z', array(id, -id), 'w', id % 5 = 0)) AS s,
      timestamp_micros(id * 1000003) AS at
    FROM range(0, {ROWS}, 1, 1)"""
QUESTIONS = {
    "one row of all": """
        SELECT count(*), max(t), min(t), max(d), min(b), max(s), max(a), sum(n), max(at), max_by(s.x, id), min_by(m, t),
          first(t), first(a), first(s), last(t), last(m), last(s), any_value(b), max(s.y.z) FROM rows""",
    "groups": """
        SELECT s.y.w, m['k1'] IS NULL AS k, n % 10 AS n, count(*), max(t), min(s), first(a), last(t), max_by(m, d)
        FROM rows GROUP BY 1, 2, 3""",
    "groups by text": "SELECT t, count(*), min(a), max(s.x) FROM rows WHERE id % 3 = 0 GROUP BY t",
    "collected": "SELECT sort_array(collect_list(t)), sort_array(collect_set(s.x)) FROM rows WHERE id % 101 = 0",
    "filtered": "SELECT * FROM rows WHERE t LIKE '%7%' AND n > 990 AND element_at(a, -1) > 'z' AND s.y.z[1] < 0",
    "sorted": "SELECT * FROM rows ORDER BY t DESC, id LIMIT 500",
    "exploded": """
        SELECT id, e, k, v FROM rows LATERAL VIEW explode(a) AS e LATERAL VIEW explode(m) AS k, v WHERE id % 50 = 1""",
    "before": "SELECT id, lag(t) OVER (ORDER BY id) AS l, lag(s) OVER (ORDER BY id) AS s FROM rows WHERE id % 40 = 2",
    "joined": "SELECT one.id, one.t, two.a, two.s FROM rows one JOIN rows two ON one.t = two.t WHERE one.id % 30 = 3",
    "Arrow UDF": """
        SELECT count(*), bit_xor(xxhash64(*)) FROM (SELECT id, shouted(t) AS u, t, n, d, b, a, s, at FROM rows)""",
    "Arrow UDF of several": """
        SELECT count(*), bit_xor(xxhash64(*)) FROM (SELECT id, shouted(concat(t, n)) AS u, a, s FROM rows)""",
    "no columns": "SELECT count(*), count(1) FROM rows WHERE length('x') = 1",
}


def shouted(texts: pa.Array) -> pa.Array:
    """Spark keeps the columns beside those that an Arrow UDF takes, while later batches come in."""
    return pc.utf8_upper(texts)


@pytest.fixture
def table(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """The rows in one segment."""
    spark.sql(f"CREATE NAMESPACE pravega.{fresh_name}")
    spark.sql(f"CREATE TABLE pravega.{fresh_name}.t USING pravega TBLPROPERTIES ('format'='avro') AS {SOURCE}")
    yield f"pravega.{fresh_name}.t"
    spark.sql(f"DROP NAMESPACE pravega.{fresh_name} CASCADE")


@pytest.mark.parametrize("generated", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_what_is_kept_of_a_batch_outlives_it(spark: SparkSession, table: str, generated: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", generated)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.udf.register("shouted", arrow_udf(shouted, "string"))  # type: ignore[call-overload]

    def answers(rows: DataFrame) -> dict[str, list[str]]:
        rows.createOrReplaceTempView("rows")
        return {name: sorted(map(repr, session.sql(text).collect())) for name, text in QUESTIONS.items()}

    read = session.table(table)
    plan = read._jdf.queryExecution().executedPlan().toString()
    assert "ColumnarToRow" in plan
    wanted, found = answers(session.sql(SOURCE)), answers(read)
    for name in QUESTIONS:
        assert found[name] == wanted[name], name
