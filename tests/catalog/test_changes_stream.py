"""Streams of changes: micro-batches that together are the changes, whatever happens between them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.snapshot import tail_cut
from tests.catalog.test_changes import CHANGES, HISTORY, after_changes, change
from tests.catalog.test_debezium import create_stream, declare, write
from tests.debezium import Record, records, tables
from tests.formats.test_debezium_capture import assert_equal


class Target:
    """Where a stream of changes goes: files, which take each batch once."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark, self._directory = spark, directory

    @property
    def checkpoint(self) -> Path:
        return self._directory / "checkpoint"

    def take(self, changes: DataFrame) -> int:
        """Let all there is now come in, from where the last call ended; return the number of batches."""
        query = (
            changes.writeStream.format("parquet")
            .option("path", str(self._directory / "rows"))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return len([each for each in query.recentProgress if each.numInputRows])

    def rows(self) -> list[dict[str, Any]]:
        frame = self._spark.read.parquet(str(self._directory / "rows"))
        found = [row.asDict(recursive=True) for row in frame.collect()]
        for row, (column, kind) in itertools.product(found, frame.dtypes):
            if kind == "timestamp" and row[column] is not None:
                row[column] = row[column].astimezone(UTC)
            elif kind == "binary" and row[column] is not None:
                row[column] = bytes(row[column])
        return found


@pytest.fixture
def target(spark: SparkSession, tmp_path: Path) -> Target:
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return Target(spark, tmp_path)


def test_rows_appended_come_once_with_their_version(spark: SparkSession, scope: str, target: Target) -> None:
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT, b STRING) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")

    def take(changes: DataFrame) -> list[tuple[int, int, str]]:
        target.take(changes)
        return sorted((row["a"], row["_commit_version"], row["_change_type"]) for row in target.rows())

    spark.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'y')")
    spark.sql(f"INSERT INTO {name} VALUES (3, 'z')")
    stream = f"SELECT * FROM STREAM {name} CHANGES FROM VERSION 2"
    assert take(spark.sql(stream)) == [(3, 2, "insert")]
    assert target.take(spark.sql(stream)) == 0
    spark.sql(f"INSERT INTO {name} VALUES (4, 'x')")
    spark.sql(f"INSERT INTO {name} VALUES (5, 'y'), (6, 'y')")
    expected = [(3, 2, "insert"), (4, 3, "insert"), (5, 4, "insert"), (6, 4, "insert")]
    assert take(spark.readStream.changes(name)) == expected
    times = {row["_commit_version"]: row["_commit_timestamp"] for row in target.rows()}
    batch = spark.sql(f"SELECT DISTINCT _commit_version, _commit_timestamp FROM {name} CHANGES FROM VERSION 2")
    assert times == {row[0]: row[1].astimezone(UTC) for row in batch.collect()}


def test_without_a_start_all_rows_come(spark: SparkSession, scope: str, target: Target) -> None:
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega")
    assert target.take(spark.sql(f"SELECT * FROM STREAM {name} CHANGES")) == 0
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(1000)")
    target.take(spark.sql(f"SELECT * FROM STREAM {name} CHANGES"))
    assert sorted(row["a"] for row in target.rows()) == list(range(1000))


def test_a_running_stream_takes_what_comes(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    name, copy = f"pravega.`{scope}`.plain", f"pravega.`{scope}`.copy"
    for each in (name, copy):
        spark.sql(f"CREATE TABLE {each} (a INT) USING pravega")
    changes = spark.readStream.changes(name)
    assert changes.isStreaming

    def insert(batch: DataFrame, number: int) -> None:
        batch.select("a").write.insertInto(copy)

    query = changes.writeStream.foreachBatch(insert).option("checkpointLocation", str(tmp_path)).start()
    try:
        for number in range(3):
            spark.sql(f"INSERT INTO {name} VALUES ({number})")
            query.processAllAvailable()
            assert sorted(row.a for row in spark.table(copy).collect()) == list(range(number + 1))
    finally:
        query.stop()
    assert query.exception() is None


def parts(events: list[Record], count: int) -> list[list[Record]]:
    size = len(events) // count + 1
    return [events[begin : begin + size] for begin in range(0, len(events), size)]


def scale(pravega: Pravega, stream: Stream, number: int) -> None:
    """Split the lowest segment, or merge the two highest ones, by turns."""
    ordered = sorted(pravega.controller.current_segments(stream), key=lambda each: each.min_key)
    if number % 2 == 0:
        low, high = ordered[0].min_key, ordered[0].max_key
        half = (low + high) / 2
        pravega.controller.scale_stream(stream, [ordered[0].segment_id], [(low, half), (half, high)])
    else:
        merged = ordered[-2:]
        ids = [each.segment_id for each in merged]
        pravega.controller.scale_stream(stream, ids, [(merged[0].min_key, merged[1].max_key)])


def forget(spark: SparkSession) -> None:
    """Delete what tasks keep between batches, as if others went on."""
    directory = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"]).first()
    found = list(Path(directory).glob("pyspark-pravega-row-states-*"))
    assert found
    for each in found:
        shutil.rmtree(each)


@pytest.mark.parametrize("between", [None, forget], ids=["known", "forgotten"])
@pytest.mark.parametrize("name", ["customers", "orders", "scratch"])
def test_changes_of_captured_streams_lead_to_their_tables(
    spark: SparkSession,
    client_config: ClientConfig,
    scope: str,
    target: Target,
    name: str,
    between: Callable[[SparkSession], None] | None,
) -> None:
    captured = tables()[name]
    stream = Stream(scope, captured.topic.replace("_", "-"))
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 2)
        shown = declare(spark, stream, captured)
        for number, events in enumerate(parts(records()[captured.topic], 4)):
            write(pravega, stream, events)
            assert target.take(spark.readStream.changes(shown)) == 1
            if between is not None:
                between(spark)
            scale(pravega, stream, number)
    rows = sorted(target.rows(), key=lambda row: row["_commit_version"])
    # Files have no order, that of versions is the order for each key; an update's images are of one version.
    rows.sort(key=lambda row: (row["_commit_version"], row["_change_type"] != "update_preimage"))
    assert_equal(captured, after_changes(rows, captured.key))


def test_each_batch_has_what_is_new(
    spark: SparkSession, client_config: ClientConfig, scope: str, target: Target
) -> None:
    stream = Stream(scope, "dbz.shop")
    name = f"pravega.`{scope}`.`dbz.shop`"
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 2)
        spark.sql(
            f"CREATE TABLE {name} (id INT, v STRING) USING pravega "
            "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
        )
        for event in CHANGES:
            write(pravega, stream, [event])
            target.take(spark.sql(f"SELECT * FROM STREAM {name} CHANGES FROM VERSION 20"))
    kinds = ["delete", "update_preimage", "update_postimage", "insert"]
    found = [(row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in target.rows()]
    assert sorted(found, key=lambda row: (row[0], row[2], kinds.index(row[1]))) == HISTORY[1:]


def test_a_batch_that_failed_is_done_again(
    spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path
) -> None:
    stream = Stream(scope, "dbz.shop")
    name = f"pravega.`{scope}`.`dbz.shop`"
    spark.sql(
        f"CREATE TABLE {name} (id INT, v STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    found: list[Any] = []
    broken = [True]

    def take(batch: DataFrame, number: int) -> None:
        rows = sorted((row._commit_version, row._change_type, row.v) for row in batch.collect())
        if number == 1 and broken.pop():
            raise RuntimeError("the target is down")
        found.extend(rows)

    def run() -> None:
        changes = spark.readStream.changes(name).writeStream.foreachBatch(take)
        changes.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    with connect(client_config) as pravega:
        write(pravega, stream, [change("c", 10, None, {"id": 1, "v": "a"})])
        run()
        write(pravega, stream, [change("u", 20, None, {"id": 1, "v": "b"})])
        with pytest.raises(StreamingQueryException, match="the target is down"):
            run()
        broken.append(False)
        write(pravega, stream, [change("d", 30, {"id": 1, "v": None}, None)])
        run()
    assert found == [
        (10, "insert", "a"),
        (20, "update_postimage", "b"),
        (20, "update_preimage", "a"),
        (30, "delete", "b"),
    ]


def test_streams_without_sense(spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path) -> None:
    plain, changed = f"pravega.`{scope}`.plain", f"pravega.`{scope}`.changed"
    spark.sql(f"CREATE TABLE {plain} (a INT) USING pravega")
    spark.sql(
        f"CREATE TABLE {changed} (id INT) USING pravega TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    spark.sql(f"INSERT INTO {plain} VALUES (1)")
    read = spark.readStream
    for frame, words in (
        (read.option("startingVersion", 1).option("endingVersion", 2).changes(plain), "A stream of changes has no end"),
        (spark.sql(f"SELECT * FROM STREAM {plain} CHANGES FROM VERSION 9"), "the newest version is 1, and the next"),
        (spark.readStream.option("deduplicationMode", "netChanges").changes(changed), "netChanges is not possible for"),
        (spark.readStream.option("end-stream-cut", "latest").changes(plain), "'end-stream-cut' out"),
    ):
        checkpoint = tmp_path / str(words)
        query = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        with pytest.raises(PySparkException, match=words):
            query.trigger(availableNow=True).start().awaitTermination()


def test_a_checkpoint_of_a_stream_that_was_made_again(spark: SparkSession, scope: str, target: Target) -> None:
    name = f"pravega.`{scope}`.plain"
    for number in range(2):
        spark.sql(f"CREATE TABLE {name} (a INT) USING pravega")
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        changes = spark.readStream.changes(name)
        if number == 0:
            target.take(changes)
            spark.sql(f"DROP TABLE {name}")
    with pytest.raises(PySparkException, match="Was the stream dropped and made again. Start the query with a new"):
        target.take(changes)


def test_events_that_retention_removed_before_they_were_read(
    spark: SparkSession, client_config: ClientConfig, scope: str, target: Target
) -> None:
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    target.take(spark.readStream.changes(name))
    with connect(client_config) as pravega:
        spark.sql(f"INSERT INTO {name} VALUES (2), (3)")
        pravega.controller.truncate_stream(tail_cut(pravega, Stream(scope, "plain")))
    with pytest.raises(PySparkException, match="PRAVEGA_DATA_LOSS"):
        target.take(spark.readStream.changes(name))
    spark.sql(f"INSERT INTO {name} VALUES (4)")
    target.take(spark.readStream.option("fail-on-data-loss", "false").changes(name))
    assert sorted(row["a"] for row in target.rows()) == [1, 4]


def test_positions_in_checkpoints_are_json(spark: SparkSession, scope: str, target: Target) -> None:
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    target.take(spark.readStream.changes(name))
    offsets = (target.checkpoint / "offsets" / "0").read_text().splitlines()
    position = json.loads(offsets[-1])
    assert position["stream"] == f"{scope}/plain" and position["version"] == 1
    assert [offset > 0 for offset in position["positions"].values()] == [True]
