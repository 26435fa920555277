"""Streams of changes: micro-batches that together are the changes, whatever happens between them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import SchemaInfo
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.catalog.streaming.changes_streams import Target, target
from tests.catalog.tables.test_changes import change
from tests.catalog.tables.test_debezium import write
from tests.debezium import Record

__all__ = ["target"]


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


@pytest.mark.long
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


def test_a_schema_version_that_appears_while_a_stream_runs(
    spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path
) -> None:
    """The query keeps its columns, and reads what is written with the new version; other queries have the new ones."""
    name, seen = f"pravega.`{scope}`.plain", f"seen_{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {name} (id INT) TBLPROPERTIES ('format'='avro')")
    changes = spark.readStream.changes(name).select("id")
    checkpoint = str(tmp_path)
    query = changes.writeStream.format("memory").queryName(seen).option("checkpointLocation", checkpoint).start()
    try:
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        query.processAllAvailable()
        with connect(client_config) as pravega:
            registry = pravega.registry(scope)
            (first,) = registry.latest_schemas("plain")
            newer = json.loads(first.schema.text)
            newer["fields"].append({"name": "note", "type": ["null", "string"], "default": None})
            registry.add_schema("plain", SchemaInfo.of_text(first.schema.type, "Avro", json.dumps(newer)))
        spark.sql(f"INSERT INTO {name} VALUES (2, 'new')")
        query.processAllAvailable()
        assert sorted(row.id for row in spark.table(seen).collect()) == [1, 2]
    finally:
        query.stop()
    assert query.exception() is None
    assert sorted(map(tuple, spark.table(name).collect())) == [(1, None), (2, "new")]


def test_events_that_cannot_be_decoded(
    spark: SparkSession, client_config: ClientConfig, scope: str, tmp_path: Path
) -> None:
    stream, name = Stream(scope, "events"), f"pravega.`{scope}`.events"
    spark.sql(f"CREATE TABLE {name} (a INT NOT NULL) TBLPROPERTIES ('format'='json', 'framing'='none')")
    events = [b'{"a":1}', b"?", b'{"a":2}', b'{"a":"x"}', b'{"a":3}']
    with connect(client_config) as pravega:
        write(pravega, stream, [Record("k", each) for each in events])

    def taken(name_of_target: str, **options: str) -> list[dict[str, Any]]:
        target = Target(spark, tmp_path / name_of_target)
        target.take(spark.readStream.options(**options).changes(name))
        return sorted(target.rows(), key=lambda row: str(row["a"]))

    with pytest.raises(StreamingQueryException, match="PRAVEGA_MALFORMED_EVENT.*not a JSON document"):
        taken("failing")
    assert [row["a"] for row in taken("dropping", mode="dropmalformed")] == [1, 2, 3]
    permissive = taken("permissive", mode="permissive")
    assert [(row["a"], row["_change_type"]) for row in permissive] == [
        *((number, "insert") for number in (1, 2, 3)),
        (None, "insert"),
        (None, "insert"),
    ]
    assert [row["a"] for row in taken("letters", **{"dead-letter": "letters"})] == [1, 2, 3]
    letters = spark.sql(f"SELECT DISTINCT event FROM pravega.`{scope}`.letters").collect()
    assert sorted(bytes(row.event) for row in letters) == [b"?", b'{"a":"x"}']


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
    with pytest.raises(PySparkException, match="the newest version is 1, and the next"):
        Target(spark, tmp_path / "new").take(spark.sql(f"SELECT * FROM STREAM {plain} CHANGES FROM VERSION 9"))
    begun = {name: Target(spark, tmp_path / name[-3:]) for name in (plain, changed)}
    for name, files in begun.items():
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        files.take(spark.readStream.changes(name))
        spark.sql(f"INSERT INTO {name} VALUES (2)")
    for name, option, value, words in (
        (plain, "endingVersion", "2", "A stream of changes has no end"),
        (plain, "end-stream-cut", "latest", "'end-stream-cut' out"),
        (changed, "deduplicationMode", "netChanges", "netChanges cannot be used for|STREAMING_STATEFUL_OPERATOR"),
    ):
        frame = spark.readStream.option("startingVersion", 1).option(option, value).changes(name)
        # With a checkpoint, too.
        for files in (Target(spark, tmp_path / option), begun[name]):
            with pytest.raises(PySparkException, match=words):
                files.take(frame)


def test_insert_by_insert_beside_the_stream(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """Versions are those that CHANGES gives in the end, and every INSERT's time is known at once."""
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")
    found: list[tuple[Any, ...]] = []

    def take(batch: DataFrame, number: int) -> None:
        found.extend(tuple(row) for row in batch.drop("_change_type").collect())

    changes = spark.readStream.changes(name).writeStream.foreachBatch(take)
    query = changes.option("checkpointLocation", str(tmp_path)).start()
    try:
        with ThreadPoolExecutor(2) as pool:
            inserts = [f"INSERT INTO {name} SELECT id FROM range({first}, {first + 7})" for first in range(0, 56, 7)]
            list(pool.map(spark.sql, inserts))
        query.processAllAvailable()
    finally:
        query.stop()
    expected = spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 1").drop("_change_type").collect()
    assert sorted(found) == sorted(tuple(row) for row in expected)
    assert all(time is not None for _, _, time in found)


def test_a_checkpoint_of_a_stream_that_was_made_again(spark: SparkSession, scope: str, target: Target) -> None:
    name = f"pravega.`{scope}`.plain"
    for number in range(2):
        spark.sql(f"CREATE TABLE {name} (a INT) USING pravega")
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        changes = spark.readStream.changes(name)
        if number == 0:
            target.take(changes)
            spark.sql(f"DROP TABLE {name}")
    with pytest.raises(PySparkException, match="Was the stream dropped and recreated. Start the query with a new"):
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
        pravega.controller.truncate_stream(measure_tail(pravega, Stream(scope, "plain")))
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


def test_a_first_batch_that_failed_begins_where_it_began(
    spark: SparkSession, scope: str, client_config: ClientConfig, tmp_path: Path
) -> None:
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    found: list[int] = []

    def run(take: Callable[[DataFrame, int], None]) -> None:
        changes = spark.readStream.changes(name).writeStream.foreachBatch(take)
        changes.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()

    def fail(batch: DataFrame, number: int) -> None:
        raise RuntimeError("the target is down")

    def keep(batch: DataFrame, number: int) -> None:
        found.extend(row.a for row in batch.collect())

    with pytest.raises(StreamingQueryException, match="the target is down"):
        run(fail)
    with connect(client_config) as pravega:
        pravega.controller.truncate_stream(measure_tail(pravega, Stream(scope, "plain")))
    with pytest.raises(PySparkException, match="PRAVEGA_DATA_LOSS"):
        run(keep)
    assert found == []
