"""Rows go to the Python workers that write them in batches, which Spark's limits for Arrow batches bound."""

from __future__ import annotations

from pyspark.sql import SparkSession

ROWS = 12
RECORDS, BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"


def test_batches_have_so_many_rows_or_bytes_at_most(spark: SparkSession, fresh_name: str) -> None:
    """A row has 8 KB. Without a key, each of two segments gets one half of every batch."""
    spark.sql(f"CREATE NAMESPACE pravega.{fresh_name}")
    limits = {
        "whole": ({RECORDS: "0"}, [*range(ROWS // 2)]),
        "by rows": ({RECORDS: "4"}, [0, 1, 4, 5, 8, 9]),
        "by bytes": ({BYTES: "12000"}, [*range(0, ROWS, 2)]),
        "both": ({RECORDS: "4", BYTES: "44000"}, [0, 1, 4, 5, 8, 9]),
    }
    for name, (confs, first_half) in limits.items():
        table = f"pravega.{fresh_name}.`{name.replace(' ', '-')}`"
        session = spark.newSession()
        for key, value in confs.items():
            session.conf.set(key, value)
        session.sql(f"CREATE TABLE {table} (id INT, t STRING) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")
        session.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), repeat('x', 8192) FROM range(0, {ROWS}, 1, 1)")
        rows = session.sql(f"SELECT _segment, id FROM {table} WHERE length(t) = 8192 ORDER BY _offset").collect()
        segments = {row._segment for row in rows}
        halves = sorted([row.id for row in rows if row._segment == segment] for segment in segments)
        assert halves == [first_half, [row for row in range(ROWS) if row not in first_half]], name
    spark.sql(f"DROP NAMESPACE pravega.{fresh_name} CASCADE")
