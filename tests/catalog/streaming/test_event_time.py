"""Event time: what commits note, what Java sees of it, and the watermarks of others as a column."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.watermarks import Watermark, find_watermarks_end, read_watermarks
from pyspark_pravega.datasource.insert.plain_task import PlainSpec, PlainWriter
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.foreign import Foreign, ForeignClient
from tests.streams import PATIENCE, ParquetSink, run_available

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
    deadline = time.monotonic() + PATIENCE
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


def ascending(marks: list[Watermark]) -> list[int]:
    """The times of watermarks in minutes after noon; none is repeated or goes back."""
    times = [(mark.time - NOON) / MINUTE for mark in marks]
    assert times == sorted(set(times))
    return [int(time) for time in times]


def lower_bounds(spark: SparkSession, table: str) -> list[tuple[int, int | None]]:
    """Each row's own time, and the lower bound that Pravega knows of it, in microseconds."""
    found = spark.sql(f"SELECT unix_micros(at) AS own, unix_micros(_event_time) AS lower FROM {table}").collect()
    return [(row.own, row.lower) for row in found]


def write_minutes(spark: SparkSession, table: str, *minutes: int, options: str = "") -> None:
    rows = ", ".join(f"(timestamp_millis({NOON} + {minute} * {MINUTE}))" for minute in minutes)
    spark.sql(f"INSERT INTO {table} {options} VALUES {rows}")


def test_the_delay_is_for_rows_out_of_order(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, java: ForeignClient
) -> None:
    table, stream = f"quick.`{quick_scope}`.late", Stream(quick_scope, "late")
    quick_spark.sql(
        f"CREATE TABLE {table} (at TIMESTAMP) TBLPROPERTIES ('event-time'='at', 'event-time.delay'='600 seconds')"
    )
    properties = {row.key: row.value for row in quick_spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert properties["event-time.delay"] == "10min"
    write_minutes(quick_spark, table, 3, 20)
    watermarks(pravega, stream, NOON + 10 * MINUTE)
    write_minutes(quick_spark, table, 12, 15)  # older than rows before them: the time does not go back for these
    write_minutes(quick_spark, table, 30, 11)
    assert ascending(watermarks(pravega, stream, NOON + 20 * MINUTE)) == [10, 20]
    write_minutes(quick_spark, table, 21)
    bounds = lower_bounds(quick_spark, table)
    assert all(lower is None or own >= lower - 1 for own, lower in bounds)
    assert sorted(lower is None for _, lower in bounds) == [False] * 5 + [True] * 2
    assert java.time_window(quick_scope, "late", NOON + 20 * MINUTE) == NOON + 20 * MINUTE
    write_minutes(quick_spark, table, 40, options="WITH ('event-time.delay'='0s')")
    assert ascending(watermarks(pravega, stream, NOON + 40 * MINUTE)) == [10, 20, 40]
    with pytest.raises(AnalysisException, match="'event-time.delay'='10min' needs 'event-time'"):
        quick_spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('event-time')")
    quick_spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('event-time.delay'='1 minute')")
    write_minutes(quick_spark, table, 50)
    assert ascending(watermarks(pravega, stream, NOON + 49 * MINUTE)) == [10, 20, 40, 49]
    quick_spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('event-time.delay')")
    assert "event-time.delay" not in {row.key for row in quick_spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}


def minutes_of_files(spark: SparkSession, files: Path) -> DataFrame:
    """A stream of rows whose times are lines of files, in minutes after noon."""
    return spark.readStream.text(str(files)).selectExpr(f"timestamp_millis({NOON} + CAST(value AS INT) * {MINUTE}) at")


def write_file(files: Path, *minutes: int) -> None:
    files.mkdir(exist_ok=True)
    (files / f"{len(list(files.iterdir()))}").write_text("\n".join(map(str, minutes)))


@pytest.mark.parametrize("mode", ["transactional", pytest.param("at-least-once", marks=pytest.mark.long)])
def test_a_query_whose_batches_are_out_of_order(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path, mode: str
) -> None:
    """It is one writer, whose noted times never go back: neither with the delay nor without a transaction."""
    files = tmp_path / "files"
    table, stream = f"quick.`{quick_scope}`.late", Stream(quick_scope, "late")
    quick_spark.sql(
        f"CREATE TABLE {table} (at TIMESTAMP) TBLPROPERTIES ('event-time'='at', 'event-time.delay'='10min', "
        "'event-time-timeout'='1h')"
    )
    for minutes, noted in (((20, 5), 10), ((12,), 10), ((31, 10), 21), ((25,), 21)):
        write_file(files, *minutes)
        query = minutes_of_files(quick_spark, files).writeStream.option("write-mode", mode)
        query = query.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
        query.toTable(table).awaitTermination()
        watermarks(pravega, stream, NOON + noted * MINUTE)
    assert ascending(watermarks(pravega, stream, NOON + 21 * MINUTE)) == [10, 21]
    assert all(lower is None or own >= lower - 1 for own, lower in lower_bounds(quick_spark, table))


def test_a_query_notes_no_later_time_than_the_watermark_of_spark(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    table, stream, files = f"quick.`{quick_scope}`.marked", Stream(quick_scope, "marked"), tmp_path / "files"
    quick_spark.sql(f"CREATE TABLE {table} (at TIMESTAMP) TBLPROPERTIES ('event-time'='at')")
    for minutes in ((20,), (25, 12), (30,), (4,)):  # the watermark is 0 at first, then 10, 15 and 20
        write_file(files, *minutes)
        rows = minutes_of_files(quick_spark, files).withWatermark("at", "10 minutes")
        query = rows.writeStream.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
        query.toTable(table).awaitTermination()
        if len(minutes) == 2:
            assert ascending(watermarks(pravega, stream, NOON)) == [10]
    assert ascending(watermarks(pravega, stream, NOON + 15 * MINUTE)) == [10, 15]


def test_writes_without_a_transaction_note_times(
    quick_spark: SparkSession, pravega: Pravega, quick_config: ClientConfig, quick_scope: str
) -> None:
    table, stream = f"quick.`{quick_scope}`.plain", Stream(quick_scope, "plain")
    quick_spark.sql(f"CREATE TABLE {table} (at TIMESTAMP) TBLPROPERTIES ('format'='json', 'framing'='none')")
    without = "WITH ('write-mode'='at-least-once', 'event-time'='AT', 'event-time.delay'='1min')"
    write_minutes(quick_spark, table, 3, 2, options=without)
    (mark,) = watermarks(pravega, stream, NOON + 2 * MINUTE)
    assert mark.time == NOON + 2 * MINUTE and sum(mark.positions.values()) > 0
    write_minutes(quick_spark, table, 5, options=without)  # INSERTs are no writer that others wait for
    write_minutes(quick_spark, table, 9, options="WITH ('write-mode'='best-effort', 'event-time'='at')")
    assert ascending(watermarks(pravega, stream, NOON + 9 * MINUTE))[-1] == 9
    # Spark calls the writer's own commit where there is no catalog service.
    loaded = load_table(pravega, stream).table
    spec = PlainSpec(replace(loaded, event_time="at"), quick_config, loaded.schema, None, lossy=False)
    moment = pa.array([(NOON + 12 * MINUTE) * 1000], pa.timestamp("us", tz="UTC"))
    writer = PlainWriter(spec)
    writer.commit([writer.write(iter([pa.record_batch([moment], ["at"])]))])
    assert watermarks(pravega, stream, NOON + 12 * MINUTE)[-1].time == NOON + 12 * MINUTE


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
    uppers = quick_spark.sql(f"SELECT {micros('_event_time_upper')}, value FROM {table}").collect()
    assert {int(row.value[0]): row._event_time_upper for row in uppers} == {
        minute: (NOON + minute * MINUTE) * 1000 + 999 if minute < 6 else None for minute in range(1, 7)
    }
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


def test_times_of_java_are_places_in_a_stream_without_versions(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, java: ForeignClient, tmp_path: Path
) -> None:
    """They are approximate: a read from a time on misses nothing that came then, and one up to it has nothing newer."""
    stream, table = Stream(quick_scope, "old"), f"quick.`{quick_scope}`.old"
    java.create_stream(quick_scope, "old", segments=2)
    quick_spark.sql(f"CREATE TABLE {table} (value STRING) TBLPROPERTIES ('format'='text')")

    def read(**options: str) -> list[str]:
        return sorted(row.value for row in quick_spark.read.options(**options).table(table).collect())

    def at(minute: int) -> str:
        return str(NOON + minute * MINUTE)

    java.write_text(quick_scope, "old", [("k", "0")])
    with pytest.raises(AnalysisException, match="its writers note no times, from which Pravega makes watermarks"):
        read(startTimestamp=at(1))
    with pytest.raises(AnalysisException, match="its writers note no times.*The stream has no tags"):
        quick_spark.sql(f"SELECT * FROM {table} TIMESTAMP AS OF timestamp_millis({at(1)})").collect()
    for minute in (1, 2, 3):
        java.note_time(quick_scope, "old", "writer", [("k", f"{minute}a"), ("l", f"{minute}b")], NOON + minute * MINUTE)
        watermarks(pravega, stream, NOON + minute * MINUTE)
    every = ["0", "1a", "1b", "2a", "2b", "3a", "3b"]
    assert read(startTimestamp=at(1)) == every, "nothing is known of times before the first watermark"
    assert read(startTimestamp=at(2)) == every[3:] == read(startTimestamp=str(NOON + MINUTE + 1))
    assert read(endTimestamp=at(2)) == every[:5] == read(endTimestamp=str(NOON + 3 * MINUTE - 1))
    assert read(startTimestamp=at(2), endTimestamp=at(2)) == ["2a", "2b"]
    as_of = f"SELECT value FROM {table} TIMESTAMP AS OF timestamp_millis({at(1)})"
    assert sorted(row.value for row in quick_spark.sql(as_of).collect()) == every[:3]
    said = "about, by the watermark of 2023-11-14T22:"
    assert f"end: {said}14:20" in explained(quick_spark.sql(as_of))
    begun = quick_spark.read.options(startTimestamp=at(3)).table(table)
    assert f"start: {said}15:20" in explained(begun)
    for options in ({"endTimestamp": str(NOON)}, {"timestampAsOf": "2001-01-01 00:00:00"}):
        with pytest.raises(AnalysisException, match="lies before the first watermark of stream.*2023-11-14T22:14:20"):
            read(**options)
    with pytest.raises(AnalysisException, match="lies in the future"):
        read(startTimestamp="2999-01-01T00:00:00Z")
    rows = quick_spark.readStream.option("startTimestamp", at(3)).table(table)
    sink = ParquetSink(quick_spark, tmp_path)
    sink.take(rows)
    java.write_text(quick_scope, "old", [("k", "4")])
    sink.take(rows)
    assert sorted(row.value for row in sink.rows()) == ["3a", "3b", "4"]


def test_a_place_for_a_time_allows_for_the_delay_of_the_table(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str
) -> None:
    """Writers have reached later times than they note."""
    table, stream = f"quick.`{quick_scope}`.delayed", Stream(quick_scope, "delayed")
    delayed = "'event-time'='at', 'event-time.delay'='10 minutes'"
    quick_spark.sql(f"CREATE TABLE {table} (at TIMESTAMP) TBLPROPERTIES ({delayed})")
    for minute in (20, 40):
        write_minutes(quick_spark, table, minute, options="WITH ('write-mode'='at-least-once')")
        watermarks(pravega, stream, NOON + (minute - 10) * MINUTE)

    def count(minute: int) -> int:
        return quick_spark.read.option("start-timestamp", str(NOON + minute * MINUTE)).table(table).count()

    assert [count(minute) for minute in (15, 19, 25)] == [2, 2, 1]


def explained(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().toString())


def test_the_same_times_again_when_a_batch_is_run_again(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, java: ForeignClient, tmp_path: Path
) -> None:
    stream, table = Stream(quick_scope, "again"), f"quick.`{quick_scope}`.again"
    java.create_stream(quick_scope, "again")
    quick_spark.sql(f"CREATE TABLE {table} (value STRING) TBLPROPERTIES ('format'='text')")
    java.note_time(quick_scope, "again", "writer", [("k", "a")], NOON)
    watermarks(pravega, stream, NOON)
    java.write_text(quick_scope, "again", [("k", "b")])
    bounds = "unix_micros(_event_time) AS lower", "unix_micros(_event_time_upper) AS upper"
    rows = quick_spark.readStream.table(table).selectExpr("value", *bounds)
    batches: dict[int, dict[str, tuple[int | None, int | None]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        batches[number] = {row.value: (row.lower, row.upper) for row in batch.collect()}

    run_available(rows.writeStream.foreachBatch(take), tmp_path)
    first = {"a": (None, NOON * 1000 + 999), "b": (NOON * 1000 + 1, None)}
    assert batches == {0: first}
    java.note_time(quick_scope, "again", "writer", [("k", "c")], NOON + 1)
    watermarks(pravega, stream, NOON + 1)
    batches.clear()
    for file in ("0", ".0.crc"):
        (tmp_path / "commits" / file).unlink()
    run_available(rows.writeStream.foreachBatch(take), tmp_path)
    assert batches == {0: first, 1: {"c": (NOON * 1000 + 1, (NOON + 1) * 1000 + 999)}}


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
    with pytest.raises(
        AnalysisException, match="'event-time.delay'='5min' needs 'event-time', the column with the times"
    ):
        days.option("event-time.delay", "5min").append()
    with pytest.raises(AnalysisException, match="'event-time' names 'no', which is not a column"):
        days.option("event-time", "no").append()


def taking(batches: dict[int, set[str]], fail_at: int | None = None) -> Callable[[DataFrame, int], None]:
    """Note the rows of each micro-batch; one of them fails after it was read."""

    def take(batch: DataFrame, number: int) -> None:
        found = {row.name for row in batch.collect()}
        assert batches.setdefault(number, found) == found, "a micro-batch that is read again has the same rows"
        if number == fail_at:
            raise RuntimeError("down")

    return take


def write_nines(spark: SparkSession, pravega: Pravega, scope: str, **begin: int) -> None:
    """Make tables, each with nine rows in each of the five minutes after one, which watermarks tell apart."""
    for name in begin:
        spark.sql(
            f"CREATE TABLE quick.`{scope}`.{name} (name STRING, at TIMESTAMP) TBLPROPERTIES "
            "('event-time'='at', 'routing-key'='name', 'scaling.min-segments'='2')"
        )
    for number in range(1, 6):
        minutes = {name: first + number for name, first in begin.items()}
        for name, minute in minutes.items():
            write_nine(spark, pravega, scope, name, minute)
        for name, minute in minutes.items():
            watermarks(pravega, Stream(scope, name), NOON + minute * MINUTE)


def write_nine(spark: SparkSession, pravega: Pravega, scope: str, name: str, minute: int) -> None:
    """Write rows, and note their time again: a controller that looks for watermarks while it notes one forgets it."""
    rows = f"SELECT concat('{name}{minute}-', id), timestamp_millis({NOON + minute * MINUTE}) FROM range(9)"
    spark.sql(f"INSERT INTO quick.`{scope}`.{name} {rows}")
    for _ in range(2):  # as writes without a transaction do
        pravega.controller.note_time("nines", measure_tail(pravega, Stream(scope, name)), NOON + minute * MINUTE)


def rows_of(**minutes: Iterable[int]) -> set[str]:
    return {f"{name}{minute}-{id}" for name, each in minutes.items() for minute in each for id in range(9)}


def test_a_drift_in_event_time_bounds_micro_batches(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    """Rows far apart in event time, and a query that fails in the middle."""
    write_nines(quick_spark, pravega, quick_scope, a=0)
    batches: dict[int, set[str]] = {}
    one = quick_spark.sql(f"SELECT name FROM STREAM quick.`{quick_scope}`.a WITH ('max-event-time-drift'='1 minute')")
    with pytest.raises(StreamingQueryException, match="down"):
        run_available(one.writeStream.foreachBatch(taking(batches, fail_at=1)), tmp_path / "one")
    assert len(run_available(one.writeStream.foreachBatch(taking(batches)), tmp_path / "one")) == 2
    assert batches == {0: rows_of(a=[1]), 1: rows_of(a=[2, 3]), 2: rows_of(a=[4, 5])}
    batches.clear()
    with pytest.raises(StreamingQueryException, match="down"):
        run_available(one.writeStream.foreachBatch(taking(batches, fail_at=0)), tmp_path / "free")
    free = quick_spark.sql(f"SELECT name FROM STREAM quick.`{quick_scope}`.a")  # the first batch has its former end
    assert len(run_available(free.writeStream.foreachBatch(taking(batches)), tmp_path / "free")) == 2
    assert batches == {0: rows_of(a=[1]), 1: rows_of(a=[2, 3, 4, 5])}


@pytest.mark.long
def test_a_drift_in_event_time_is_one_of_all_streams(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    write_nines(quick_spark, pravega, quick_scope, a=0, b=3)
    read = quick_spark.readStream.format("pravega").option("catalog", "quick").option("scope", quick_scope)
    both = read.option("streams", "a,b").option("max-event-time-drift", "2min").load().select("name")
    batches: dict[int, set[str]] = {}
    with pytest.raises(StreamingQueryException, match="down"):
        run_available(both.writeStream.foreachBatch(taking(batches, fail_at=1)), tmp_path / "both")
    run_available(both.writeStream.foreachBatch(taking(batches)), tmp_path / "both")
    # `b` waits for the first events of `a`, whose watermark is the first of them all; then its own are of any time.
    assert batches == {
        0: rows_of(a=[1], b=[4]), 1: rows_of(a=[2, 3, 4]), 2: rows_of(a=[5], b=[5, 6, 7]), 3: rows_of(b=[8])
    }  # fmt: skip


def several(spark: SparkSession, scope: str, streams: str) -> DataFrame:
    """Streams as one, a few rows at a time, with the bounds of their times."""
    read = spark.readStream.format("pravega").option("catalog", "quick").option("scope", scope)
    return read.options(streams=streams, maxRowsPerTrigger=20).load()


def reached(checkpoint: Path) -> int | None:
    """The time in the newest offset of a query."""
    offsets = [file for file in (checkpoint / "offsets").iterdir() if file.name.isdecimal()]
    newest = max(offsets, key=lambda file: int(file.name))
    time: int | None = json.loads(newest.read_text().splitlines()[-1]).get("time")
    return time


def test_several_streams_have_times_that_never_go_back(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    """The one that is behind holds the others back; the one without watermarks does not. A batch is run again."""
    write_nines(quick_spark, pravega, quick_scope, a=0, b=3)
    quick_spark.sql(f"CREATE TABLE quick.`{quick_scope}`.c (name STRING, at TIMESTAMP)")
    quick_spark.sql(f"INSERT INTO quick.`{quick_scope}`.c VALUES ('c', NULL)")
    bounds = "unix_micros(at) AS own", micros("_event_time"), micros("_event_time_upper")
    rows = several(quick_spark, quick_scope, "a,b,c").selectExpr("name", *bounds)
    batches: dict[int, set[tuple[str, int | None, int | None, int | None]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        seen = {(row.name, row.own, row._event_time, row._event_time_upper) for row in batch.collect()}
        assert batches.setdefault(number, seen) == seen, "a micro-batch that is read again has the same times"
        if number == 2 and len(batches) == 3 and not again:
            raise RuntimeError("down")

    again: list[int] = []
    with pytest.raises(StreamingQueryException, match="down"):
        run_available(rows.writeStream.foreachBatch(take), tmp_path)
    again.append(2)
    write_nine(quick_spark, pravega, quick_scope, "a", 6)
    watermarks(pravega, Stream(quick_scope, "a"), NOON + 6 * MINUTE)
    run_available(rows.writeStream.foreachBatch(take), tmp_path)
    seen = set[tuple[str, int | None, int | None, int | None]]().union(*batches.values())
    assert {name for name, *_ in seen} == rows_of(a=range(1, 7), b=range(4, 9)) | {"c"} and len(seen) == 100
    assert all(own is None or lower is None or lower <= own + 1 for _, own, lower, _ in seen)
    assert [found[1:] for found in seen if found[0] == "c"] == [(None, None, None)]
    lows = [sorted(lower for _, _, lower, _ in batches[number] if lower) for number in sorted(batches)]
    limits = [(low[0], low[-1]) for low in lows if low]
    assert len(limits) > 1 and all(last <= first for (_, last), (first, _) in pairwise(limits))
    assert reached(tmp_path) == NOON + 6 * MINUTE, "that of `a`, which is behind"
    batch = quick_spark.read.format("pravega").option("catalog", "quick").option("scope", quick_scope)
    lower = batch.option("streams", "a,b").load().selectExpr("name", micros("_event_time"))
    assert {row.name[:2]: row._event_time for row in lower.collect()} == {
        f"{name}{minute}": None if minute == first else (NOON + (minute - 1) * MINUTE) * 1000 + 1
        for name, first, last in (("a", 1, 6), ("b", 4, 8))
        for minute in range(first, last + 1)
    }


@pytest.mark.long
def test_windows_count_every_event_of_several_streams(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str, tmp_path: Path
) -> None:
    """Also those of a stream that enters later, whose watermarks are older."""
    write_nines(quick_spark, pravega, quick_scope, a=5, b=9)
    counts: dict[datetime, int] = {}

    def take(batch: DataFrame, number: int) -> None:
        counts.update({row.start: row["count"] for row in batch.select("window.start", "count").collect()})

    def run(streams: str) -> int:
        rows = several(quick_spark, quick_scope, streams).select("_event_time")
        windows = rows.withWatermark("_event_time", "0 seconds").groupBy(window("_event_time", "1 minute")).count()
        batches = run_available(windows.writeStream.outputMode("update").foreachBatch(take), tmp_path)
        assert {one["numRowsDroppedByWatermark"] for batch in batches for one in batch["stateOperators"]} == {0}
        return sum(batch["numInputRows"] for batch in batches)

    assert run("a,b") == 90
    before = sum(counts.values())
    assert 0 < before < 90 and reached(tmp_path) == NOON + 10 * MINUTE
    write_nines(quick_spark, pravega, quick_scope, c=0)
    write_nine(quick_spark, pravega, quick_scope, "a", 11)
    watermarks(pravega, Stream(quick_scope, "a"), NOON + 11 * MINUTE)
    assert run("a,b,c") == 54
    assert sum(counts.values()) == before + 54
    assert reached(tmp_path) == NOON + 10 * MINUTE


def test_where_a_drift_in_event_time_makes_no_sense(
    quick_spark: SparkSession, quick_scope: str, tmp_path: Path
) -> None:
    table, drift = f"quick.`{quick_scope}`.timeless", {"maxEventTimeDrift": "5 minutes"}
    quick_spark.sql(f"CREATE TABLE {table} (id BIGINT, at TIMESTAMP)")
    quick_spark.sql(f"CREATE TABLE quick.`{quick_scope}`.other (id BIGINT, at TIMESTAMP)")
    stream = quick_spark.readStream.options(**drift)
    said = rf"PRAVEGA_INVALID_OPTION.*{quick_scope}.*'maxEventTimeDrift'='5 minutes' needs the times of events, but"
    with pytest.raises(AnalysisException, match=f"{said} {quick_scope}/timeless has none.*'event-time'"):
        stream.table(table)
    read = quick_spark.readStream.format("pravega").option("catalog", "quick").option("scope", quick_scope)
    several = read.options(streams="timeless,other", **drift).load()
    with pytest.raises(StreamingQueryException, match=f"{said} {quick_scope}/timeless, {quick_scope}/other has none"):
        run_available(several.writeStream.format("noop"), tmp_path / "several")
    batch = quick_spark.read.options(**drift)
    for reading in (batch.table(table), batch.changes(table)):
        with pytest.raises(
            AnalysisException, match="'maxEventTimeDrift'='5 minutes' is given, but .* no micro-batches"
        ):
            reading.collect()
    with pytest.raises(AnalysisException, match="'max-event-time-drift' cannot be a table property"):
        quick_spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('max-event-time-drift'='5 minutes')")
    quick_spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('event-time'='at')")
    changes = quick_spark.readStream.options(**drift).changes(table)
    with pytest.raises(StreamingQueryException, match="'maxEventTimeDrift'='5 minutes' is given, but CHANGES has no"):
        run_available(changes.writeStream.format("noop"), tmp_path / "changes")
    endless = stream.table(table).where("id >= 0").writeStream.foreach(lambda row: None).outputMode("update")
    endless = endless.option("checkpointLocation", str(tmp_path / "now")).trigger(realTime="5 minutes")  # type: ignore[call-overload]
    query = endless.start()
    try:
        with pytest.raises(
            StreamingQueryException, match="PRAVEGA_INVALID_OPTION.*real-time mode has no micro-batches"
        ):
            query.awaitTermination(120)
    finally:
        query.stop()


def test_each_stream_that_a_column_names_gets_its_own_times(
    quick_spark: SparkSession, pravega: Pravega, quick_scope: str
) -> None:
    named = {"early": 1, "late": 7}
    for name in named:
        columns = "(id INT, at TIMESTAMP, target STRING)"
        properties = "'event-time'='at', 'event-time-timeout'='2min'"
        quick_spark.sql(f"CREATE TABLE quick.`{quick_scope}`.{name} {columns} TBLPROPERTIES ({properties})")
    # Pravega makes a watermark of a later time than the first that a writer notes.
    for later in (0, 60):
        rows = " UNION ALL ".join(
            f"SELECT {minute} AS id, timestamp_millis({NOON + (minute + later) * MINUTE}) AS at, '{name}' AS target"
            for name, minute in named.items()
        )
        quick_spark.sql(rows).writeTo(f"quick.`{quick_scope}`.early").option("stream-column", "target").append()
    for name, minute in named.items():
        found = watermarks(pravega, Stream(quick_scope, name), NOON + minute * MINUTE)
        assert found[-1].time in (NOON + minute * MINUTE, NOON + (minute + 60) * MINUTE)
