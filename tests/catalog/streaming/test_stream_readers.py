"""Front ends that read a table while a streaming query of another program writes into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql_clients import SqlClient, SqlError

ROWS = 100
"""Of each micro-batch."""


@pytest.mark.parametrize(("sql", "catalog_name"), [("spark-sql", "pravega"), ("jdbc", "secure")], indirect=True)
def test_they_see_whole_micro_batches(
    request: pytest.FixtureRequest, sql: SqlClient, catalog_name: str, fresh_name: str, tmp_path: Path
) -> None:
    spark = request.getfixturevalue("secure_spark" if catalog_name == "secure" else "spark")
    namespace = f"{catalog_name}.{fresh_name}"
    table = f"{namespace}.t"
    sql.run(f"CREATE NAMESPACE {namespace}")
    sql.run(f"CREATE TABLE {table} (timestamp TIMESTAMP, value BIGINT) TBLPROPERTIES ('scaling.min-segments'='3')")
    rate = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=ROWS, numPartitions=2).load()
    query = rate.writeStream.option("checkpointLocation", str(tmp_path)).toTable(table)
    try:
        counts = [0]
        while len(set(counts)) < 4:
            assert query.exception() is None
            [(count, different, greatest)] = sql.run(f"SELECT count(*), count(DISTINCT value), max(value) FROM {table}")
            assert count == different and greatest == (str(int(count) - 1) if int(count) else "NULL")
            counts.append(int(count))
        with pytest.raises(SqlError, match=r"SELECT \.\.\. FROM STREAM is not possible on .*: its rows have no end"):
            sql.run(f"SELECT value FROM STREAM {table}")
    finally:
        query.stop()
    assert counts == sorted(counts) and all(count % ROWS == 0 for count in counts)
    versions = sql.run(
        f"SELECT _commit_version, count(*), min(value), max(value) FROM {table} CHANGES FROM VERSION 1 TO VERSION 3 "
        "GROUP BY _commit_version ORDER BY _commit_version"
    )
    assert [tuple(map(int, row)) for row in versions] == [
        (number, ROWS, ROWS * (number - 1), ROWS * number - 1) for number in range(1, 4)
    ]
    sql.run(f"DROP NAMESPACE {namespace} CASCADE")
