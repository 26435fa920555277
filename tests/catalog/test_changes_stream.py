"""Streams of changes: micro-batches that together are the changes, whatever happens between them."""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.types import SchemaInfo
from pyspark_pravega.client.routing import SegmentRouter, hash_keys
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.states import RowStates
from pyspark_pravega.datasource.scan.snapshot import tail_cut
from tests.catalog.test_changes import CHANGES, HISTORY, after_changes, change
from tests.catalog.test_debezium import create_stream, declare, write
from tests.debezium import Record, records, tables
from tests.formats.changes.test_debezium_capture import assert_equal


class Target:
    """Where a stream of changes goes: files, which take each batch once."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark, self._directory = spark, directory

    @property
    def checkpoint(self) -> Path:
        return self._directory / "checkpoint"

    @property
    def rows_known(self) -> Path:
        """Where the checkpoint has the rows that the stream of changes knows."""
        return self.checkpoint / "sources" / "0" / "rows"

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

    with pytest.raises(StreamingQueryException, match="PRAVEGA_MALFORMED_EVENT.*no JSON document"):
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
    shutil.rmtree(state_directory(spark))


def state_directory(spark: SparkSession) -> Path:
    """Where tasks keep the states of rows."""
    return Path(spark.sparkContext.parallelize([0], 1).map(lambda _: str(RowStates().directory)).first())


@pytest.mark.parametrize(
    ("name", "between"),
    [("customers", None), ("scratch", None), ("orders", forget)],
    ids=["customers-known", "scratch-known", "orders-forgotten"],
)
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
    with pytest.raises(PySparkException, match="the newest version is 1, and the next"):
        Target(spark, tmp_path / "new").take(spark.sql(f"SELECT * FROM STREAM {plain} CHANGES FROM VERSION 9"))
    begun = {name: Target(spark, tmp_path / name[-3:]) for name in (plain, changed)}
    for name, target in begun.items():
        spark.sql(f"INSERT INTO {name} VALUES (1)")
        target.take(spark.readStream.changes(name))
        spark.sql(f"INSERT INTO {name} VALUES (2)")
    for name, option, value, words in (
        (plain, "endingVersion", "2", "A stream of changes has no end"),
        (plain, "end-stream-cut", "latest", "'end-stream-cut' out"),
        (changed, "deduplicationMode", "netChanges", "netChanges is not possible for|STREAMING_STATEFUL_OPERATOR"),
    ):
        frame = spark.readStream.option("startingVersion", 1).option(option, value).changes(name)
        # With a checkpoint, too.
        for target in (Target(spark, tmp_path / option), begun[name]):
            with pytest.raises(PySparkException, match=words):
                target.take(frame)


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
            inserts = [f"INSERT INTO {name} SELECT id FROM range({first}, {first + 7})" for first in range(0, 105, 7)]
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


@pytest.fixture
def shop(spark: SparkSession, client_config: ClientConfig, scope: str) -> Iterator[Shop]:
    stream = Stream(scope, "dbz.shop")
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 2)
        name = f"pravega.`{scope}`.`dbz.shop`"
        spark.sql(
            f"CREATE TABLE {name} (id INT, v STRING) USING pravega "
            "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
        )
        yield Shop(pravega, stream, name)


@dataclass
class Shop:
    """A change table of two segments."""

    pravega: Pravega
    stream: Stream
    name: str

    def key(self, segment: int) -> int:
        """A key of the first or the second segment; events without key go to the first one."""
        current = self.pravega.controller.current_segments(self.stream)
        router, wanted = SegmentRouter(current), [each.segment_id for each in current][segment]
        keys = (key for key in itertools.count() if router.route(hash_keys([json.dumps({"id": key})]))[0] == wanted)
        return next(keys)

    def write(self, *events: Record) -> None:
        write(self.pravega, self.stream, events)

    def removed(self) -> None:
        """Let retention remove all there is."""
        self.pravega.controller.truncate_stream(tail_cut(self.pravega, self.stream))


def brief(rows: list[dict[str, Any]]) -> list[tuple[int, str, int, str]]:
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in rows)


def test_what_is_known_of_rows_outlives_their_events(spark: SparkSession, shop: Shop, target: Target) -> None:
    first, second = shop.key(0), shop.key(1)
    shop.write(*(change("c", 10, None, {"id": key, "v": "a"}) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    scale(shop.pravega, shop.stream, 0)
    target.take(spark.readStream.changes(shop.name))  # of no events
    shop.removed()
    shop.write(*(change("u", 20, None, {"id": key, "v": "b"}) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    expected = [(10, "insert", "a"), (20, "update_postimage", "b"), (20, "update_preimage", "a")]
    assert brief(target.rows()) == sorted((*row[:2], key, row[2]) for row in expected for key in (first, second))
    forget(spark)
    shop.write(change("d", 30, {"id": first, "v": None}, None))
    target.take(spark.readStream.changes(shop.name))
    assert brief(target.rows())[-1] == (30, "delete", first, "b")
    shutil.rmtree(target.rows_known)
    shop.write(change("u", 40, None, {"id": second, "v": "c"}))
    with pytest.raises(PySparkException, match=r"PRAVEGA_DATA_LOSS.*checkpoint does not have the rows"):
        target.take(spark.readStream.changes(shop.name))
    target.take(spark.readStream.option("fail-on-data-loss", "false").changes(shop.name))
    last = [(40, "update_postimage", second, "c"), (40, "update_preimage", second, "b")]
    assert brief(target.rows())[-2:] == last


def test_a_checkpoint_in_a_file_system_that_only_hadoop_knows(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """Python reaches no such path."""
    key = shop.key(0)
    (tmp_path / "disk").mkdir()
    spark.conf.set("fs.viewfs.mounttable.test.link./mounted", (tmp_path / "disk").as_uri())
    found: list[Any] = []

    def take(batch: DataFrame, number: int) -> None:
        found.extend(sorted((row._change_type, row.v) for row in batch.collect()))
        forget(spark)

    try:
        for number, op in enumerate("cud"):
            image = {"id": key, "v": str(number)}
            shop.write(change(op, 10 + number, image if op == "d" else None, None if op == "d" else image))
            query = spark.readStream.changes(shop.name).writeStream.foreachBatch(take)
            query = query.option("checkpointLocation", "viewfs://test/mounted/checkpoint")
            query.trigger(availableNow=True).start().awaitTermination()
            shop.removed()
    finally:
        spark.conf.unset("fs.viewfs.mounttable.test.link./mounted")
    assert found == [("insert", "0"), ("update_postimage", "1"), ("update_preimage", "0"), ("delete", "1")]
    assert list((tmp_path / "disk" / "checkpoint" / "sources" / "0" / "rows").glob("*.whole"))


def test_rows_of_segments_that_are_merged_are_known(spark: SparkSession, shop: Shop, target: Target) -> None:
    first, second = shop.key(0), shop.key(1)
    shop.write(*(change("c", 10, None, {"id": key, "v": "a"}) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    for number in range(2):
        scale(shop.pravega, shop.stream, number)
    target.take(spark.readStream.changes(shop.name))  # of no events
    shop.removed()
    forget(spark)
    shop.write(*(change("u", 20, None, {"id": key, "v": "b"}) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    shop.write(*(change("d", 30, {"id": key, "v": None}, None) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    assert [row for row in brief(target.rows()) if row[2] == second] == [
        (10, "insert", second, "a"),
        (20, "update_postimage", second, "b"),
        (20, "update_preimage", second, "a"),
        (30, "delete", second, "b"),
    ]


def test_a_checkpoint_keeps_as_many_states_as_spark_keeps_batches(
    spark: SparkSession, shop: Shop, target: Target
) -> None:
    key = shop.key(0)
    shop.write(*(change("c", 1, None, {"id": each, "v": "x" * 100}) for each in (key, *range(1000, 1100))))
    counts: list[int] = []
    last: list[Any] = []

    def take(batch: DataFrame, number: int) -> None:
        last[:] = sorted((row._commit_version, row._change_type, row.v) for row in batch.collect())
        forget(spark)
        counts.append(len([path for path in target.rows_known.iterdir() if path.suffix != ".crc"]))

    def run(rows: int) -> None:
        changes = spark.readStream.option("maxRowsPerTrigger", rows).changes(shop.name).writeStream.foreachBatch(take)
        changes.option("checkpointLocation", str(target.checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "3")
    try:
        run(1000)
        shop.write(*(change("u", 10 + number, None, {"id": key, "v": str(number)}) for number in range(24)))
        run(1)
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    assert len(counts) == 25
    # The files of a state, those of the batches that may be done again, one of the other group, what says so for each.
    assert max(counts) <= 16 + 4 + 1 + 5
    assert counts[-1] < max(counts), "the files before one that is whole again are removed"
    assert len(list(target.rows_known.glob("*.known"))) <= 5
    assert last == [(33, "update_postimage", "23"), (33, "update_preimage", "22")]
    # The batches before can be done again.
    for directory in ("commits", "offsets"):
        batches = sorted(int(path.name) for path in (target.checkpoint / directory).iterdir() if path.name.isdigit())
        for number in batches[-2:]:
            (target.checkpoint / directory / str(number)).unlink()
            (target.checkpoint / directory / f".{number}.crc").unlink(missing_ok=True)
    moved = shutil.move(target.checkpoint, target.checkpoint.with_name("moved"))
    found: list[Any] = []

    def keep(batch: DataFrame, number: int) -> None:
        found.extend((row._commit_version, row._change_type, row.v) for row in batch.collect())

    changes = spark.readStream.changes(shop.name).writeStream.foreachBatch(keep)
    changes.option("checkpointLocation", str(moved)).trigger(availableNow=True).start().awaitTermination()
    kinds = ("update_preimage", "update_postimage")
    assert found == [(32 + n, kind, str(21 + n + k)) for n in range(2) for k, kind in enumerate(kinds)]


def test_a_batch_whose_rows_nobody_wanted(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """Its tasks leave no state. What it had is read again."""
    key = shop.key(0)
    found: list[Any] = []

    def take(batch: DataFrame, number: int) -> None:
        if number != 1:
            found.extend(sorted((row._change_type, row.v) for row in batch.collect()))

    for number in range(3):
        shop.write(change("u", 10 + number, None, {"id": key, "v": str(number)}))
        changes = spark.readStream.changes(shop.name).writeStream.foreachBatch(take)
        changes.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert found == [("insert", "0"), ("update_postimage", "2"), ("update_preimage", "1")]


def test_truncations_in_segments_that_share_no_key(spark: SparkSession, shop: Shop, target: Target) -> None:
    first, second = shop.key(0), shop.key(1)
    states = state_directory(spark)
    shop.write(*(change("c", 10, None, {"id": key, "v": "a"}) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    former = {path: path.read_bytes() for path in states.iterdir()}
    shop.write(change("t", 20, None, None))
    target.take(spark.readStream.changes(shop.name))
    for path, content in former.items():
        path.write_bytes(content)  # as on a machine that did not have the last task
    shop.write(change("c", 30, None, {"id": second, "v": "b"}))
    target.take(spark.readStream.changes(shop.name))
    shop.write(change("t", 40, None, None))
    target.take(spark.readStream.changes(shop.name))
    assert brief(target.rows()) == sorted(
        [
            *((10, "insert", key, "a") for key in (first, second)),
            *((20, "delete", key, "a") for key in (first, second)),
            (30, "insert", second, "b"),
            (40, "delete", second, "b"),
        ]
    )


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
        pravega.controller.truncate_stream(tail_cut(pravega, Stream(scope, "plain")))
    with pytest.raises(PySparkException, match="PRAVEGA_DATA_LOSS"):
        run(keep)
    assert found == []
