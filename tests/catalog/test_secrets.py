"""No secret is shown, and a user is refused what he may not do, by name."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo

WRONG = "quite-wrong-and-secret"


@pytest.fixture
def table(spark: SparkSession, fresh_name: str) -> Iterator[str]:
    """A table of two rows on the secured servers."""
    spark.sql(f"CREATE NAMESPACE secure.`{fresh_name}`")
    spark.sql(f"CREATE TABLE secure.`{fresh_name}`.t (a INT) USING pravega")
    spark.sql(f"INSERT INTO secure.`{fresh_name}`.t VALUES (1), (2)")
    yield f"`{fresh_name}`.t"
    spark.sql(f"DROP NAMESPACE secure.`{fresh_name}` CASCADE")


def catalog_of(spark: SparkSession, cluster: ClusterInfo, name: str, user: str, password: str) -> str:
    """Configure one more catalog on the secured servers."""
    prefix = f"spark.sql.catalog.{name}"
    spark.conf.set(prefix, "io.github.pysparkpravega.PravegaCatalog")
    for key, value in {
        "controller-uri": cluster.controller_uri,
        "schema-registry-uri": str(cluster.registry_uri),
        "security.trust-store": str(cluster.ca_file),
        "security.username": user,
        "security.password": password,
    }.items():
        spark.conf.set(f"{prefix}.{key}", value)
    return name


def test_statements_that_describe_show_no_secret(spark: SparkSession, table: str, secure_cluster: ClusterInfo) -> None:
    password = secure_cluster.users["admin"]
    token = base64.b64encode(f"admin:{password}".encode()).decode()
    shown = [
        str(row)
        for statement in (
            f"EXPLAIN EXTENDED SELECT * FROM secure.{table} WHERE a > 1",
            f"EXPLAIN EXTENDED INSERT INTO secure.{table} VALUES (3)",
            f"SHOW CREATE TABLE secure.{table}",
            f"DESCRIBE TABLE EXTENDED secure.{table}",
            f"SHOW TBLPROPERTIES secure.{table}",
        )
        for row in spark.sql(statement).collect()
    ]
    assert any("BatchScan" in text for text in shown)
    assert not [text for text in shown if password in text or token in text]


def test_a_wrong_password_is_named_and_not_shown(spark: SparkSession, table: str, secure_cluster: ClusterInfo) -> None:
    name = catalog_of(spark, secure_cluster, "wrong", "admin", WRONG)
    with pytest.raises(PySparkException, match="PRAVEGA_AUTHENTICATION_FAILED") as caught:
        spark.sql(f"SHOW TABLES IN {name}.{table.split('.')[0]}").collect()
    assert WRONG not in str(caught.value)


def test_a_reader_reads_and_is_refused_the_rest_by_name(
    spark: SparkSession, table: str, secure_cluster: ClusterInfo
) -> None:
    name = catalog_of(spark, secure_cluster, "reading", "reader", secure_cluster.users["reader"])
    assert sorted(row.a for row in spark.sql(f"SELECT a FROM {name}.{table}").collect()) == [1, 2]
    scope = table.split(".")[0]
    for statement in (
        f"INSERT INTO {name}.{table} VALUES (3)",
        f"CREATE TABLE {name}.{scope}.other (a INT) USING pravega",
        f"DROP TABLE {name}.{table}",
    ):
        with pytest.raises(PySparkException, match="PRAVEGA_PERMISSION_DENIED.*READ_UPDATE"):
            spark.sql(statement)
    assert spark.sql(f"SELECT count(*) FROM secure.{table}").first()[0] == 2
