"""Event time: what commits note, what Java sees of it, and the watermarks of others as a column."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.foreign import Foreign, ForeignClient
from tests.streams import run_available

NOON = 1_700_000_000_000
MINUTE = 60_000


@pytest.fixture(scope="module")
def pravega(quick_config: ClientConfig) -> Iterator[Pravega]:
    with connect(quick_config) as connected:
        yield connected


@pytest.fixture
def java(foreign: Foreign, quick_cluster: ClusterInfo) -> ForeignClient:
    return foreign.connect(quick_cluster)


def watermarks(pravega: Pravega, stream: Stream, at_least: int) -> list[Watermark]:
    """All watermarks, once there is one of this time."""
    deadline = time.monotonic() + 60
    while True:
        found = [mark for _, mark in read_watermarks(pravega, stream, 0, find_watermarks_end(pravega, stream))]
        if found and found[-1].time >= at_least:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def just_after(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000).replace(microsecond=millis % 1000 * 1000 + 1)


def micros(column: str) -> str:
    return f"unix_micros({column}) AS {column}"


def test_java_sees_the_times_of_inserts_and_streams(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, java: ForeignClient, tmp_path: Path
) -> None:
    table, stream = f"quick.`{quick_scope}`.timed", Stream(quick_scope, "timed")
    quick_spark.sql(
        f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP) TBLPROPERTIES ('event-time'='AT', 'scaling.min-segments'='2', "
        "'event-time-timeout'='2min')"
    )
    properties = {row.key: row.value for row in quick_spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert (properties["event-time"], properties["event-time-timeout"]) == ("at", "2min")
    quick_spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('event-time-timeout'='1min')")
    assert pravega.controller.stream_configuration(stream).timestamp_aggregation_timeout_ms == MINUTE
    rows = f"SELECT id, timestamp_millis({NOON} + id) AS at FROM range(100)"
    quick_spark.sql(f"INSERT INTO {table} {rows}")
    assert watermarks(pravega, stream, 0)[-1].time == NOON + 99
    quick_spark.sql(f"INSERT INTO {table} VALUES (100, timestamp_millis({NOON} + {MINUTE})), (101, NULL)")
    mark = watermarks(pravega, stream, NOON + 100)[-1]
    assert mark.time == NOON + MINUTE
    found = quick_spark.sql(f"SELECT id, {micros('_event_time')} FROM {table} WHERE id >= 99").collect()
    assert {row.id: row._event_time for row in found} == {99: None} | dict.fromkeys((100, 101), (NOON + 99) * 1000 + 1)

    files = tmp_path / "files"
    files.mkdir()
    (files / "one").write_text("7\n8\n")
    source = quick_spark.readStream.text(str(files)).selectExpr(
        "CAST(value AS BIGINT) AS id", f"timestamp_millis({NOON} + CAST(value AS BIGINT) * {MINUTE}) AS at"
    )
    query = source.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query.toTable(table).awaitTermination()
    assert watermarks(pravega, stream, NOON + 8 * MINUTE)[-1].time == NOON + 8 * MINUTE
    assert java.time_window(quick_scope, "timed", NOON + 8 * MINUTE) == NOON + 8 * MINUTE


def test_times_of_java_drive_a_watermark(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, java: ForeignClient, tmp_path: Path
) -> None:
    """Windows of the writers' time are complete, each once, whatever the batches and however full the segments are."""
    stream = Stream(quick_scope, "noted")
    java.create_stream(quick_scope, "noted", segments=3)
    table = f"quick.`{quick_scope}`.noted"
    quick_spark.sql(f"CREATE TABLE {table} (value STRING) TBLPROPERTIES ('format'='text')")
    for minute in range(1, 6):
        # One key: two of the three segments are idle all the time.
        events = [("key", f"{minute}-{number}") for number in range(8)]
        java.note_time(quick_scope, "noted", "writer", events, NOON + minute * MINUTE)
        watermarks(pravega, stream, NOON + minute * MINUTE)
    java.note_time(quick_scope, "noted", "writer", [("other", "6-0")], NOON + 6 * MINUTE)
    found = quick_spark.sql(f"SELECT {micros('_event_time')}, value FROM {table}").collect()
    times = {minute: (NOON + (minute - 1) * MINUTE) * 1000 + 1 if minute > 1 else None for minute in range(1, 7)}
    assert {(int(row.value[0]), row._event_time) for row in found} == set(times.items())
    rows = quick_spark.readStream.option("maxRowsPerTrigger", 7).table(table).select("value", "_event_time")
    late = rows.withWatermark("_event_time", "0 seconds").groupBy(window("_event_time", "1 minute")).count()
    batches = run_available(late.writeStream.format("noop"), tmp_path)
    assert sum(batch["numInputRows"] for batch in batches) == 41 and len(batches) >= 6
    dropped = [operator["numRowsDroppedByWatermark"] for batch in batches for operator in batch["stateOperators"]]
    assert set(dropped) == {0}
    reached = [batch["eventTime"].get("watermark") for batch in batches]
    assert reached == sorted(reached) and len(set(reached)) > 3


def test_the_same_times_again_when_a_batch_is_run_again(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, java: ForeignClient, tmp_path: Path
) -> None:
    stream, table = Stream(quick_scope, "again"), f"quick.`{quick_scope}`.again"
    java.create_stream(quick_scope, "again")
    quick_spark.sql(f"CREATE TABLE {table} (value STRING) TBLPROPERTIES ('format'='text')")
    java.note_time(quick_scope, "again", "writer", [("k", "a")], NOON)
    watermarks(pravega, stream, NOON)
    java.write_text(quick_scope, "again", [("k", "b")])
    rows = quick_spark.readStream.table(table).selectExpr("value", micros("_event_time"))
    batches: dict[int, dict[str, int | None]] = {}

    def take(batch: DataFrame, number: int) -> None:
        batches[number] = {row.value: row._event_time for row in batch.collect()}

    run_available(rows.writeStream.foreachBatch(take), tmp_path)
    first = {"a": None, "b": NOON * 1000 + 1}
    assert batches == {0: first}
    java.note_time(quick_scope, "again", "writer", [("k", "c")], NOON + 1)
    watermarks(pravega, stream, NOON + 1)
    batches.clear()
    for file in ("0", ".0.crc"):
        (tmp_path / "commits" / file).unlink()
    run_available(rows.writeStream.foreachBatch(take), tmp_path)
    assert batches == {0: first, 1: {"c": NOON * 1000 + 1}}


def test_only_columns_with_times_are_event_times(quick_spark: SparkSession, quick_scope: str) -> None:
    table = f"quick.`{quick_scope}`.wrong"
    for name, reason in (
        ("idd", "'event-time' names 'idd', which is not a column.* Did you mean 'id'"),
        ("id", "of type int"),
    ):
        with pytest.raises(AnalysisException, match=reason):
            quick_spark.sql(f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('event-time'='{name}')")
    quick_spark.sql(f"CREATE TABLE {table} (id BIGINT, day DATE)")
    days = quick_spark.range(1).selectExpr("id", "current_date() AS day").writeTo(table)
    with pytest.raises(AnalysisException, match="'event-time' names 'no', which is not a column"):
        days.option("event-time", "no").append()
    with pytest.raises(AnalysisException, match="'event-time' is noted with a commit, which a write with 'write-mode'"):
        days.option("event-time", "day").option("write-mode", "at-least-once").append()
