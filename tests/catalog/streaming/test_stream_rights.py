"""Rights of streaming queries: the documented ones are enough, and without one of them nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of
from tests.streams import run_available


@pytest.mark.parametrize(
    ("user", "target", "lacks"),
    [
        ("sink", "target", None),
        ("appender", "target", "pyspark-pravega-commits_kvtable"),
        ("sink", "other", "other"),
    ],
)
def test_a_query_with_the_rights_to_its_tables(
    secure_spark: SparkSession,
    secure_cluster: ClusterInfo,
    secure_scope: str,
    tmp_path: Path,
    user: str,
    target: str,
    lacks: str | None,
) -> None:
    """`appender` may write the table, but not the commit table in which a micro-batch is recorded.

    A right that is missing is found before a task runs, which would fail here.
    """
    source, target = (f"`{secure_scope}`.{name}" for name in ("source", target))
    for each in (source, target):
        secure_spark.sql(f"CREATE TABLE secure.{each} (a INT) USING pravega")
    secure_spark.sql(f"INSERT INTO secure.{source} VALUES (1), (2)")
    name = catalog_of(secure_spark, secure_cluster, user, user, secure_cluster.users[user])

    def run(mode: str, rows: str) -> None:
        read = secure_spark.readStream.table(f"{name}.{source}").where(rows)
        writer = (
            read.writeStream.option("write-mode", mode)
            .option("checkpointLocation", str(tmp_path / mode))
            .trigger(availableNow=True)
        )
        query = writer.toTable(f"{name}.{target}")
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()

    def count() -> int:
        return secure_spark.table(f"secure.{target}").count()

    if lacks is None:
        run("transactional", "true")
        assert count() == 2
        return
    with pytest.raises(StreamingQueryException, match=f"PRAVEGA_PERMISSION_DENIED.*READ_UPDATE.*{lacks}"):
        run("transactional", "assert_true(a < 0) IS NULL")
    assert count() == 0
    if user == "appender":
        run("at-least-once", "true")
        assert count() == 2


def test_a_stream_of_one_table_needs_no_other_rights(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str, tmp_path: Path
) -> None:
    """READ on the stream and on its group in the schema registry."""
    secure_spark.sql(f"CREATE TABLE secure.`{secure_scope}`.single (a INT) USING pravega")
    secure_spark.sql(f"INSERT INTO secure.`{secure_scope}`.single VALUES (1), (2)")
    name = catalog_of(secure_spark, secure_cluster, "single", "single", secure_cluster.users["single"])
    rows = secure_spark.readStream.table(f"{name}.`{secure_scope}`.single")
    [batch] = run_available(rows.writeStream.format("noop"), tmp_path)
    assert batch["numInputRows"] == 2
