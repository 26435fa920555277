"""Streams of changes for tests: where they go, and a table of changes that they read."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.routing import SegmentRouter, hash_keys
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.states import RowStates
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from tests.catalog.tables.test_debezium import create_stream, write
from tests.debezium import Record


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
    if (directory := state_directory(spark)).exists():
        shutil.rmtree(directory)


@cache
def state_directory(spark: SparkSession) -> Path:
    """Where tasks keep the states of rows."""
    return Path(spark.sparkContext.parallelize([0], 1).map(lambda _: str(RowStates().directory)).first())


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
        place = router.segment_ids.index(wanted)
        texts = ((key, pa.array([json.dumps({"id": key})])) for key in itertools.count())
        return next(key for key, text in texts if router.places(hash_keys(text))[0] == place)

    def write(self, *events: Record) -> None:
        write(self.pravega, self.stream, events)

    def removed(self) -> None:
        """Let retention remove all there is."""
        self.pravega.controller.truncate_stream(measure_tail(self.pravega, self.stream))


def brief(rows: list[dict[str, Any]]) -> list[tuple[int, str, int, str]]:
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["v"]) for row in rows)
