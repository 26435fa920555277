"""Streaming queries that cannot start: they say why at once, and toTable leaves no table behind."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.bad_input import SECRET
from tests.streams import PATIENCE

OPTION = "PRAVEGA_INVALID_OPTION"
Start = Callable[[DataFrame, Path], DataStreamWriter]


@pytest.fixture(scope="module")
def scope(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scope with the tables `source` of two rows and `there` of none, and a query that has the name `taken`."""
    scope = f"t{uuid.uuid4().hex[:12]}"
    name = f"pravega.{scope}"
    spark.sql(f"CREATE NAMESPACE {name}")
    for table in ("source", "there"):
        spark.sql(f"CREATE TABLE {name}.{table} (id INT, name STRING) USING pravega")
    spark.sql(f"INSERT INTO {name}.source VALUES (1, 'a'), (2, 'b')")
    rows = written(spark.readStream.table(f"{name}.source"), tmp_path_factory.mktemp("taken"))
    taken = rows.queryName("taken").trigger(processingTime="1 hour").format("noop").start()
    yield scope
    taken.stop()
    spark.sql(f"DROP NAMESPACE {name} CASCADE")


@pytest.fixture
def namespace(spark: SparkSession, scope: str) -> Iterator[str]:
    """The namespace of that scope; the table `new` of a test is dropped."""
    name = f"pravega.{scope}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}.new")


def tables(spark: SparkSession, namespace: str) -> list[str]:
    return sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}").collect())


def written(rows: DataFrame, directory: Path) -> DataStreamWriter:
    """All there is, with a checkpoint."""
    return rows.writeStream.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)


def damaged(rows: DataFrame, directory: Path) -> DataStreamWriter:
    """With a checkpoint that cannot be read."""
    (directory / "checkpoint").mkdir()
    (directory / "checkpoint" / "metadata").write_text("no JSON")
    return written(rows, directory)


STARTS: dict[str, tuple[Start, type[Exception], str]] = {
    "no checkpoint": (lambda rows, _: rows.writeStream, AnalysisException, "checkpointLocation must be specified"),
    "complete without an aggregation": (
        lambda rows, directory: written(rows, directory).outputMode("complete"),
        AnalysisException,
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION.*complete",
    ),
    "an aggregation without a watermark": (
        lambda rows, directory: written(rows.groupBy("id").count(), directory),
        AnalysisException,
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION.*append",
    ),
    "continuous": (
        lambda rows, directory: written(rows, directory).trigger(continuous="1 second"),
        AnalysisException,
        r"trigger\(continuous\) is not possible on .*\.new",
    ),
    "a name that is taken": (
        lambda rows, directory: written(rows, directory).queryName("taken"),
        IllegalArgumentException,
        "with that name is already active",
    ),
    "a damaged checkpoint": (damaged, Py4JJavaError, "JsonParseException"),
    "an option that no write has": (
        lambda rows, directory: written(rows, directory).option("topic", "x").option("zzzz", "y"),
        StreamingQueryException,
        f"{OPTION}.*Table pravega.*no write option 'topic' .*no write option 'zzzz'",
    ),
    "an option of single writes": (
        lambda rows, directory: written(rows, directory).option("txn-app-id", "x"),
        StreamingQueryException,
        f"{OPTION}.*'txn-app-id' is for batches",
    ),
    "a property that cannot be": (
        lambda rows, directory: written(rows, directory).option("routing-key", "nothing"),
        StreamingQueryException,
        f"{OPTION}.*'routing-key' names 'nothing'",
    ),
    "columns that no event can have": (
        lambda rows, directory: written(rows.selectExpr("INTERVAL '1' DAY AS x"), directory),
        AnalysisException,
        "PRAVEGA_UNSUPPORTED_TYPE.*'x'",
    ),
}


THEN_RIGHT = "an option that no write has", "columns that no event can have"
"""Cases behind which each run starts a query into the table that there is not."""


@pytest.mark.parametrize(
    ("case", "then_right"),
    [
        *(pytest.param(case, case in THEN_RIGHT, id=case) for case in STARTS),
        *(
            pytest.param(case, True, id=f"{case}, then a right one", marks=pytest.mark.long)
            for case in STARTS
            if case not in THEN_RIGHT
        ),
    ],
)
def test_a_query_that_cannot_start_leaves_no_table(
    spark: SparkSession, namespace: str, tmp_path: Path, case: str, then_right: bool
) -> None:
    start, error, words = STARTS[case]
    rows = spark.readStream.table(f"{namespace}.source")
    for name in ("new", "there"):
        directory = tmp_path / name
        directory.mkdir()
        expected = words.replace(r"\.new", rf"\.{name}")
        if name == "there" and case in ("a property that cannot be", "columns that no event can have"):
            continue  # they are the table's own then
        with pytest.raises(error, match=f"(?s){expected}"):
            start(rows, directory).toTable(f"{namespace}.{name}").awaitTermination(PATIENCE)
        assert tables(spark, namespace) == ["source", "there"]
    if not then_right:
        return
    query = written(rows, tmp_path / "right").toTable(f"{namespace}.new")
    assert "new" in tables(spark, namespace)  # as soon as toTable returns
    assert query.awaitTermination(PATIENCE)
    assert sorted(spark.table(f"{namespace}.new").collect()) == [(1, "a"), (2, "b")]


def test_a_table_that_another_makes_meanwhile_is_not_dropped(
    spark: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """A start fails, another makes the table, and the next start finds it with its rows."""
    rows = spark.readStream.table(f"{namespace}.source")
    with pytest.raises(AnalysisException, match="checkpointLocation"):
        rows.writeStream.toTable(f"{namespace}.new")
    spark.sql(f"CREATE TABLE {namespace}.new (id INT, name STRING) USING pravega")
    spark.sql(f"INSERT INTO {namespace}.new VALUES (0, 'its own')")
    with pytest.raises(AnalysisException, match="checkpointLocation"):
        rows.writeStream.toTable(f"{namespace}.new")
    assert spark.table(f"{namespace}.new").collect() == [(0, "its own")]
    assert written(rows, tmp_path).toTable(f"{namespace}.new").awaitTermination(PATIENCE)
    assert sorted(row.id for row in spark.table(f"{namespace}.new").collect()) == [0, 1, 2]


KAFKA = {
    "kafka.bootstrap.servers": ("localhost:9092", "Did you mean 'controllerUri'"),
    "subscribe": ("sensor", "Did you mean 'stream'"),
    "startingOffsets": ("earliest", "Did you mean 'startStreamCut'"),
    "maxOffsetsPerTrigger": ("1000", "Did you mean 'maxRowsPerTrigger'"),
    "maxRecordsPerPartition": ("4", "'scaling.min-segments'"),
    "groupIdPrefix": ("x", "Did you mean 'consumer'"),
    "includeHeaders": ("true", "have no headers"),
}
"""Options of Kafka's source, each with what the message says of it."""


def test_options_of_kafka_are_refused_at_once_and_all_together(spark: SparkSession, namespace: str) -> None:
    given = {key: value for key, (value, _) in KAFKA.items()} | {"failOnDataLoss": "false", "kafka.sasl.token": SECRET}
    reader = spark.readStream.options(**given)
    with pytest.raises(AnalysisException) as caught:
        reader.table(f"{namespace}.source")
    message = str(caught.value)
    assert message.startswith(f"[{OPTION}] Table {namespace}.source: There is no read option '")
    said = dict(re.findall(r"no read option '([^']*)'(.*?)(?=There is no|SQLSTATE)", message))
    assert said.keys() == {*KAFKA, "kafka.sasl.token"}
    assert {key for key, (_, words) in KAFKA.items() if words not in said[key]} == set()
    assert "failOnDataLoss" not in message
    assert SECRET not in message
    assert message.count("SQLSTATE") == 1
    assert "\n" not in message


def test_the_same_by_options_and_in_sql(spark: SparkSession, namespace: str, scope: str) -> None:
    named = {"catalog": "pravega", "scope": scope, "stream": "source"}
    with pytest.raises(AnalysisException, match=f"{OPTION}.*'startingOffsets'.*'maxOffsetsPerTrigger'"):
        spark.readStream.format("pravega").options(startingOffsets="latest", maxOffsetsPerTrigger="5", **named).load()
    options = "'startingOffsets'='latest', 'maxOffsetsPerTrigger'='5'"
    with pytest.raises(AnalysisException, match=f"{OPTION}.*'startingOffsets'.*'maxOffsetsPerTrigger'"):
        spark.sql(f"SELECT * FROM STREAM {namespace}.source WITH ({options})")
    with pytest.raises(AnalysisException, match=f"{OPTION}.*'startingOffsets'.*'maxOffsetsPerTrigger'"):
        spark.readStream.options(startingOffsets="latest", maxOffsetsPerTrigger="5").changes(f"{namespace}.source")


@pytest.mark.parametrize(("key", "value"), [("minPartitions", "4"), ("max-bytes-per-task", "16m")])
def test_micro_batches_do_not_divide_segments(spark: SparkSession, namespace: str, key: str, value: str) -> None:
    with pytest.raises(AnalysisException, match=f"'{key}'='{value}' is given, but a micro-batch reads each"):
        spark.readStream.option(key, value).table(f"{namespace}.source")
    assert spark.read.option(key, value).table(f"{namespace}.source").count() == 2


def test_right_options_are_taken(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    reader = spark.readStream.option("startStreamCut", "latest").option("maxRowsPerTrigger", 1)
    rows = reader.table(f"{namespace}.source").where("id > 0")
    assert written(rows, tmp_path).toTable(f"{namespace}.new").awaitTermination(PATIENCE)
    assert spark.table(f"{namespace}.new").collect() == []
