"""A lake of a stream on a second cluster, whose retention runs all the time."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.conftest import add_catalog
from tests.catalog.lake.test_history_in_a_lake import (
    create,
    fails,
    ids,
    insert,
    name_table,
    read_stream,
    split_name,
    tier,
)
from tests.catalog.procedures.test_consumers import eventually

QUICK = "quick_tiered"


@pytest.fixture
def quick_lake(lake: dict[str, str], quick_spark: SparkSession, quick_cluster: ClusterInfo) -> str:
    """A catalog of the second cluster with the lakes of the first one."""
    add_catalog(quick_cluster, QUICK, lake)
    return QUICK


def test_one_of_two_clusters_has_the_lake(spark: SparkSession, quick_lake: str, scope: str) -> None:
    """Both have a stream of this name with the same segments, as a job that is moved or a copied conf makes them."""
    first, second = create(spark, scope, "t"), name_table(scope, "t", quick_lake)
    spark.sql(f"CREATE NAMESPACE {second.rpartition('.')[0]}")
    assert create(spark, scope, "t", quick_lake) == second
    insert(spark, second, 1000, 50)
    assert tier(spark, first).rows == 300
    for action in (partial(tier, spark, second), spark.table(second).collect):
        assert "or of one of another cluster" in fails(action, "PRAVEGA_LAKE_FAILED")
    insert(spark, first, 300, 10)
    assert tier(spark, first).rows == 10
    assert ids(spark.table(first)) == list(range(310))
    spark.sql(f"ALTER TABLE {second} SET TBLPROPERTIES ('lake'='{split_name(second)[1]}_second')")
    assert tier(spark, second).rows == 350
    assert ids(spark.table(second)) == [*range(300), *range(1000, 1050)]
    spark.sql(f"DROP NAMESPACE {second.rpartition('.')[0]} CASCADE")


def test_retention_waits_for_a_lake_that_is_behind(
    spark: SparkSession, quick_lake: str, scope: str, tmp_path: Path
) -> None:
    """The servers remove what they may all the time: what the lake has, and nothing that it lacks."""
    table = name_table(scope, "kept", quick_lake)
    namespace = table.rpartition(".")[0]
    spark.sql(f"CREATE NAMESPACE {namespace}")
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, text STRING) USING pravega TBLPROPERTIES "
        f"('lake'='{split_name(table)[1]}_quick', 'retention.type'='size', 'retention.minimum'='1')"
    )
    assert tier(spark, table).rows == 0  # from now on retention waits

    def read_left() -> list[int]:
        whole = "'lake'='ignore', 'fail-on-data-loss'='false'"  # retention removes events while they are read
        return ids(spark.sql(f"SELECT id FROM {table} WITH ({whole})"))

    for first in range(0, 400, 100):
        insert(spark, table, first, 100)
        eventually(read_left, list(range(first, first + 100)))  # what was tiered is gone, the rest stays
        assert ids(spark.table(table)) == list(range(first + 100))
        batches = read_stream(spark, table, tmp_path / str(first), **{"max-rows-per-trigger": "90"})
        assert sorted(row for batch in batches for row in batch) == list(range(first + 100))
        assert tier(spark, table).rows == 100
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
