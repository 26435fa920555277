"""Measure reads of a table whose events are in a lake, beside the stream and beside Spark on the same files.

    python -m bench.lake [--events 3000000] [--rounds 5] [--runtime JAR]

A table of 12 columns as JSON in four segments. Times are medians of seconds, measured in turns: GROUP BY over two of
the columns, and the same of a thirtieth of the rows by a condition. `tier` is compared with Spark, which writes the
same rows of the stream as Parquet, and with the jar of Iceberg's runtime also into an Iceberg table. The memory of
`tier` is measured for a tenth of the events too, in a table of their own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from bench.scale.measured import Memory
from bench.servers import open_cluster, open_session

QUERY = "SELECT g, sum(c2), count(*) FROM {} {} GROUP BY g"
COLUMNS = "c0 INT, c1 STRING, c2 DOUBLE, c3 TIMESTAMP, c4 BIGINT, c5 STRING, c6 DOUBLE, c7 INT, c8 BOOLEAN, c9 STRING"
VALUES = """id, cast(id % 100 as int), cast(id % 1000 as int), concat('text ', id % 5000), id / 7.0D,
  timestamp_micros(1700000000000000 + id * 1000), id * 3, concat('u', id % 77), id / 3.0D, cast(id % 13 as int),
  id % 2 = 0, 'a constant text of some length'"""


def measure(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def measure_folder(folder: str) -> float:
    """Return the megabytes of all files in a folder."""
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6


def main() -> None:
    """Measure, and print one line for each query."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runtime", help="Iceberg's runtime for this version of Spark")
    arguments = parser.parse_args()
    with open_cluster() as config, tempfile.TemporaryDirectory(prefix="pyspark-pravega-bench-") as folder:
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"}
        confs = {f"spark.sql.catalog.pravega.lake.{key}": text for key, text in lake.items()}
        if arguments.runtime:
            catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{folder}/ice"}
            confs |= {"spark.jars": arguments.runtime}
            confs |= {f"spark.sql.catalog.ice{key}": text for key, text in catalog.items()}
        with open_session(config, 2, confs) as (spark, scope):
            compare(spark, scope.replace("-", "_"), folder, arguments)


def fill(spark: SparkSession, table: str, lake: str, events: int) -> None:
    """Make a table with a lake, and INSERT events in three parts."""
    properties = f"'format'='json', 'scaling.min-segments'='4', 'lake'='bench.{lake}'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, g INT, {COLUMNS}) USING pravega TBLPROPERTIES ({properties})")
    for part in range(3):
        spark.sql(f"INSERT INTO {table} SELECT {VALUES} FROM range({part * events // 3}, {(part + 1) * events // 3})")


def tier(spark: SparkSession, table: str) -> float:
    """Tier a table; return the seconds, and print the most memory that the session's processes had."""
    with Memory(spark).watched() as peak:
        seconds = measure(lambda: spark.sql(f"CALL pravega.system.tier(table => '{table}')").collect())
    sizes = ", ".join(f"{kind} {size:.0f} MiB" for kind, size in peak.items())
    print(f"tier {table.partition('.')[2]} {seconds:.1f} s, at most {sizes}", flush=True)
    return seconds


def compare(spark: SparkSession, scope: str, folder: str, arguments: argparse.Namespace) -> None:
    """Fill a table, tier it, and compare its reads."""
    table, events = f"pravega.{scope}.events", arguments.events
    stream = f"{table} WITH ('lake'='ignore')"
    fill(spark, f"pravega.{scope}.tenth", "tenth", events // 10)
    tier(spark, f"{scope}.tenth")
    fill(spark, table, "events", events)
    tiered = tier(spark, f"{scope}.events")
    rows = spark.sql(f"SELECT * FROM {stream}").write
    parquet = measure(lambda: rows.parquet(f"file://{folder}/plain"))
    print(f"tier {tiered:.1f} s, the same rows as Parquet by Spark {parquet:.1f} s", flush=True)
    if arguments.runtime:
        spark.sql(f"CREATE TABLE ice.bench.copy (id BIGINT, g INT, {COLUMNS}) USING iceberg")
        copy = measure(lambda: spark.sql(f"INSERT INTO ice.bench.copy SELECT * FROM {stream}"))
        sizes = [f"{measure_folder(f'{folder}/{part}'):.0f} MB" for part in ("bench", "ice")]
        print(f"INSERT INTO an Iceberg table by its runtime {copy:.1f} s; sizes {' and '.join(sizes)}", flush=True)
    spark.read.parquet(f"file://{folder}/bench/events/data").createOrReplaceTempView("files")
    for name, condition in (("all", ""), ("1/30", f"WHERE id BETWEEN {events // 2} AND {events // 2 + events // 30}")):
        times: dict[str, list[float]] = {table: [], "files": [], stream: []}
        for _ in range(arguments.rounds + 1):
            for source, taken in times.items():
                taken.append(measure(spark.sql(QUERY.format(source, condition)).collect))
        lake, files, of_stream = (statistics.median(taken[1:]) for taken in times.values())
        ratios = f"{lake / files:.2f} of Spark on the files, {of_stream / lake:.1f} times as fast as the stream"
        print(f"GROUP BY {name}: lake {lake:.2f}, files {files:.2f}, stream {of_stream:.2f} s: {ratios}", flush=True)


if __name__ == "__main__":
    main()
