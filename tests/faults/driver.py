"""A driver to be harmed: streaming queries, each begun again from its checkpoint whenever it fails.

    driver.py <directory> <name> <master> <scope> <query>...

A query has the name of the table that it fills, from the table `source` of the scope if nothing else is said. The
driver prepares a session, makes the file `<name>.ready`, waits for `<name>.go`, and streams until there is
`<name>.stop`. Then it brings one query after another up to date and ends. Each failure of a query is a line of
`<name>.failures`; one ends the driver where there is `<name>.once`.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import expr, lit, repeat, udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType

from pyspark_pravega import configure

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

COUNTED = """
    SELECT * FROM (
      SELECT k, count(*) AS n FROM {batch} GROUP BY k
      UNION ALL SELECT -1 - {number}, count(*) + (SELECT coalesce(sum(n), 0) FROM {counts} WHERE k < 0) FROM {batch}
      UNION ALL SELECT k, NULL FROM {counts} WHERE k < 0
    ) WHERE {number} > (SELECT coalesce(max(-1 - k), -1) FROM {counts} WHERE k < 0)
"""
"""What a micro-batch adds, nothing if it was counted: its events by key, and in a row of its own the sum of all keys.

That row has the key -1 for the micro-batch 0, -2 for the next; the row of the one before is to be deleted.
"""


def session(master: str) -> SparkSession:
    """Start Spark; the environment names the cluster."""
    confs = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.sql.codegen.wholeStage": "false",
        # Executors are killed again and again, which the small cluster inside of the driver takes for a broken program.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "4",
    }
    builder = SparkSession.builder.master(master)
    for key, value in confs.items():
        builder = builder.config(key, value)
    return configure(
        builder,
        controller_uri=os.environ["FAULT_CONTROLLER"],
        schema_registry_uri=os.environ["FAULT_REGISTRY"],
        retry_timeout=os.environ.get("FAULT_RETRY_TIMEOUT"),
    ).getOrCreate()


@dataclass(frozen=True)
class Place:
    """Where a query reads and writes."""

    spark: SparkSession
    scope: str
    query: str
    directory: Path

    def table(self, name: str) -> str:
        return f"pravega.`{self.scope}`.`{name}`"

    @property
    def checkpoint(self) -> str:
        return str(self.directory / f"checkpoint-{self.query}")

    def source(self, **options: str) -> DataFrame:
        """Read the table that the test fills."""
        return self.spark.readStream.options(**options).table(self.table("source"))

    def begin(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start a query that writes into the table of its name."""
        lease = os.environ.get("FAULT_LEASE")
        writer = writer if lease is None else writer.option("transaction.lease", lease)
        return writer.option("checkpointLocation", self.checkpoint).toTable(self.table(self.query))


@udf(returnType=LongType(), useArrow=False)
def epoch(value: int) -> int:
    """Mark a row with the micro-batch that writes it."""
    return int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))


def to_table(place: Place) -> StreamingQuery:
    """From table to table, with the micro-batch in each row."""
    # At times the query is behind what it may read at once.
    rows = place.source(maxRowsPerTrigger="300").select("k", "seq")
    return place.begin(rows.withColumn("epoch", epoch("seq")).writeStream)


def at_least_once(place: Place) -> StreamingQuery:
    """Write rows without transactions."""
    return place.begin(place.source().writeStream.option("write-mode", "at-least-once"))


def by_options(place: Place) -> StreamingQuery:
    """Read and write streams that options name."""
    reader = place.spark.readStream.format("pravega").option("scope", place.scope).option("stream", "source")
    rows = reader.load().select("k", "seq")
    writer = rows.writeStream.format("pravega").option("scope", place.scope).option("stream", place.query)
    return writer.option("checkpointLocation", place.checkpoint).start()


def in_batches(place: Place) -> StreamingQuery:
    """Write each micro-batch by a statement of its own, which names it."""
    target = place.table(place.query)

    def write(batch: DataFrame, number: int) -> None:
        batch.writeTo(target).option("txn-app-id", "batches").option("txn-version", number).append()

    writer = place.source().writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", place.checkpoint).start()


def by_merge(place: Place) -> StreamingQuery:
    """Count the events of each key by a MERGE that updates, inserts and deletes."""
    table = place.table(place.query)

    def write(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        added = session.sql(COUNTED, batch=batch, number=number, counts=session.table(table)).alias("added")
        merge = added.mergeInto(table, expr("added.k = merged.k"))
        merge = merge.whenMatched(expr("added.n IS NULL")).delete()
        merge.whenMatched().update({"n": expr("merged.n + added.n")}).whenNotMatched().insertAll().merge()

    writer = place.source(maxRowsPerTrigger="3000").writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", place.checkpoint).start()


def of_changes(place: Place) -> StreamingQuery:
    """Copy the changes of the table `target`: those that the query of that name commits."""
    return place.begin(place.spark.readStream.changes(place.table("target")).select("k", "seq").writeStream)  # type: ignore[attr-defined]


class Lines:
    """Writes each row at once, as a line of a file for each task."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)

    def open(self, partition: int, epoch: int) -> bool:
        self.file = Path(self.directory, uuid.uuid4().hex).open("w", buffering=1)  # noqa: SIM115 closed by `close`
        return True

    def process(self, row: Row) -> None:
        self.file.write(f"{row.k} {row.seq}\n")

    def close(self, error: Exception | None) -> None:
        self.file.close()


def in_large_tasks(place: Place) -> StreamingQuery:
    """Write rows that are so long that tasks outgrow their memory, from two tasks."""
    rows = place.source(maxRowsPerTrigger="300").coalesce(2).withColumn("padding", repeat(lit("x"), 40_000))
    return place.begin(rows.writeStream.option("spool.memory", "1m"))


def live(place: Place, **trigger: Any) -> StreamingQuery:
    """Write rows into files in real-time mode, or with another trigger."""
    lines = place.directory / place.query
    lines.mkdir(exist_ok=True)
    writer = place.source().writeStream.foreach(Lines(lines))  # type: ignore[call-overload]
    writer = writer.outputMode("update").option("checkpointLocation", place.checkpoint)
    return writer.trigger(**(trigger or {"realTime": "5 seconds"})).start()  # type: ignore[no-any-return]


QUERIES: dict[str, Callable[[Place], StreamingQuery]] = {
    "target": to_table,
    "plain": at_least_once,
    "path": by_options,
    "batches": in_batches,
    "changed": of_changes,
    "merged": by_merge,
    "large": in_large_tasks,
    "live": live,
}


def finish(place: Place, query: StreamingQuery) -> None:
    """Bring a query up to date and end it."""
    if place.query != "live":
        query.processAllAvailable()
        query.stop()
        return
    # Batches of real-time mode end by the clock: micro-batches take the rest.
    query.stop()
    live(place, availableNow=True).awaitTermination()


def stream(spark: SparkSession, directory: Path, name: str, scope: str, queries: list[str]) -> None:
    """Keep queries running until they are to stop, and each is up to date without a failure since."""
    stop, once, failures = (directory / f"{name}.{kind}" for kind in ("stop", "once", "failures"))
    left = [Place(spark, scope, query, directory) for query in queries]
    active: dict[str, StreamingQuery] = {}
    while left:
        for place in list(left):
            try:
                if place.query not in active:
                    active[place.query] = QUERIES[place.query](place)
                query = active[place.query]
                if not query.isActive:
                    del active[place.query]
                    query.awaitTermination()
                elif stop.exists() and place is left[0]:
                    finish(place, query)
                    left.remove(place)
            except PySparkException as error:
                with failures.open("a") as lines:
                    lines.write(f"{place.query}: {' '.join(str(error).split())}\n")
                if (failed := active.pop(place.query, None)) is not None:
                    failed.stop()
                if once.exists():
                    return
                time.sleep(0.1)
        time.sleep(0.05)


def main(directory: str, name: str, master: str, scope: str, *queries: str) -> None:
    """Prepare, wait, and stream."""
    place = Path(directory)
    spark = session(master)
    spark.table(f"pravega.`{scope}`.source").limit(1).collect()
    (place / f"{name}.ready").touch()
    while not (place / f"{name}.go").exists():
        time.sleep(0.02)
    stream(spark, place, name, scope, list(queries))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
