"""Streaming queries into key-value tables with epochs: a repetition never undoes a later result."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog.protocol.table_requests import Identifier
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.storage.scope_table import RowKind, ScopeTable
from pyspark_pravega.catalog.storage.spelling import find_address
from pyspark_pravega.catalog.tables.key_value_tables import load
from pyspark_pravega.catalog.writing.entry_epochs import KEPT_BATCHES, KEPT_QUERIES, begin_epoch_of_entries
from pyspark_pravega.catalog.writing.insert_start import InsertStart, MicroBatch
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import KeyValueTableNotFoundError, QueryFencedError


@pytest.fixture
def namespace(spark: SparkSession, scope: str) -> str:
    """A namespace with the key-value table `latest`, which has epochs."""
    name = f"pravega.{scope.replace('-', '_')}"
    spark.sql(
        f"CREATE TABLE {name}.latest (id INT, result STRING, epoch BIGINT) TBLPROPERTIES "
        "('format'='kvtable', 'primary-key'='id', 'epoch-column'='Epoch')"
    )
    return name


def run(spark: SparkSession, source: Path, checkpoint: Path, table: str, result: str) -> None:
    """Write all that is new, with a result that differs from run to run."""
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
    written = rows.selectExpr("CAST(value AS INT) AS id", f"'{result}' AS result")
    query = (
        written.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .toTable(table)
    )
    assert query.awaitTermination(120)


def found(spark: SparkSession, table: str) -> dict[int, tuple[str, int | None]]:
    return {row.id: (row.result, row.epoch) for row in spark.table(table).collect()}


def forget(checkpoint: Path, batch: int) -> None:
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_a_repeated_micro_batch_undoes_nothing(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    table, source, checkpoint = f"{namespace}.latest", tmp_path / "rows", tmp_path / "checkpoint"
    source.mkdir()
    for batch, ids in enumerate(((1, 2, 3), (2, 3, 4))):
        (source / f"{batch}").write_text("".join(f"{id}\n" for id in ids))
        run(spark, source, checkpoint, table, f"batch {batch}")
    assert found(spark, table) == {1: ("batch 0", 1), 2: ("batch 1", 2), 3: ("batch 1", 2), 4: ("batch 1", 2)}
    forget(checkpoint, 1)
    run(spark, source, checkpoint, table, "again")  # the newest one is repeated, and its new values count
    assert found(spark, table) == {1: ("batch 0", 1), 2: ("again", 3), 3: ("again", 3), 4: ("again", 3)}
    shown = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert shown["epoch-column"] == "epoch"


@pytest.mark.long
def test_a_query_with_a_new_checkpoint_replaces_results(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    table, source = f"{namespace}.latest", tmp_path / "rows"
    source.mkdir()
    for batch in range(2):
        (source / f"{batch}").write_text("1\n2\n")
    run(spark, source, tmp_path / "first", table, "first")
    run(spark, source, tmp_path / "second", table, "second")
    assert found(spark, table) == {1: ("second", 4), 2: ("second", 4)}


def test_epochs_of_micro_batches(spark: SparkSession, pravega: Pravega, namespace: str, scope: str) -> None:
    """They grow, repetitions of the newest one included; an older one keeps its own, and an overtaken run gets none."""
    stream = Stream(scope, "latest")
    catalog = Catalog({}, pravega)
    described = load(catalog, find_address(catalog, Identifier((scope,), stream.name)))
    assert described is not None
    rows = described.schema.__class__(described.schema.fields[:2])

    def begin(number: int, run: str = "first", query: str = "one") -> int | None:
        return begin_epoch_of_entries(
            catalog, described.table, InsertStart(1, rows, 1, {}, MicroBatch(query, run, number))
        )

    assert [begin(number) for number in (0, 1, 1, 2, 0, 1)] == [1, 2, 3, 4, 1, 3]
    assert begin(0, query="two") == 5
    assert begin(2, "second") == 6
    with pytest.raises(QueryFencedError, match=r"Another run \(second\) of query one.*no row of its micro-batch 3"):
        begin(3)
    assert begin(3, "second") == 7
    for number in range(4, 4 + KEPT_BATCHES):
        begin(number, "second")
    with pytest.raises(QueryFencedError, match="Number 3 is not among them"):
        begin(3, "second")
    for number in range(KEPT_QUERIES + 2):
        begin(0, query=f"query {number}")
    row = ScopeTable(pravega, stream.scope).read(RowKind.KEY_VALUE_TABLE, "latest")
    assert row is not None and len(row["epochs"]["queries"]) == KEPT_QUERIES
    assert begin_epoch_of_entries(catalog, described.table, InsertStart(1, rows, 1, {})) is None
    spark.sql(f"DROP TABLE {namespace}.latest")
    with pytest.raises(KeyValueTableNotFoundError, match="dropped and recreated"):
        begin(50, "second")


def test_statements_write_no_epoch(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    table, source = f"{namespace}.latest", tmp_path / "rows"
    source.mkdir()
    (source / "0").write_text("1\n2\n")
    run(spark, source, tmp_path / "first", table, "query")
    spark.sql(f"INSERT INTO {table} (id, result) VALUES (2, 'statement'), (3, 'statement')")
    spark.sql(f"UPDATE {table} SET result = 'updated' WHERE id = 1")
    assert found(spark, table) == {1: ("updated", 1), 2: ("statement", None), 3: ("statement", None)}
    (source / "1").write_text("2\n")
    run(spark, source, tmp_path / "first", table, "query again")
    assert found(spark, table) == {1: ("updated", 1), 2: ("query again", 2), 3: ("statement", None)}


def test_a_query_does_not_compute_epochs(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    source = tmp_path / "rows"
    source.mkdir()
    (source / "0").write_text("1\n")
    rows = spark.readStream.text(str(source)).selectExpr("CAST(value AS INT) AS id", "'x' AS result", "7L AS epoch")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match=r"(?s)PRAVEGA_INVALID_SCHEMA.*have the column epoch.*\.drop\("):
        writer.toTable(f"{namespace}.latest").awaitTermination()
    assert found(spark, f"{namespace}.latest") == {}


def test_columns_that_cannot_hold_epochs(spark: SparkSession, namespace: str) -> None:
    for columns, properties, words in (
        ("epoch BIGINT, a INT", "'epoch-column'='epok'", "'epoch-column'='epok' is not a column"),
        ("epoch INT, a INT", "'epoch-column'='epoch'", "of type int, but epochs are of type BIGINT"),
        ("epoch BIGINT, a INT", "'epoch-column'='id'", "'id' is in the key"),
        ("value BINARY", "'epoch-column'='value', 'value-format'='raw'", "of type binary, but epochs"),
    ):
        create = f"CREATE TABLE {namespace}.t (id INT, {columns}) TBLPROPERTIES ('format'='kvtable', 'primary-key'='id'"
        with pytest.raises(AnalysisException, match=f"PRAVEGA_INVALID_OPTION.*{words}"):
            spark.sql(f"{create}, {properties})")
        assert spark.sql(f"SHOW TABLES IN {namespace}").count() == 1
