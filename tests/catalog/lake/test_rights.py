"""Who may tier and read: rights to the stream are those of Pravega, rights to the lake those of its catalog."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.test_history_in_a_lake import fails, ids, insert, name_table, split_name, tier
from tests.catalog.storage.test_secrets import catalog_of


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
