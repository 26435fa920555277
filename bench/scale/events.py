"""Measure growth by events: one table is filled step by step, and queried at each size."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.limits import Processes, start_processes, time_bare_read
from bench.servers import open_cluster, open_session
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream

from .measured import QUIET, Memory, measure_warm, prepare_statement, print_best, save

SEGMENTS = 4
SMALL = 10
"""Events of the first size, which shows the cost of a statement without events."""
FIRST = 100_000
WARM = 1_000_000
COLUMNS = {"raw": "", "avro": "(timestamp BIGINT, sensorId INT, location STRING, temp DOUBLE)"}
VALUES = {
    "raw": "CAST(concat('plant-', lpad(CAST(id % 50 AS STRING), 2, '0'), repeat('x', 21)) AS BINARY) AS event",
    "avro": "1700000000000 + id AS timestamp, CAST(id % 1000 AS INT) AS sensorId, "
    "concat('plant-', id % 50) AS location, CAST(id % 977 AS DOUBLE) / 7D AS temp",
}
"""Both have about 29 bytes."""
GROUP_BY = {
    "raw": "SELECT substring(event, 1, 8), count(*) FROM {} GROUP BY 1",
    "avro": "SELECT location, count(*), max(temp), min(timestamp) FROM {} GROUP BY location",
}


def list_sizes(greatest: int) -> list[int]:
    """Return the sizes: next to nothing, then 1, 3, 10 and so on times the first, then the greatest."""
    found, power = [SMALL], FIRST
    while power < greatest:
        found += [size for size in (power, 3 * power) if size < greatest]
        power *= 10
    return [*found, greatest]


def insert(spark: SparkSession, table: str, format: str, first: int, end: int) -> float:
    """Insert the events of these numbers; return the seconds."""
    begin = time.perf_counter()
    spark.sql(f"INSERT INTO {table} SELECT {VALUES[format]} FROM range({first}, {end}, 1, {SEGMENTS})")
    return time.perf_counter() - begin


def create(spark: SparkSession, table: str, format: str) -> None:
    """Create an empty table."""
    spark.sql(
        f"CREATE TABLE {table} {COLUMNS[format]} USING pravega TBLPROPERTIES ('format'='{format}', "
        f"'scaling.min-segments'='{SEGMENTS}')"
    )


def measure_growth(
    spark: SparkSession, pravega: Pravega, ready: Processes, scope: str, format: str, greatest: int
) -> Iterator[dict[str, Any]]:
    """Yield what each statement took at each size, and the memory of the processes."""
    stream = Stream(scope, format)
    table, trial = f"pravega.`{scope}`.`{format}`", f"pravega.`{scope}`.trial"
    create(spark, table, format)
    create(spark, trial, format)
    for _ in range(3):
        insert(spark, trial, format, 0, WARM)  # Spark's compiled code and the Python workers are warm
    memory, there = Memory(spark), 0
    for size in list_sizes(greatest):
        count = f"SELECT count(*) FROM {table} WHERE _offset >= 0"  # not from the commit log
        statements = {"count(*)": count, "GROUP BY": GROUP_BY[format].format(table)}
        with memory.watched() as peak:
            written = insert(spark, table, format, there, size)
            found = {"INSERT": {"seconds": written, "best": written}}
            if size - there <= FIRST:  # a ratio of so few events says little
                found["INSERT"] = measure_warm(partial(insert, spark, trial, format, 0, size - there))
            found |= {name: measure_warm(prepare_statement(spark, text)) for name, text in statements.items()}
        assert spark.sql(count).collect()[0][0] == size
        found["bare read"] = measure_warm(partial(time_bare_read, pravega, ready, stream, split=True), runs=3)
        row = {"format": format, "events": size, "inserted": size - there, **found}
        print_best(f"{format} {size:>11,}", found)
        yield {**row, "memory": dict(peak)}
        there = size


def main(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure each format, in a server and a session of its own."""
    for format in arguments.formats.split(","):
        with (
            open_cluster() as config,
            connect(config) as pravega,
            start_processes(config, SEGMENTS) as ready,
            open_session(config, arguments.cores, QUIET) as (spark, scope),
        ):
            rows = list(measure_growth(spark, pravega, ready, scope, format, int(float(arguments.events))))
        save(directory, f"events-{format}", {"rows": rows})
