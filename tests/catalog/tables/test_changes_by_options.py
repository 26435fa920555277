"""Changes by options: `format("pravega")` with `changes` reads what `spark.read.changes` does from Spark 4.2 on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.streaming.changes_streams import Target
from tests.catalog.tables.test_changes import CHANGES, HISTORY
from tests.catalog.tables.test_debezium import write
from tests.spark_versions import VERSION, changes_by_options

Read = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def module_scope(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE NAMESPACE pravega.changesbyoptions")
    yield "changesbyoptions"
    spark.sql("DROP NAMESPACE pravega.changesbyoptions CASCADE")


@pytest.fixture(scope="module")
def table(spark: SparkSession, module_scope: str) -> str:
    name = f"pravega.`{module_scope}`.t"
    spark.sql(f"CREATE TABLE {name} (k INT NOT NULL, v STRING) TBLPROPERTIES ('format'='avro')")
    for number in range(1, 4):
        spark.sql(f"INSERT INTO {name} VALUES ({number}, 'v{number}')")
    return name


@pytest.fixture(scope="module")
def read(spark: SparkSession, module_scope: str, table: str) -> Read:
    return lambda **options: changes_by_options(spark.read, module_scope, "t", **options)


def keys(frame: DataFrame) -> list[int]:
    return sorted(row["k"] for row in frame.collect())


def test_columns_and_rows(read: Read) -> None:
    changes = read()
    assert changes.columns == ["k", "v", "_change_type", "_commit_version", "_commit_timestamp"]
    rows = changes.select("k", "v", "_change_type", "_commit_version").orderBy("k").collect()
    assert rows == [(number, f"v{number}", "insert", number) for number in range(1, 4)]


@pytest.mark.skipif(VERSION < (4, 2), reason="from Spark 4.2 on: .changes(name)")
def test_the_same_as_changes_of_the_name(spark: SparkSession, read: Read, table: str) -> None:
    def both(**options: str) -> tuple[list[Row], list[Row]]:
        frames = read(**options), spark.read.options(**options).changes(table)
        first, second = ([*frame.orderBy("k").collect()] for frame in frames)
        assert frames[0].schema == frames[1].schema
        return first, second

    for options in (
        {"startingVersion": "1"},
        {"startingVersion": "2", "endingVersion": "2"},
        {"startingVersion": "1", "endingVersion": "3", "startingBoundInclusive": "false"},
        {"startingVersion": "1", "endingVersion": "3", "endingBoundInclusive": "false"},
        {"startingTimestamp": "2026-01-31 12:00:00+00:00"},
    ):
        by_option, by_name = both(**options)
        assert by_option == by_name and by_option


def test_ranges(read: Read) -> None:
    assert keys(read(startingVersion="2")) == [2, 3]
    assert keys(read(endingVersion="2")) == [1, 2]
    assert keys(read(startingVersion="1", endingVersion="3", startingBoundInclusive="false")) == [2, 3]
    assert keys(read(startingVersion="1", endingVersion="3", endingBoundInclusive="False")) == [1, 2]
    written = read().where("_commit_version = 2").selectExpr("unix_micros(_commit_timestamp)").collect()[0][0]
    second = datetime.fromtimestamp(written / 1e6, UTC).isoformat()
    assert keys(read(startingTimestamp=second)) == [2, 3]
    assert keys(read(endingTimestamp=second)) == [1, 2]
    assert keys(read(startingTimestamp=second, endingTimestamp=second, endingBoundInclusive="false")) == []
    assert keys(read(deduplicationMode="dropCarryovers").where("_commit_version = 2 AND k > 0")) == [2]


@pytest.mark.parametrize("bounds", [{}, {"startingVersion": "2"}, {"startingTimestamp": "2026-01-31T12:00:00Z"}])
def test_aggregates_of_changes(read: Read, bounds: dict[str, str]) -> None:
    number = len(keys(read(**bounds)))
    assert number > 1 and read(**bounds).count() == number
    assert read(**bounds).groupBy("_change_type").count().collect() == [("insert", number)]
    assert read(**bounds).selectExpr("max(_commit_version)").collect() == [(3,)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingVersion": "x"}, "is not a version: give a whole number"),
        ({"startingVersions": "1"}, "Did you mean 'startingVersion'"),
        ({"startingVersion": "3", "endingVersion": "1"}, "ends at version 1, before its start 3"),
        ({"startingTimestamp": "yesterday"}, "'startingTimestamp'='yesterday': expected a time with its zone"),
        ({"startingBoundInclusive": "maybe"}, "'startingBoundInclusive'='maybe': "),
        ({"startingVersion": "1", "endingTimestamp": "2026-01-31T12:00:00Z"}, "either versions or timestamps"),
        ({"deduplicationMode": "netChanges"}, r"Use spark\.read\.changes\('<catalog>"),
        ({"deduplicationMode": "netChange"}, "'deduplicationMode'='netChange': expected none or dropCarryovers"),
        ({"computeUpdates": "maybe"}, "'computeUpdates'='maybe': "),
        ({"start-version": "2"}, "CHANGES has bounds of its own. Leave 'start-version' out"),
        (
            {"changes": "false", "startingVersion": "1"},
            "'startingVersion' applies only to reads of changes. Add 'changes'='true'",
        ),
    ],
    ids=lambda value: " ".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else "",
)
def test_options_without_sense(read: Read, options: dict[str, str], words: str) -> None:
    with pytest.raises(PySparkException, match=words):
        read(**options).collect()


def test_what_has_no_changes_changes_by_options(spark: SparkSession, module_scope: str, table: str) -> None:
    several = spark.read.format("pravega").options(catalog="pravega", scope=module_scope, pattern="t.*", changes="true")
    with pytest.raises(PySparkException, match="'changes' cannot be used with several streams"):
        several.load()
    with pytest.raises(PySparkException, match="'changes' defines the columns itself. Leave .schema"):
        changes_by_options(spark.read.schema("k INT"), module_scope, "t").collect()
    with pytest.raises(PySparkException, match="'changes' cannot be given in a query on a table of a catalog"):
        spark.read.option("changes", "true").table(table).collect()
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        changes_by_options(spark.read, module_scope, "t").select("_offset")
    with pytest.raises(PySparkException, match="'changes'"):
        named = {"catalog": "pravega", "scope": module_scope, "stream": "t", "changes": "true"}
        spark.table(table).write.format("pravega").options(**named).mode("append").save()


def test_a_stream_takes_each_change_once(
    spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path
) -> None:
    """Both images of an update, from events of Debezium, over several runs of one checkpoint."""
    target = Target(spark, tmp_path)
    spark.sql(
        f"CREATE TABLE pravega.`{scope}`.shop (id INT, v STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id', 'scaling.min-segments'='2')"
    )
    with connect(client_config) as pravega:
        for event in CHANGES:
            write(pravega, Stream(scope, "shop"), [event])
            target.take(changes_by_options(spark.readStream, scope, "shop", startingVersion="20"))
    kinds = ["delete", "update_preimage", "update_postimage", "insert"]
    found = [(row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in target.rows()]
    assert sorted(found, key=lambda row: (row[0], row[2], kinds.index(row[1]))) == HISTORY[1:]
    with pytest.raises(PySparkException, match="A stream of changes has no end"):
        Target(spark, tmp_path / "new").take(changes_by_options(spark.readStream, scope, "shop", endingVersion="30"))
