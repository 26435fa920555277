"""What Spark's UI shows of scans and writes: numbers of the tasks, from the store behind its SQL tab."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.catalog.queries.test_bad_event_modes import metrics_in_the_ui

ROWS = 1000
WAITED = "milliseconds waiting for segment stores"


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    """A table of 1000 rows in two segments."""
    name = f"pravega.`{scope}`.numbers"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, text STRING) USING pravega "
        "TBLPROPERTIES ('scaling.min-segments'='2', 'routing-key'='id')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, repeat('x', 20) FROM range({ROWS})")
    return name


def size(pravega: Pravega, scope: str, name: str) -> int:
    """The bytes of a stream that has never been truncated."""
    return sum(measure_tail(pravega, Stream(scope, name)).positions.values())


def shown(spark: SparkSession, *names: str) -> list[int]:
    found = metrics_in_the_ui(spark)
    return [int(str(found[name])) for name in names]


READ = ("number of segment slices read", "bytes of events read", "number of reads tried again")
WRITTEN = ("number of rows written", "bytes of events written", "number of writes tried again")
SIEVED = "number of rows left out by conditions in the tasks"


def test_an_insert(spark: SparkSession, table: str, pravega: Pravega, scope: str) -> None:
    assert shown(spark, *WRITTEN) == [ROWS, size(pravega, scope, "numbers"), 0]
    plain = f"INSERT INTO {table} WITH ('write-mode'='at-least-once') SELECT id, 'y' FROM range(10)"
    before = size(pravega, scope, "numbers")
    spark.sql(plain)
    assert shown(spark, *WRITTEN) == [10, size(pravega, scope, "numbers") - before, 0]


UPDATED, DELETED = "number of updated rows", "number of deleted rows"
MERGED = tuple(f"number of target rows {what}" for what in ("inserted", "updated", "deleted"))


def merge(name: str) -> str:
    """A MERGE of ids 10 to 19: it deletes 2 rows, updates 8, or as many as there are, and inserts the others."""
    return (
        f"MERGE INTO {name} t USING (SELECT id + 10 AS id FROM range(10)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id < 12 THEN DELETE WHEN MATCHED THEN UPDATE SET text = 'z' "
        "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, 'n')"
    )


def test_statements_that_change_rows(spark: SparkSession, scope: str, pravega: Pravega) -> None:
    name, before = f"pravega.`{scope}`.stock", 0
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, text STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )

    def written() -> list[int]:
        nonlocal before
        rows, size_of_events, retries = shown(spark, *WRITTEN)
        before, added = (now := size(pravega, scope, "stock")), now - before
        return [rows, size_of_events - added, retries]

    spark.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(20)")
    assert written() == [20, 0, 0]
    spark.sql(f"UPDATE {name} SET text = 'y' WHERE id < 7")
    assert [*shown(spark, UPDATED), *written()] == [7, 7, 0, 0]
    spark.sql(f"DELETE FROM {name} WHERE id >= 15")
    assert [*shown(spark, DELETED), *written()] == [5, 5, 0, 0]
    spark.sql(merge(name))
    assert [*shown(spark, *MERGED), *written()] == [5, 3, 2, 10, 0, 0]
    history = spark.table(f"{name}.history").orderBy("version").select("inserted", "updated", "deleted").collect()
    assert [tuple(counts) for counts in history] == [(20, 0, 0), (0, 7, 0), (0, 0, 5), (5, 3, 2)]


def test_statements_that_change_rows_of_a_key_value_table(spark: SparkSession, scope: str) -> None:
    name = f"pravega.`{scope}`.devices"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, text STRING) USING pravega "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='id', 'value-format'='json', 'partitions'='2')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(15)")
    assert shown(spark, *WRITTEN) == [15, 0, 0]
    spark.sql(f"UPDATE {name} SET text = 'y' WHERE id < 7")
    assert shown(spark, UPDATED, *WRITTEN) == [7, 7, 0, 0]
    spark.sql(f"DELETE FROM {name} WHERE id < 2")
    assert shown(spark, DELETED, *WRITTEN) == [2, 2, 0, 0]
    spark.sql(merge(name))
    assert shown(spark, *MERGED, *WRITTEN) == [5, 3, 2, 10, 0, 0]


def test_scans(spark: SparkSession, table: str, pravega: Pravega, scope: str) -> None:
    whole = [2, size(pravega, scope, "numbers"), 0]
    assert len(spark.table(table).collect()) == ROWS
    assert shown(spark, *READ, SIEVED, "number of events that cannot be decoded") == [*whole, 0, 0]
    assert shown(spark, WAITED)[0] >= 0
    assert len(spark.table(table).where("id < 500").collect()) == 500
    assert shown(spark, *READ, SIEVED) == [*whole, ROWS - 500]
    assert spark.table(table).where("id < 500").selectExpr("sum(id)").collect()[0][0] == sum(range(500))
    assert shown(spark, *READ, SIEVED) == [*whole, ROWS - 500]
    assert len(spark.table(table).where("id < 500").limit(3).collect()) == 3
    segments, read, _ = shown(spark, *READ)
    assert segments >= 1 and 0 < read <= whole[1]


def test_a_streaming_query(spark: SparkSession, table: str, pravega: Pravega, scope: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.copy (id BIGINT, text STRING) USING pravega")
    writer = spark.readStream.table(table).where("id < 100").writeStream
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = writer.toTable(f"pravega.`{scope}`.copy")
    assert query.awaitTermination(120)
    assert shown(spark, *READ, *WRITTEN) == [
        2, size(pravega, scope, "numbers"), 0, 100, size(pravega, scope, "copy"), 0
    ]  # fmt: skip
    assert [batch["numInputRows"] for batch in query.recentProgress if batch["numInputRows"]] == [ROWS]


@pytest.mark.parametrize("columnar", ["true", "false"])
def test_scans_of_a_key_value_table(spark: SparkSession, scope: str, columnar: str) -> None:
    name = f"pravega.`{scope}`.devices"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, text STRING) USING pravega "
        "TBLPROPERTIES ('format'='kvtable', 'primary-key'='id', 'value-format'='json', 'partitions'='2')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, repeat('x', 20) FROM range({ROWS})")
    table = spark.read.option("columnar-reads", columnar).table(name)
    entry = 8 + len('{"text":"' + 20 * "x" + '"}')
    assert len(table.collect()) == ROWS
    assert shown(spark, *READ, SIEVED) == [2, ROWS * entry, 0, 0]
    assert len(table.where("text < 'a' OR id % 2 = 0").collect()) == ROWS // 2
    assert shown(spark, *READ, SIEVED)[:3] == [2, ROWS * entry, 0]
    assert table.where("id IN (1, 2, 3)").count() == 3
    partitions, read, repeated = shown(spark, *READ)
    assert partitions in (1, 2) and repeated == 0 and read <= 3 * entry
    assert len(table.select("id").limit(3).collect()) == 3
    assert shown(spark, *READ)[0] >= 1
