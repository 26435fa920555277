"""Streams of changes of rows: what is known of rows is kept, beside the checkpoint and in the tasks."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.streaming.changes_streams import (
    Shop,
    Target,
    brief,
    forget,
    parts,
    scale,
    shop,
    state_directory,
    target,
)
from tests.catalog.tables.test_changes import CHANGES, HISTORY, after_changes, change
from tests.catalog.tables.test_debezium import create_stream, declare, write
from tests.debezium import Record, records, tables
from tests.formats.changes.test_debezium_capture import assert_equal

__all__ = ["shop", "target"]


@pytest.mark.parametrize(
    ("name", "between"),
    [
        pytest.param("customers", None, id="customers-known", marks=pytest.mark.long),
        pytest.param("scratch", None, id="scratch-known", marks=pytest.mark.long),
        pytest.param("orders", forget, id="orders-forgotten"),
    ],
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


def leave_unfinished(directory: Path) -> list[Path]:
    """Leave files as tasks do that are killed while they write; a file of others and a new one are the last two."""
    names = [f".{path.name}.{uuid.uuid4()}.TID7.tmp" for path in directory.glob("*.whole")]
    names += [f".{path.name}.{uuid.uuid4()}.tmp" for path in directory.glob("*.known")]
    left = [directory / name for name in [*names, "new.tmp", f".1.part.{uuid.uuid4()}.TID8.tmp"]]
    assert len(left) > 3
    for path in left:
        path.write_bytes(b"half")
        if path is not left[-1]:
            os.utime(path, (0, 0))
    return left


@pytest.mark.parametrize(
    ("others", "updates"), [(10, 12), pytest.param(100, 24, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_a_checkpoint_keeps_as_many_states_as_spark_keeps_batches(
    spark: SparkSession, shop: Shop, target: Target, others: int, updates: int
) -> None:
    """A state that is whole follows on changes of half its size, or on 16 files of them."""
    key = shop.key(0)
    shop.write(*(change("c", 1, None, {"id": each, "v": "x" * 100}) for each in (key, *range(1000, 1000 + others))))
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
        shop.write(*(change("u", 10 + number, None, {"id": key, "v": str(number)}) for number in range(updates)))
        left = leave_unfinished(target.rows_known)
        run(1)
        assert [path.name for path in left if path.exists()] == ["new.tmp", left[-1].name]
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    assert len(counts) == updates + 1
    # The files of a state, those of the batches that may be done again, one of the other group, what says so for each.
    assert max(counts) <= 16 + 4 + 1 + 5
    removed = any(after < before for before, after in pairwise(counts))
    assert removed, "the files before one that is whole again are removed"
    assert len(list(target.rows_known.glob("*.known"))) <= 5
    newest = updates - 1
    assert last == [
        (10 + newest, "update_postimage", str(newest)),
        (10 + newest, "update_preimage", str(newest - 1)),
    ]
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
    again = newest - 1, newest
    assert found == [(10 + n, kind, str(n - 1 + k)) for n in again for k, kind in enumerate(kinds)]


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


def test_a_snapshot_that_ends_batches_after_it_began(spark: SparkSession, shop: Shop, target: Target) -> None:
    """Its marks lie in other segments than the rows that it lacks, and each batch is that of a query of its own."""
    first, second = shop.key(0), shop.key(1)

    def read(at: int, key: int, mark: str) -> Record:
        event = change("r", at, None, {"id": key, "v": "a"})
        return Record(event.key, event.value.replace(b'"lsn":', f'"snapshot": "{mark}", "lsn":'.encode()))

    shop.write(*(change("c", 10, None, {"id": key, "v": "a"}) for key in (first, second)))
    target.take(spark.readStream.changes(shop.name))
    for mark in ("first", "true", "last"):
        shop.write(read(20, first, mark))
        target.take(spark.readStream.changes(shop.name))
        assert len(target.rows()) == (3 if mark == "last" else 2)
    shop.write(change("c", 30, None, {"id": second, "v": "b"}))
    target.take(spark.readStream.changes(shop.name))
    assert brief(target.rows()) == sorted(
        [
            *((10, "insert", key, "a") for key in (first, second)),
            (20, "delete", second, "a"),
            (30, "insert", second, "b"),
        ]
    )


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
