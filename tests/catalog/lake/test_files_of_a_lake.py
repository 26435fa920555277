"""Files of a lake: how tasks share them, what is read of them, and what a read says of one that is gone."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from tests.catalog.lake.conftest import CATALOG
from tests.catalog.lake.test_history_in_a_lake import (
    create,
    fails,
    ids,
    insert,
    load_lake,
    name_table,
    split_name,
    tier,
)


def list_files(lake: dict[str, str], table: str) -> list[Path]:
    """Return the data files of a table's lake."""
    return [Path(task.file.file_path.removeprefix("file://")) for task in load_lake(lake, table).scan().plan_files()]


def test_all_cores_read_the_files_of_a_lake(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """Files of one segment too, which has one task in the stream; small ones share tasks."""
    table = name_table(scope, "t")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, text STRING) USING pravega TBLPROPERTIES ('lake'='{split_name(table)[1]}')"
    )
    for first in (0, 100, 200, 300):
        insert(spark, table, first, 100, "concat_ws('', transform(sequence(1, 200), n -> uuid()))")
        tier(spark, table)
    insert(spark, table, 400, 5)
    assert len(list_files(lake, table)) == 4
    rows = spark.sql(f"SELECT id FROM {table}")
    assert rows.rdd.getNumPartitions() == 4  # the last one reads the tail too
    assert ids(rows) == list(range(405))
    small = spark.sql(f"SELECT id FROM {create(spark, scope, 'small')}")
    assert small.rdd.getNumPartitions() == 1 and ids(small) == list(range(300))


def test_counts_read_no_column(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """The data of columns is overwritten; what is at the end of a file says how many rows there are."""
    table = create(spark, scope, "t")
    tier(spark, table)
    insert(spark, table, 300, 7)
    for file in list_files(lake, table):
        data = file.read_bytes()
        end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        file.write_bytes(data[:4] + b"\xff" * (end - 4) + data[end:])
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == 307
    assert spark.sql(f"SELECT count(*) FROM {table} WITH ('lake'='only')").first()[0] == 300
    fails(spark.table(table).collect, "PRAVEGA_LAKE_FAILED")


def test_a_file_that_is_gone_is_named(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """A query that was planned before a compaction, whose former files somebody has expired since."""
    table = create(spark, scope, "t")
    for first in (300, 400):
        tier(spark, table)
        insert(spark, table, first, 100)
    planned = spark.sql(f"SELECT id FROM {table}")
    former = list_files(lake, table)
    assert planned.rdd.getNumPartitions() >= 1  # they are planned now
    spark.sql(f"CALL {CATALOG}.system.compact_lake(table => '{split_name(table)[1]}')").collect()
    assert sorted(row.id for row in planned.rdd.collect()) == list(range(500)), "snapshots keep them"
    for file in {*former} - {*list_files(lake, table)}:
        file.unlink()
    told = fails(planned.collect, "PRAVEGA_LAKE_FAILED")
    assert "If it was removed after this query began, run the query again" in told
    assert ids(spark.sql(f"SELECT id FROM {table}")) == list(range(500))
    list_files(lake, table)[0].unlink()
    assert "pravega-" in fails(spark.table(table).collect, "PRAVEGA_LAKE_FAILED")


def test_the_stream_keeps_young_versions(spark: SparkSession, lake: dict[str, str], scope: str) -> None:
    """`lake.keep` removes what is older than that, and what the lake has had for as long."""
    table = create(spark, scope, "t", **{"lake.keep": "5s"})
    assert not tier(spark, table).truncated
    time.sleep(6)
    insert(spark, table, 300, 10)
    done = tier(spark, table)
    assert done.truncated and done.held_by is None
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == list(range(300, 310))
    assert ids(spark.table(table)) == list(range(310))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake.keep'='7d')")
    time.sleep(6)
    assert not tier(spark, table).truncated
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('lake.keep'='5s')")
    assert tier(spark, table).truncated
    assert ids(spark.sql(f"SELECT id FROM {table} WITH ('lake'='ignore')")) == []
    assert ids(spark.table(table)) == list(range(310))
