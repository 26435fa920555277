"""Measure tables of Pravega beside topics of Kafka with Spark's own source and sink, in turns in one session.

    make bench-kafka BENCH_ARGS="--events 200000 --rounds 5"

It needs a Spark for which the Kafka package is published; `tests/kafka` says which versions these are, and runs the
broker. Both hold the same events of 1.3 KB in four segments or partitions. Kafka's settings are those that make it fast
here: large fetches, large batches, no compression. Its sink is at-least-once, so tables are written both ways: in one
transaction, and by `write-mode`=`at-least-once`. Core seconds are those of Spark's JVM, the catalog service and Python
workers, without the servers'. Each statement runs twice before it counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from bench.latency_and_memory import find_driver
from bench.raw_throughput import make_table
from bench.servers import open_cluster, open_session
from bench.streaming import time_with_cores
from tests.kafka.broker import broker
from tests.kafka.packages import PACKAGES, PUBLISHED, provide_jars

SEGMENTS = 4
SIZE = 1300
WARM = 2
EVENT = f"CAST(rpad(concat('event-', id), {SIZE}, 'abcdefghijklmnopqrstuvwxyz') AS BINARY)"
BROKER_JVM = ("-Xmx2g",)
READ = {"kafka.max.partition.fetch.bytes": 8 << 20, "kafka.fetch.max.bytes": 64 << 20, "kafka.max.poll.records": 20_000}
WRITE = {"kafka.batch.size": 1 << 20, "kafka.linger.ms": 5, "kafka.buffer.memory": 256 << 20}
SMALL_WRITE = {"kafka.linger.ms": 0}

AT_LEAST_ONCE = {"write-mode": "at-least-once"}
Work = Callable[[], None]


class Comparison:
    """Statements over a table and over a topic that hold the same events."""

    def __init__(self, spark: SparkSession, scope: str, broker: str, events: int) -> None:
        """Make and fill both."""
        self._spark, self._broker = spark, {"kafka.bootstrap.servers": broker}
        self._rows = spark.range(0, events, 1, SEGMENTS).selectExpr(f"{EVENT} AS event").cache()
        self._row = spark.range(0, 1, 1, 1).selectExpr(f"{EVENT} AS event")
        self._count = self._rows.count()
        self._read = make_table(spark, scope, "read", SEGMENTS)
        self._write = {mode: make_table(spark, scope, mode, SEGMENTS) for mode in ("transaction", "at-least-once")}
        self._insert(self._rows, self._read, {})
        self._send(self._rows, "read", WRITE)

    def statements(self) -> dict[str, dict[str, Work]]:
        """Return for each row of the result what each side does."""
        return {
            "sum(length(event)), 1.3 KB": {"pravega": self._scan_table, "kafka": self._scan_topic},
            "count(*)": {"pravega": self._count_table, "kafka": self._count_topic},
            "write of 1.3 KB": {
                "pravega": lambda: self._insert(self._rows, self._write["transaction"], {}),
                "pravega, at-least-once": lambda: self._insert(self._rows, self._write["at-least-once"], AT_LEAST_ONCE),
                "kafka": lambda: self._send(self._rows, "write", WRITE),
            },
            "write of 1 row": {
                "pravega": lambda: self._insert(self._row, self._write["transaction"], {}),
                "pravega, at-least-once": lambda: self._insert(self._row, self._write["at-least-once"], AT_LEAST_ONCE),
                "kafka": lambda: self._send(self._row, "write", SMALL_WRITE),
            },
        }

    def check(self) -> None:
        """Compare what was written: both tables and the topic hold the same events."""
        topic = self._open_topic("write").selectExpr("count(*)", "sum(crc32(value))").first()
        for table in self._write.values():
            found = self._spark.table(table).selectExpr("count(*)", "sum(crc32(event))").first()
            assert found == topic, (table, found, topic)

    def _insert(self, rows: DataFrame, table: str, options: dict[str, str]) -> None:
        rows.writeTo(table).options(**options).append()

    def _send(self, rows: DataFrame, topic: str, options: dict[str, int]) -> None:
        sent = rows.withColumnRenamed("event", "value").write.format("kafka")
        sent.options(**self._broker, **options, topic=topic).save()

    def _open_topic(self, topic: str) -> DataFrame:
        return self._spark.read.format("kafka").options(**self._broker, **READ, subscribe=topic).load()

    def _scan_table(self) -> None:
        self._expect(self._spark.table(self._read).selectExpr("sum(length(event))"), self._count * SIZE)

    def _scan_topic(self) -> None:
        self._expect(self._open_topic("read").selectExpr("sum(length(value))"), self._count * SIZE)

    def _count_table(self) -> None:
        self._expect(self._spark.table(self._read).selectExpr("count(*)"), self._count)

    def _count_topic(self) -> None:
        self._expect(self._open_topic("read").selectExpr("count(*)"), self._count)

    def _expect(self, found: DataFrame, value: int) -> None:
        row = found.first()
        assert row is not None and row[0] == value, row


def measure(spark: SparkSession, sides: dict[str, Work], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the median seconds and core seconds of each side; they take turns."""
    jvm = find_driver(spark)
    every: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for turn in range(-WARM, rounds):
        for side, work in sides.items() if turn % 2 else reversed(sides.items()):
            spent = time_with_cores(jvm, work)
            if turn >= 0:
                every[side].append(spent)
    return {side: tuple(map(statistics.median, zip(*runs, strict=True))) for side, runs in every.items()}  # type: ignore[misc]


def main() -> None:
    """Measure on a broker and a cluster of their own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not PUBLISHED:
        parser.error(f"Spark {pyspark.__version__} has no Kafka package; these lines have one: {sorted(PACKAGES)}.")
    confs = {"spark.jars": provide_jars(), "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    with (
        tempfile.TemporaryDirectory(prefix="bench-kafka-") as directory,
        broker(Path(directory), BROKER_JVM, SEGMENTS) as address,
        open_cluster() as config,
        open_session(config, 2, confs) as (spark, scope),
    ):
        comparison = Comparison(spark, scope, address, arguments.events)
        for what, sides in comparison.statements().items():
            found = measure(spark, sides, arguments.rounds)
            seconds, used = found["kafka"]
            print(f"{what}: kafka {seconds * 1000:.0f} ms, {used:.2f} core seconds", flush=True)
            for side, (mine, cores) in found.items():
                if side != "kafka":
                    print(f"  {side} {mine * 1000:.0f} ms, {cores:.2f} core seconds, ratio {seconds / mine:.2f}")
        comparison.check()


if __name__ == "__main__":
    main()
