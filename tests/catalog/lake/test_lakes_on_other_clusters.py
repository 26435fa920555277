"""Lakes of streams on other clusters: one whose retention runs all the time, and one with users."""

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
    flatten,
    ids,
    insert,
    name_table,
    read_stream,
    split_name,
    tier,
)
from tests.catalog.procedures.test_consumers import eventually
from tests.catalog.storage.test_secrets import catalog_of

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
        assert sorted(flatten(batches)) == list(range(first + 100))
        assert tier(spark, table).rows == 100
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")


def add_user(spark: SparkSession, cluster: ClusterInfo, user: str, lake: dict[str, str]) -> str:
    """Add a catalog of a user on the secured servers, with lakes."""
    name = catalog_of(spark, cluster, f"tiered_{user}", user, cluster.users[user])
    for key, text in lake.items():
        spark.conf.set(f"spark.sql.catalog.{name}.lake.{key}", text)
    return name


def test_rights_of_tier(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, lake: dict[str, str], secure_scope: str
) -> None:
    """READ on the stream is enough, unless retention has to wait."""
    spark = secure_spark
    admin, reader, nobody = (add_user(spark, secure_cluster, user, lake) for user in ("admin", "reader", "nobody"))
    table = name_table(secure_scope, "t", admin)
    of_lake = f"TBLPROPERTIES ('lake'='{split_name(table)[1]}')"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, text STRING) USING pravega {of_lake}")
    insert(spark, table, 0, 50)
    for_reader, for_nobody = (name_table(secure_scope, "t", user) for user in (reader, nobody))
    fails(partial(tier, spark, for_nobody), "PRAVEGA_PERMISSION_DENIED")
    assert tier(spark, for_reader).rows == 50
    insert(spark, table, 50, 10)
    spark.sql(f"CALL {admin}.system.truncate_stream(table => '{split_name(table)[1]}', before => 1)").collect()
    for each in (table, for_reader):
        assert ids(spark.table(each)) == list(range(60))
    fails(lambda: spark.table(for_nobody).collect(), "PRAVEGA_PERMISSION_DENIED")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('retention.type'='size', 'retention.minimum'='1g')")
    assert "READ_UPDATE" in fails(partial(tier, spark, for_reader), "PRAVEGA_PERMISSION_DENIED")
    assert tier(spark, table).rows == 10
    assert ids(spark.table(for_reader)) == list(range(60))
