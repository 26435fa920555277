"""Rights to key-value tables: READ alone reads, and every write is refused by name before it has begun."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of


def test_a_user_with_read_alone(secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str) -> None:
    spark, place = secure_spark, f"`{secure_scope}`.machine"
    properties = "'format'='kvtable', 'primary-key'='id', 'partitions'='2'"
    spark.sql(f"CREATE TABLE secure.{place} (id INT, n INT) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO secure.{place} VALUES (1, 10), (2, 20), (3, 30)")
    expected = [(1, 10), (2, 20), (3, 30)]

    def found(table: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in spark.table(table).collect())

    name = catalog_of(spark, secure_cluster, "kv_reading", "reader", secure_cluster.users["reader"])
    table = f"{name}.{place}"
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {name}.`{secure_scope}`").collect()] == ["machine"]
    assert spark.table(table).columns == ["id", "n"]
    assert found(table) == expected
    assert [tuple(row) for row in spark.sql(f"SELECT n FROM {table} WHERE id = 2").collect()] == [(20,)]

    right = f"READ_UPDATE on 'prn::/scope:{secure_scope}/stream:machine_kvtable'"
    for statement in (
        f"INSERT INTO {table} SELECT id, 0 FROM {table}",
        f"INSERT INTO {table} VALUES (4, 40)",
        f"DELETE FROM {table} WHERE n > 10",
        f"DELETE FROM {table}",
        f"TRUNCATE TABLE {table}",
        f"UPDATE {table} SET n = n + 1",
        f"MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"MERGE INTO {table} t USING (SELECT 9 id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (9, 9)",
    ):
        with pytest.raises(PySparkException) as raised:
            spark.sql(statement).collect()
        said = str(raised.value)
        assert raised.value.getCondition() == "PRAVEGA_PERMISSION_DENIED", said
        assert f"write to key-value table '{secure_scope}/machine'" in said and right in said, said
    create = f"CREATE TABLE {name}.`{secure_scope}`.more (id INT, n INT) USING pravega"
    for statement, lacks in {
        f"DROP TABLE {table}": "key-value-table:machine",
        f"{create} TBLPROPERTIES ({properties})": "scope",
    }.items():
        with pytest.raises(PySparkException, match=f"(?s)PRAVEGA_PERMISSION_DENIED.*READ_UPDATE.*{lacks}"):
            spark.sql(statement)
    assert found(f"secure.{place}") == expected
    spark.sql(f"TRUNCATE TABLE secure.{place}")
    with pytest.raises(PySparkException, match=re.escape(right)):
        spark.sql(f"TRUNCATE TABLE {table}")


def test_the_rights_of_the_page_are_enough(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str
) -> None:
    """docs/key-value-tables.md and docs/views.md: without any right to a stream of the name."""
    spark, scope = secure_spark, f"`{secure_scope}`"
    properties = "'format'='kvtable', 'primary-key'='id', 'partitions'='2'"
    spark.sql(f"CREATE TABLE secure.{scope}.machine (id INT, n INT) TBLPROPERTIES ({properties})")
    spark.sql(f"CREATE TABLE secure.{scope}.single AS SELECT 7 AS a")
    spark.sql(f"USE secure.{scope}")
    try:
        spark.sql("CREATE VIEW doubled AS SELECT 2 * a AS b FROM single")
    finally:
        spark.sql("USE spark_catalog.default")
    name = catalog_of(spark, secure_cluster, "kv_entries", "entries", secure_cluster.users["entries"])
    table = f"{name}.{scope}.machine"
    spark.sql(f"INSERT INTO {table} VALUES (1, 10), (2, 20)")
    spark.sql(f"UPDATE {table} SET n = 30 WHERE id = 2")
    assert sorted(tuple(row) for row in spark.table(table).collect()) == [(1, 10), (2, 30)]
    assert [tuple(row) for row in spark.table(f"{name}.{scope}.doubled").collect()] == [(14,)]
    assert spark.catalog.tableExists(table)
    with pytest.raises(PySparkException, match="READ on 'prn::/scope:.*/stream:hidden'"):
        spark.table(f"{name}.{scope}.hidden")
    spark.sql(f"DROP TABLE {table}")
    assert not spark.catalog.tableExists(f"secure.{scope}.machine")
