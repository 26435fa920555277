"""Measure micro-batches of streams of changes: the cost of knowing a change table's rows, beside a plain table.

    python -m bench.changes_stream [--rows 1000000] [--new 10000] [--batches 10]

Each batch has the same number of new events, which update rows of the table. The plain table has the same events as
rows, so that the ratio is the price of the images. The first batch has all there is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.servers import open_cluster, open_session

PROPERTIES = {
    "debezium-json": "'format'='debezium-json', 'primary-key'='id', 'framing'='none'",
    "json": "'format'='json', 'routing-key'='id'",
}


def make_rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    """Rows with these keys, 100 bytes as JSON."""
    columns = ("id", "concat('device-', id) AS device", "rand() AS temperature", "repeat('x', 40) AS note")
    return spark.range(first, last, 1, 2).selectExpr(*columns)


def measure_batches(spark: SparkSession, table: str, new: int, count: int) -> tuple[float, list[float]]:
    """Seconds of the first batch, which has all there is, and of those that have `new` events each."""
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:

        def batch() -> float:
            stream = spark.readStream.changes(table).writeStream.format("noop")
            query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            done: list[Any] = [progress for progress in query.recentProgress if progress.numInputRows]
            return sum(progress.durationMs["triggerExecution"] for progress in done) / 1000

        first = batch()
        seconds = []
        for number in range(count):
            make_rows(spark, number * new, (number + 1) * new).writeTo(table).append()
            seconds.append(batch())
        return first, seconds


def measure(spark: SparkSession, scope: str, arguments: argparse.Namespace, show: Callable[[str], None]) -> None:
    """Print the figures of both tables and their ratio."""
    medians = {}
    for format, properties in PROPERTIES.items():
        table = f"pravega.`{scope}`.`{format}`"
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT NOT NULL, device STRING, temperature DOUBLE, note STRING) USING pravega "
            f"TBLPROPERTIES ({properties}, 'scaling.min-segments'='2')"
        )
        make_rows(spark, 0, arguments.rows).writeTo(table).append()
        first, seconds = measure_batches(spark, table, arguments.new, arguments.batches)
        medians[format] = statistics.median(seconds)
        show(
            f"{format}: first batch of {arguments.rows} events {first:.2f} s, then of {arguments.new} each "
            f"{min(seconds):.2f} to {max(seconds):.2f} s, median {medians[format]:.2f} s"
        )
    show(f"a batch of a change table takes {medians['debezium-json'] / medians['json']:.1f} times that of a plain one")


def main() -> None:
    """Measure on a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=10)
    arguments = parser.parse_args()
    with open_cluster() as config, open_session(config, 2) as (spark, scope):
        measure(spark, scope, arguments, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
