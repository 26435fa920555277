"""Streaming queries into tables: every micro-batch is one transaction and one version, written once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, expr, window
from pyspark.sql.functions import sum as sum_

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from tests.streams import PATIENCE, run_available


@pytest.fixture
def namespace(scope: str) -> str:
    """A new namespace of the catalog."""
    return f"pravega.{scope.replace('-', '_')}"


class Files:
    """A directory of text files as a source: one file is one micro-batch, and one line `number` one row."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        directory.mkdir()
        self._next = 0

    def add(self, rows: int) -> None:
        """Add a file with the next rows."""
        lines = "".join(f"{number}\n" for number in range(self._next, self._next + rows))
        (self._directory / f"{self._next:06}").write_text(lines)
        self._next += rows

    @property
    def rows(self) -> list[int]:
        """All rows added so far."""
        return list(range(self._next))

    def stream(self) -> DataFrame:
        """The rows as they come."""
        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._directory))
        return lines.selectExpr("CAST(value AS INT) AS id", "concat('x', value) AS name")


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path / "files")


def run(rows: DataFrame, checkpoint: Path, table: str, **options: str) -> None:
    """Write all there is into a table."""
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).toTable(table)
    try:
        assert query.awaitTermination(PATIENCE), f"the query did not end: {query.status}"
    finally:
        query.stop()


def ids(spark: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in spark.table(table).collect())


def versions(pravega: Pravega, table: str) -> int:
    _, scope, stream = table.split(".")
    return len(CommitLog(pravega, Stream(scope.replace("_", "-"), stream)).versions())


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """A table of the rows of `files`."""
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, name STRING) TBLPROPERTIES ('scaling.min-segments'='3')")
    return f"{namespace}.t"


def test_every_micro_batch_is_a_version(
    spark: SparkSession, pravega: Pravega, files: Files, table: str, tmp_path: Path
) -> None:
    for _ in range(3):
        files.add(100)
    run(files.stream(), tmp_path / "checkpoint", table)
    assert ids(spark, table) == files.rows
    assert versions(pravega, table) == 3
    files.add(50)
    run(files.stream(), tmp_path / "checkpoint", table)
    assert ids(spark, table) == files.rows
    assert versions(pravega, table) == 4
    run(files.stream(), tmp_path / "checkpoint", table)
    assert versions(pravega, table) == 4


def test_a_replayed_batch_is_written_once(
    spark: SparkSession, pravega: Pravega, files: Files, table: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    for batch in range(2):
        files.add(100)
        run(files.stream(), checkpoint, table)
        for commit in (f"{batch}", f".{batch}.crc"):
            (checkpoint / "commits" / commit).unlink()
        run(files.stream(), checkpoint, table)
        assert ids(spark, table) == files.rows
    assert versions(pravega, table) == 2


@pytest.mark.long
def test_a_copied_checkpoint_is_fenced(
    spark: SparkSession, pravega: Pravega, files: Files, table: str, tmp_path: Path
) -> None:
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    files.add(10)
    run(files.stream(), checkpoint, table)
    shutil.copytree(checkpoint, copy)
    for _ in range(2):
        files.add(10)
        run(files.stream(), checkpoint, table)
    files.add(10)
    with pytest.raises(StreamingQueryException, match="PRAVEGA_QUERY_FENCED.*checkpoint copied"):
        run(files.stream().where("id >= 0"), copy, table)
    run(files.stream(), checkpoint, table)
    assert ids(spark, table) == files.rows


def test_a_row_that_cannot_be_written_says_what_is_visible_of_its_batch(
    spark: SparkSession, files: Files, namespace: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {namespace}.keyed (id INT, name STRING) TBLPROPERTIES ('routing-key'='name')")
    files.add(10)
    rows = files.stream().selectExpr("id", "nullif(name, 'x7') AS name")
    with pytest.raises(StreamingQueryException, match="PRAVEGA_INVALID_ROW.*No row of this micro-batch is visible"):
        run(rows, tmp_path / "checkpoint", f"{namespace}.keyed")
    assert ids(spark, f"{namespace}.keyed") == []


def test_a_table_that_is_missing_is_created(spark: SparkSession, files: Files, namespace: str, tmp_path: Path) -> None:
    files.add(10)
    run(files.stream(), tmp_path / "checkpoint", f"{namespace}.new")
    assert ids(spark, f"{namespace}.new") == files.rows
    writer = files.stream().writeStream.format("pravega").option("checkpointLocation", str(tmp_path / "other"))
    query = writer.trigger(availableNow=True).toTable(f"{namespace}.other")
    try:
        assert query.awaitTermination(PATIENCE), f"the query did not end: {query.status}"
    finally:
        query.stop()
    assert ids(spark, f"{namespace}.other") == files.rows
    with pytest.raises(AnalysisException, match="PRAVEGA_INVALID_OPTION.*USING csv"):
        writer = files.stream().writeStream.option("checkpointLocation", str(tmp_path / "third"))
        writer.format("csv").toTable(f"{namespace}.third")


def test_a_table_is_created_with_properties(
    spark: SparkSession, pravega: Pravega, files: Files, namespace: str, tmp_path: Path
) -> None:
    options = {"format": "json", "scaling.min-segments": "2", "routing-key": "id"}
    for _ in range(2):  # the second time it is there
        files.add(10)
        run(files.stream(), tmp_path / "checkpoint", f"{namespace}.new", **options)
    assert ids(spark, f"{namespace}.new") == files.rows
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {namespace}.new").collect()}
    assert options.items() <= properties.items()
    files.add(10)
    for wrong, message in (("format", "'format'='avro' does not fit"), ("txn-app-id", "for batches that are written")):
        with pytest.raises(StreamingQueryException, match=f"(?s)PRAVEGA_INVALID_OPTION.*{message}"):
            run(files.stream(), tmp_path / "checkpoint", f"{namespace}.new", **{wrong: "avro"})


def test_columns_go_by_their_names_and_must_fit(spark: SparkSession, files: Files, table: str, tmp_path: Path) -> None:
    files.add(10)
    run(files.stream().select("name", "id"), tmp_path / "fits", table)
    assert ids(spark, table) == files.rows
    with pytest.raises(StreamingQueryException, match=rf"(?s){table}.*do not fit.*Its columns are id int, name string"):
        run(files.stream().selectExpr("id AS number", "name"), tmp_path / "other", table)
    assert ids(spark, table) == files.rows


def test_a_write_in_foreach_batch_happens_once(
    spark: SparkSession, pravega: Pravega, files: Files, table: str, tmp_path: Path
) -> None:
    """Every batch is written three times in three ways, and the first one counts."""

    def write(batch: DataFrame, number: int) -> None:
        batch.writeTo(table).option("txnAppId", "job").option("txnVersion", number).append()
        batch.write.option("txn-app-id", "job").option("txn-version", number).insertInto(table)
        batch.createOrReplaceTempView("batch_of_job")
        batch.sparkSession.sql(
            f"INSERT INTO {table} WITH ('txn-app-id'='job', 'txn-version'='{number}') SELECT * FROM batch_of_job"
        )

    for _ in range(2):
        files.add(20)
    writer = files.stream().writeStream.foreachBatch(write)
    run_available(writer, tmp_path / "checkpoint")
    assert ids(spark, table) == files.rows
    assert versions(pravega, table) == 2


def test_what_names_a_write_is_complete(spark: SparkSession, table: str) -> None:
    rows = spark.range(3).selectExpr("CAST(id AS INT) AS id", "'x' AS name")
    with pytest.raises(AnalysisException, match="PRAVEGA_INVALID_OPTION.*'txn-version'='1' needs 'txn-app-id'"):
        rows.writeTo(table).option("txn-version", 1).append()
    named = rows.writeTo(table).option("txn-version", 1).option("txn-app-id", "job")
    with pytest.raises(AnalysisException, match="PRAVEGA_INVALID_OPTION.*'write-mode'='at-least-once' does not"):
        named.option("write-mode", "at-least-once").append()
    assert ids(spark, table) == []


@pytest.mark.parametrize("mode", ["at-least-once", pytest.param("best-effort", marks=pytest.mark.long)])
def test_modes_without_transactions(
    spark: SparkSession, pravega: Pravega, files: Files, table: str, tmp_path: Path, mode: str
) -> None:
    for _ in range(2):
        files.add(100)
    run(files.stream(), tmp_path / "checkpoint", table, **{"write-mode": mode})
    assert ids(spark, table) == files.rows
    spark.sql(f"INSERT INTO {table} WITH ('write-mode'='{mode}') VALUES (1000, 'last')")
    assert ids(spark, table) == [*files.rows, 1000]
    assert versions(pravega, table) == 0


@pytest.mark.parametrize("mode", ["complete", pytest.param("update", marks=pytest.mark.long)])
def test_output_modes_that_streams_cannot_do(
    spark: SparkSession, files: Files, namespace: str, tmp_path: Path, mode: str
) -> None:
    """A table that was there stays, and one that was made for the query goes."""
    spark.sql(f"CREATE TABLE {namespace}.there (name STRING, rows BIGINT)")
    files.add(10)
    counts = files.stream().groupBy("name").agg({"*": "count"}).withColumnRenamed("count(1)", "rows")
    for name in ("there", "missing"):
        writer = counts.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / name))
        writer = writer.option("routing-key", "name").trigger(availableNow=True)
        refused = rf"writeStream.outputMode\('{mode}'\) is not possible on {namespace}.{name}.*append"
        if name == "there":
            with pytest.raises(AnalysisException, match=refused):
                writer.toTable(f"{namespace}.{name}")
        else:  # it might have become a key-value table: the query's options come with the first micro-batch
            query = writer.toTable(f"{namespace}.{name}")
            with pytest.raises(StreamingQueryException, match=refused):
                query.awaitTermination()
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect()] == ["there"]


@pytest.mark.long
def test_aggregates_and_joins_of_streams(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    """From a table to a table: windows behind a watermark, and two streams joined, over several runs."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # each partition costs a state store in every micro-batch
    source = f"{namespace}.source"
    spark.sql(f"CREATE TABLE {source} (id INT, at TIMESTAMP)")
    spark.sql(f"CREATE TABLE {namespace}.sums (start TIMESTAMP, rows BIGINT, total BIGINT)")
    spark.sql(f"CREATE TABLE {namespace}.pairs (id INT, twin INT)")
    for batch in range(2):
        spark.sql(
            f"INSERT INTO {source} SELECT CAST(id AS INT), timestamp_seconds(6000 + 60 * id) FROM range({batch * 60}, "
            f"{batch * 60 + 60})"
        )
        events = spark.readStream.table(source).withWatermark("at", "1 minute")
        sums = events.groupBy(window("at", "10 minutes")).agg(count("*").alias("rows"), sum_("id").alias("total"))
        run(sums.selectExpr("window.start AS start", "rows", "total"), tmp_path / "sums", f"{namespace}.sums")
        twins = spark.readStream.table(source).withWatermark("at", "1 minute")
        twins = twins.selectExpr("id AS twin", "at AS also")
        pairs = events.join(twins, expr("id = twin AND at = also"))
        run(pairs.select("id", "twin"), tmp_path / "pairs", f"{namespace}.pairs")
    windows = {row.start.timestamp() / 600: (row.rows, row.total) for row in spark.table(f"{namespace}.sums").collect()}
    numbers = [range(first, first + 10) for first in range(0, 110, 10)]  # the last window is open
    assert windows == {10 + each[0] / 10: (10, sum(each)) for each in numbers}
    assert sorted(row.id for row in spark.table(f"{namespace}.pairs").collect()) == list(range(120))


def test_a_table_of_changes(spark: SparkSession, files: Files, namespace: str, tmp_path: Path) -> None:
    """What INSERT can do, a stream can: rows are written as changes that create them; the changelog is read only."""
    properties = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    spark.sql(f"CREATE TABLE {namespace}.t (id INT, name STRING) {properties}")
    files.add(10)
    run(files.stream(), tmp_path / "checkpoint", f"{namespace}.t")
    assert ids(spark, f"{namespace}.t") == files.rows
    with pytest.raises(StreamingQueryException, match="(?s)PRAVEGA_UNSUPPORTED_OPERATION.*cannot be written to"):
        run(files.stream(), tmp_path / "other", f"{namespace}.`t$changelog`")


def test_continuous_processing_is_refused(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (timestamp TIMESTAMP, value BIGINT)")
    rate = spark.readStream.format("rate").load()
    writer = rate.writeStream.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second")
    with pytest.raises(AnalysisException, match=r"trigger\(continuous\) is not possible on .*\.t"):
        writer.toTable(f"{namespace}.t")


def test_the_rate_source(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {namespace}.t (timestamp TIMESTAMP, value BIGINT)")
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
    query = rate.writeStream.option("checkpointLocation", str(tmp_path / "c")).toTable(f"{namespace}.t")
    try:
        while len(query.recentProgress) < 3 and query.exception() is None:
            query.awaitTermination(1)
    finally:
        query.stop()
    assert query.exception() is None
    assert query.lastProgress is not None
    assert query.lastProgress["sink"]["description"] == f"{namespace}.t"
    values = sorted(row.value for row in spark.table(f"{namespace}.t").collect())
    assert values == list(range(len(values))) and len(values) >= 200
