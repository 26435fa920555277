"""Streaming queries as users write them: over several runs they lead to what one batch over all rows gives."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, expr, max_by, session_window
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.streams import PATIENCE

END = 1_000_000
"""Second at which all windows are over."""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session whose micro-batches have few state stores, each of which costs time."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.fixture
def namespace(session: SparkSession, scope: str) -> str:
    """A namespace with two tables of events, of two segments each."""
    name = f"pravega.{scope.replace('-', '_')}"
    properties = "TBLPROPERTIES ('scaling.min-segments'='2', 'routing-key'='place')"
    for table in ("readings", "alarms"):
        session.sql(f"CREATE TABLE {name}.{table} (id INT, place STRING, at TIMESTAMP) {properties}")
    return name


def insert(session: SparkSession, table: str, ids: str, second: str) -> None:
    session.sql(
        f"INSERT INTO {table} SELECT CAST(id AS INT), 'p' || id % 3, timestamp_seconds({second}) FROM range({ids})"
    )


def late_by_a_minute(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("at", "1 minute")


def first_of_each_id(readings: DataFrame, alarms: DataFrame) -> DataFrame:
    return late_by_a_minute(readings).dropDuplicatesWithinWatermark(["id"])


def sessions(readings: DataFrame, alarms: DataFrame) -> DataFrame:
    spans = late_by_a_minute(readings).groupBy("place", session_window("at", "20 seconds"))
    counted = spans.agg(count("*").alias("rows"))
    return counted.select("place", "rows", col("session_window.start").alias("start"))


def readings_with_alarms(readings: DataFrame, alarms: DataFrame) -> DataFrame:
    named = late_by_a_minute(alarms).selectExpr("id AS alarm", "place AS there", "at AS raised")
    near = expr("place = there AND raised BETWEEN at - INTERVAL 10 SECONDS AND at + INTERVAL 10 SECONDS")
    return late_by_a_minute(readings).join(named, near, "leftOuter").select("id", "alarm")


def test_stateful_queries_equal_batches(session: SparkSession, namespace: str, tmp_path: Path) -> None:
    queries = {"first": first_of_each_id, "sessions": sessions, "joined": readings_with_alarms}
    readings, alarms, none = f"{namespace}.readings", f"{namespace}.alarms", "1970-01-03"
    session.sql(f"CREATE TABLE {namespace}.first (id INT, place STRING, at TIMESTAMP)")
    session.sql(f"CREATE TABLE {namespace}.sessions (place STRING, rows BIGINT, start TIMESTAMP)")
    session.sql(f"CREATE TABLE {namespace}.joined (id INT, alarm INT)")
    for run in range(2):
        ids = f"{run * 60}, {run * 60 + 60}"
        for _ in range(2):  # each id twice
            insert(session, readings, ids, "6000 + 7 * id + id % 5 * 9")
        insert(session, alarms, f"{ids}, 4", "6004 + 7 * id")
        for table in (readings, alarms) if run else ():  # time goes on in all segments of both: what is open is closed
            insert(session, table, "999000, 999003", f"{END}")
        started = []
        for name, query in queries.items():
            rows = query(session.readStream.table(readings), session.readStream.table(alarms))
            writer = rows.writeStream.queryName(name).option("checkpointLocation", str(tmp_path / name))
            started.append(writer.trigger(availableNow=True).toTable(f"{namespace}.{name}"))
        for each in started:
            assert each.awaitTermination(PATIENCE)
    over = [session.table(table).where(f"at < '{none}'") for table in (readings, alarms)]
    for name, query in queries.items():
        wanted = over[0].dropDuplicates(["id"]) if name == "first" else query(*over)
        found = session.table(f"{namespace}.{name}")
        found = found.where(f"start < '{none}'") if name == "sessions" else found.where("id < 999000")
        assert sorted(found.collect(), key=str) == sorted(wanted.collect(), key=str), name
    assert session.table(f"{namespace}.joined").where("alarm IS NULL").count() > 0


def test_the_newest_row_of_each_key_is_kept_without_merge(
    session: SparkSession, namespace: str, tmp_path: Path
) -> None:
    """Where others have MERGE, a table of changes with a primary key takes rows that replace those of their keys."""
    table, readings = f"{namespace}.newest", f"{namespace}.readings"
    properties = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='place')"
    session.sql(f"CREATE TABLE {table} (place STRING, id INT) {properties}")

    def merge(batch: DataFrame, number: int) -> None:
        newest = batch.groupBy("place").agg(max_by("id", "at").alias("id"))
        for _ in range(2):  # as Spark may repeat a micro-batch
            newest.writeTo(table).option("txnAppId", "newest").option("txnVersion", number).append()

    for run in range(2):
        insert(session, readings, f"{run * 30}, {run * 30 + 30}, 1, 1", "6000 + id")  # one task: in order
        rows = session.readStream.option("maxRowsPerTrigger", 20).table(readings)
        writer = rows.writeStream.foreachBatch(merge).option("checkpointLocation", str(tmp_path))
        assert writer.trigger(availableNow=True).start().awaitTermination(PATIENCE)
        wanted = session.table(readings).groupBy("place").agg(max_by("id", "at").alias("id"))
        assert sorted(session.table(table).collect()) == sorted(wanted.collect())


class Listener(StreamingQueryListener):
    """Notes what it is told of each query."""

    def __init__(self) -> None:
        self.behind: dict[str, list[int]] = {}
        self.ended: list[str | None] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self.behind[event.name] = []

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        if event.progress.numInputRows:
            [source] = event.progress.sources
            self.behind[event.progress.name].append(int(source.metrics["bytesBehind"]))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.ended.append(event.exception)


def test_one_table_feeds_several_queries_that_a_listener_watches(
    session: SparkSession, namespace: str, tmp_path: Path
) -> None:
    readings, copy = f"{namespace}.readings", f"{namespace}.copy"
    insert(session, readings, "0, 90", "6000 + id")
    listener = Listener()
    session.streams.addListener(listener)
    started = []

    def start(name: str) -> DataStreamWriter:
        rows = session.readStream.option("maxRowsPerTrigger", 40).table(readings)
        return rows.writeStream.queryName(name).option("checkpointLocation", str(tmp_path / name))

    try:
        started.append(start("table").toTable(copy))
        started.append(start("files").format("parquet").option("path", str(tmp_path / "rows")).start())
        for query in started:
            query.processAllAvailable()
        found = [session.table(copy), session.read.parquet(str(tmp_path / "rows"))]
        assert [sorted(row.id for row in rows.collect()) for rows in found] == [list(range(90))] * 2
        assert session.streams.awaitAnyTermination(1) is False
        assert sorted(query.name for query in session.streams.active) == ["files", "table"]
        session.sql(f"DROP TABLE {readings}")
        with pytest.raises(StreamingQueryException, match="PRAVEGA_STREAM_NOT_FOUND.* 'readings'"):
            session.streams.awaitAnyTermination(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while len(listener.ended) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        for query in started:
            query.stop()
        session.streams.removeListener(listener)
    for name in ("table", "files"):
        first, second, third = listener.behind[name]
        assert first > second > third == 0, name
    assert all("PRAVEGA_STREAM_NOT_FOUND" in str(exception) for exception in listener.ended)
