"""Limits of streams of changes: smaller batches, and together the same changes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.changes_offset import ChangesOffset
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.catalog.streaming.changes_streams import Shop, Target, parts, scale, shop, target
from tests.catalog.tables.test_changes import after_changes, change
from tests.catalog.tables.test_debezium import create_stream, declare, write
from tests.debezium import records, tables
from tests.formats.changes.test_debezium_capture import assert_equal

__all__ = ["shop", "target"]


def sizes(changes: DataFrame, checkpoint: Path, between: Any = None) -> list[list[Any]]:
    """The rows of each batch until all is read that there was at the start."""
    found: list[list[Any]] = []

    def take(batch: DataFrame, number: int) -> None:
        found.append(batch.collect())
        if between is not None:
            between(number)

    query = changes.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return found


def test_limited_batches_of_captured_streams_lead_to_their_tables(
    spark: SparkSession, client_config: ClientConfig, scope: str, target: Target
) -> None:
    """Events of two segments that share keys, with splits and merges in between: each batch is a part of the story."""
    captured = tables()["orders"]
    stream = Stream(scope, captured.topic.replace("_", "-"))
    with connect(client_config) as pravega:
        create_stream(pravega, stream, 2)
        shown = declare(spark, stream, captured)
        for number, events in enumerate(parts(records()[captured.topic], 3)):
            write(pravega, stream, events)
            scale(pravega, stream, number)
    most = len(records()[captured.topic]) // 5
    batches = target.take(spark.readStream.option("maxRowsPerTrigger", most).changes(shown))
    assert batches > 5
    rows = target.rows()
    rows.sort(key=lambda row: (row["_commit_version"], row["_change_type"] != "update_preimage"))
    assert_equal(captured, after_changes(rows, captured.key))


def test_limits_by_bytes_and_rows(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.write(*(change("c", 10 + number, None, {"id": number, "v": "x" * 100}) for number in range(100)))
    size = sum(measure_tail(shop.pravega, shop.stream).positions.values())
    by_rows = sizes(spark.readStream.option("maxRowsPerTrigger", "30").changes(shop.name), tmp_path / "rows")
    # Each of two segments has its share of the limit in whole events.
    assert {len(batch) for batch in by_rows[:3]} <= {28, 29, 30} and sum(map(len, by_rows)) == 100
    half = spark.readStream.option("maxBytesPerTrigger", str(size // 2 + 1)).changes(shop.name)
    by_bytes = [len(batch) for batch in sizes(half, tmp_path / "bytes")]
    assert max(by_bytes) <= 51 and sum(by_bytes) == 100
    assert [len(batch) for batch in sizes(spark.readStream.changes(shop.name), tmp_path / "default")] == [100]


def test_what_comes_later_is_for_the_next_run(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    keys = itertools.count(1000)
    shop.write(*(change("c", 10, None, {"id": number, "v": "x"}) for number in range(6)))

    def more(batch: int) -> None:
        shop.write(change("c", 20, None, {"id": next(keys), "v": "late"}))

    # A limit that is smaller than an event admits one.
    changes = spark.readStream.option("maxBytesPerTrigger", "10").changes(shop.name)
    assert [[row.v for row in batch] for batch in sizes(changes, tmp_path, more)] == [["x"]] * 6
    assert {row.v for batch in sizes(changes, tmp_path) for row in batch} == {"late"}


def test_versions_are_those_of_whole_commits(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """Also where a batch ends within a commit, in some segments more than in others."""
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega TBLPROPERTIES ('scaling.min-segments'='3')")
    for version in range(6):
        spark.sql(f"INSERT INTO {name} SELECT id FROM range({10 * version}, {10 * version + 1 + 3 * version})")
    changes = spark.readStream.option("maxRowsPerTrigger", "7").changes(name)
    found = sizes(changes, tmp_path)
    assert max(map(len, found)) <= 7
    expected = spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 1").collect()
    assert sorted(row for batch in found for row in batch) == sorted(expected)


def test_a_limited_batch_is_done_again_as_it_was(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    name = f"pravega.`{scope}`.plain"
    spark.sql(f"CREATE TABLE {name} (a INT) USING pravega TBLPROPERTIES ('scaling.min-segments'='3')")
    for first in (0, 10, 20):
        spark.sql(f"INSERT INTO {name} SELECT id FROM range({first}, {first + 10})")
    changes = spark.readStream.option("maxRowsPerTrigger", "8").changes(name)
    seen: list[list[Any]] = []

    def fail(batch: DataFrame, number: int) -> None:
        seen.append(sorted(batch.collect()))
        if number == 2:
            raise RuntimeError("the target is down")

    query = changes.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match="the target is down"):
        query.trigger(availableNow=True).start().awaitTermination()
    spark.sql(f"INSERT INTO {name} SELECT id FROM range(30, 40)")
    rest = sizes(spark.readStream.changes(name), tmp_path)
    assert sorted(rest[0]) == seen[2]
    every = [row for batch in (*seen[:2], *rest) for row in batch]
    assert sorted(every) == sorted(spark.sql(f"SELECT * FROM {name} CHANGES FROM VERSION 1").collect())


def test_a_batch_waits_for_enough_rows(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    found: list[int] = []
    changes = spark.readStream.option("minRowsPerTrigger", "5").option("maxTriggerDelay", "1h").changes(shop.name)
    query = changes.writeStream.foreachBatch(lambda batch, number: found.append(batch.count()))
    shop.write(change("c", 10, None, {"id": 0, "v": "x"}))
    running = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        running.processAllAvailable()
        for number in range(1, 6):
            shop.write(change("c", 10, None, {"id": number, "v": "x"}))
            if number == 3:
                running.processAllAvailable()
                assert found == [1]
        running.processAllAvailable()
    finally:
        running.stop()
    assert found == [1, 5]


def test_positions_of_earlier_releases_are_read() -> None:
    begin = '{"version": 0, "positions": {}, "begin": null}'
    old = f'{{"stream": "s/t", "version": 3, "positions": {{"0": 176}}, "begin": {begin}}}'
    position = ChangesOffset.from_json(old)
    assert position.to_json() == old and position.known is None
    limited = ChangesOffset(position.cut, 2, position.begin, known=5)
    assert ChangesOffset.from_json(limited.to_json()) == limited
