"""The source `pravega` of `spark.read`, `df.write` and temporary views, which need no catalog."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo


@pytest.fixture
def options(spark: SparkSession, scope: str, cluster: ClusterInfo) -> dict[str, str]:
    """How to reach a new table of two segments."""
    spark.sql(
        f"CREATE TABLE pravega.`{scope}`.rooms (id INT NOT NULL, temp DOUBLE) USING pravega "
        "TBLPROPERTIES ('format'='json', 'routing-key'='id', 'scaling.min-segments'='2')"
    )
    return {
        "controller-uri": cluster.controller_uri,
        "schema-registry-uri": str(cluster.registry_uri),
        "scope": scope,
        "stream": "rooms",
    }


def test_what_is_written_is_read_with_and_without_the_catalog(
    spark: SparkSession, scope: str, options: dict[str, str]
) -> None:
    rows = spark.range(0, 1000, 1, 3).selectExpr("CAST(id AS INT) AS id", "id / 4 AS temp")
    rows.write.format("pravega").mode("append").options(**options).save()
    found = spark.read.format("pravega").options(**options).load()
    assert found.columns == ["id", "temp", "_segment", "_offset", "_event_pointer"]
    wanted = [(number, number / 4) for number in range(1000)]
    assert sorted(tuple(row) for row in found.select("id", "temp").collect()) == wanted
    assert sorted(tuple(row) for row in spark.table(f"pravega.`{scope}`.rooms").collect()) == wanted
    assert found.count() == 1000
    assert found.select("_segment").distinct().count() == 2


def test_a_temporary_view(spark: SparkSession, scope: str, options: dict[str, str]) -> None:
    spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES (1, 20.5), (2, NULL)")
    given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW rooms USING pravega OPTIONS ({given})")
    try:
        assert [tuple(row) for row in spark.sql("SELECT id, temp FROM rooms ORDER BY id").collect()] == [
            (1, 20.5),
            (2, None),
        ]
    finally:
        spark.catalog.dropTempView("rooms")


def test_tables_of_sparks_own_catalog_are_refused(spark: SparkSession, options: dict[str, str]) -> None:
    given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW") as caught:
        spark.sql(f"CREATE TABLE spark_catalog.default.rooms USING pravega OPTIONS ({given})")
    assert "PRAVEGA_UNSUPPORTED_OPERATION" in str(caught.value)
