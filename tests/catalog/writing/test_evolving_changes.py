"""Statements and streams of changes at their limits: new columns in a MERGE, and a changelog that is joined."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.catalog.writing.test_row_changes import condition, create, history, rows


def test_a_merge_cannot_add_columns(spark: SparkSession, scope: str) -> None:
    """The columns of such tables are fixed; with the same columns, WITH SCHEMA EVOLUTION makes no difference."""
    table = create(spark, scope, "t", "id BIGINT NOT NULL, name STRING")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")

    def merge(source: str) -> str:
        matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        return f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING ({source}) s ON t.id = s.id {matched}"

    assert "Its columns cannot be changed" in condition(spark, merge("SELECT 2L AS id, 'B' AS name, 7 AS size"))
    spark.sql(merge("SELECT * FROM VALUES (2L, 'B'), (3L, 'C') AS s(id, name)"))
    assert rows(spark, table) == [(1, "a"), (2, "B"), (3, "C")]
    assert history(spark, table) == [("INSERT", 2), ("MERGE", 2)]


def test_a_changelog_passes_through_a_join(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """Deletions too: the rows of the target are those of the source, with what the dimension says of them."""
    source, target = (create(spark, scope, name, "id BIGINT NOT NULL, city STRING") for name in ("source", "target"))
    cities = spark.createDataFrame([("ams", "Amsterdam"), ("par", "Paris")], ["code", "name"])
    changes = spark.readStream.changes(source).filter("_change_type <> 'update_preimage'")
    joined = changes.join(cities, changes.city == cities.code)
    passed = joined.selectExpr("id", "name AS city", "_change_type = 'delete' AS gone")

    def run() -> None:
        writer = passed.writeStream.option("delete-column", "gone").trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path)).toTable(target).awaitTermination()

    spark.sql(f"INSERT INTO {source} VALUES (1, 'ams'), (2, 'par'), (3, 'ams')")
    run()
    assert rows(spark, target) == [(1, "Amsterdam"), (2, "Paris"), (3, "Amsterdam")]
    spark.sql(f"UPDATE {source} SET city = 'par' WHERE id = 1")
    spark.sql(f"DELETE FROM {source} WHERE id = 3")
    run()
    assert rows(spark, target) == [(1, "Paris"), (2, "Paris")]
