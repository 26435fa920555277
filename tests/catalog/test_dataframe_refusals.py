"""What users of DataFrames get wrong, or ask of a table that it cannot do yet: one sentence, and nothing is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from tests.bad_input import Watched
from tests.sql_clients import PySparkClient

OPTION = "PRAVEGA_INVALID_OPTION"
OPERATION = "PRAVEGA_UNSUPPORTED_OPERATION"
TABLE = "pravega.{s}.t"


@pytest.fixture(scope="module")
def watched(spark: SparkSession, client_config: ClientConfig) -> Iterator[Watched]:
    """A namespace that nothing of this module may change."""
    with connect(client_config) as pravega:
        made = Watched(PySparkClient(spark), pravega, "dataframes")
        yield made
        made.close()


@pytest.fixture
def rate(spark: SparkSession) -> DataFrame:
    """Rows that never end."""
    return spark.readStream.format("rate").load()


NEW_TABLES: dict[str, Callable[[SparkSession, str], object]] = {
    "saveAsTable": lambda spark, name: spark.range(3).write.saveAsTable(name),
    "createTable": lambda spark, name: spark.catalog.createTable(name, schema=spark.range(3).schema),
    "writeTo.using": lambda spark, name: spark.range(3).writeTo(name).using("parquet").create(),
}


@pytest.mark.parametrize("make", NEW_TABLES.values(), ids=NEW_TABLES.keys())
def test_a_table_of_sparks_default_format(
    spark: SparkSession, watched: Watched, make: Callable[[SparkSession, str], object]
) -> None:
    message = watched.refused(
        lambda: make(spark, f"{watched.name}.new"), OPTION, "pravega.{s}.new", "USING parquet", ".format('pravega')"
    )
    assert message.startswith(f"[{OPTION}] ")
    assert "writeTo(table).tableProperty('format', 'avro').create()" in message
    assert "source='pravega'" in message


def test_the_ways_that_the_refusal_names_work(spark: SparkSession, fresh_name: str) -> None:
    namespace = f"pravega.`{fresh_name}`"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    try:
        rows = spark.range(3)
        rows.write.format("pravega").saveAsTable(f"{namespace}.a")
        spark.catalog.createTable(f"{namespace}.b", source="pravega", schema=rows.schema)
        rows.writeTo(f"{namespace}.c").tableProperty("format", "avro").create()
        assert [spark.table(f"{namespace}.{name}").count() for name in ("a", "b", "c")] == [3, 0, 3]
    finally:
        spark.sql(f"DROP NAMESPACE {namespace} CASCADE")


def test_a_table_that_a_batch_of_a_stream_creates(spark: SparkSession, fresh_name: str, tmp_path: Path) -> None:
    """By Java's foreachBatch, which itself calls the function."""
    namespace = f"pravega.`{fresh_name}`"

    class Each:
        def call(self, rows: Any, number: int) -> None:
            spark.sql(f"CREATE TABLE {namespace}.t (value STRING) USING pravega")
            rows.writeTo(f"{namespace}.t").append()

        class Java:
            implements: ClassVar = ["org.apache.spark.api.java.function.VoidFunction2"]

    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a").write_text("x\ny\n")
    spark.sql(f"CREATE NAMESPACE {namespace}")
    try:
        ensure_callback_server_started(spark.sparkContext._gateway)
        rows = spark.readStream.text(str(tmp_path / "lines"))
        writer = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer._jwrite.foreachBatch(Each()).start().awaitTermination()
        assert sorted(row.value for row in spark.table(f"{namespace}.t").collect()) == ["x", "y"]
    finally:
        spark.sql(f"DROP NAMESPACE {namespace} CASCADE")


def test_what_the_refusals_of_streams_name_works(spark: SparkSession, watched: Watched, tmp_path: Path) -> None:
    source, copy = f"{watched.name}.t", f"{watched.name}.copy"
    spark.sql(f"CREATE TABLE {copy} (id INT, b STRING) USING pravega")
    try:
        rows = spark.readStream.changes(source).select("id", "b")
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.foreachBatch(lambda batch, number: batch.writeTo(copy).append()).start().awaitTermination()
        assert sorted(spark.table(copy).collect()) == [(1, "x"), (2, "y")]
    finally:
        spark.sql(f"DROP TABLE {copy}")


def test_rows_read_by_options_are_written_without_their_places(spark: SparkSession, watched: Watched) -> None:
    named = {"scope": watched.scope, "stream": "t", "catalog": "pravega"}
    rows = spark.read.format("pravega").options(**named).load()
    drop = ".drop('_segment', '_offset', '_event_pointer')"
    write = rows.write.format("pravega").options(**named).mode("append").save
    watched.refused(write, "PRAVEGA_INVALID_SCHEMA", "Its columns are id int, b string.", drop)


def test_functions_while_the_catalog_is_used(spark: SparkSession, watched: Watched) -> None:
    session = spark.newSession()  # without the temporary functions of other tests
    session.sql(f"USE {watched.name}")
    assert session.sql("SHOW USER FUNCTIONS").collect() == []
    assert not session.catalog.functionExists("nothing")
    assert session.catalog.functionExists("abs")
    assert session.catalog.listFunctions(pattern="nothing*") == []
    assert "abs" in {function.name for function in session.catalog.listFunctions()}
    watched.refused(lambda: session.sql("SELECT nothing(1)"), "UNRESOLVED_ROUTINE", "`nothing`")
    assert session.sql("SELECT abs(-1)").collect() == [(1,)]
