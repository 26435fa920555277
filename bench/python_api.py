"""Compare tables without Spark to Spark: rows per second of reading into Arrow, counting and appending.

    python -m bench.python_api [--events 2e6] [--rounds 3] [--cores 2]

Both sides read and write the same tables of four segments, in turns, with as many threads as Spark has cores. The first
round does not count.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.servers import open_cluster, open_session
from pyspark_pravega.catalog import PravegaCatalog, Table, connect

COLUMNS = pa.schema([("id", pa.int64()), ("sensor", pa.int32()), ("location", pa.string()), ("temp", pa.float64())])


def make_rows(events: int) -> pa.Table:
    """Make events."""
    numbers = pa.array(range(events), pa.int64())
    sensors = pa.array([number % 1000 for number in range(events)], pa.int32())
    places = pa.array([f"place {number % 50}" for number in range(events)])
    return pa.table([numbers, sensors, places, pa.array([number / 7 for number in range(events)])], schema=COLUMNS)


def drain(table: Table, threads: int) -> None:
    """Read all rows in bounded memory."""
    for _ in table.scan().to_batches(threads=threads):
        pass


def measure_ways(
    spark: SparkSession, api: PravegaCatalog, scope: str, format: str, data: pa.Table, cores: int
) -> dict[str, Callable[[], object]]:
    """Fill a table; return what is measured on it."""
    properties = {"format": format, "scaling.min-segments": "4", "routing-key": "id"}
    table = api.create_table(f"`{scope}`.{format}", COLUMNS, properties=properties)
    table.append(data)
    written = api.create_table(f"`{scope}`.`{format}-written`", COLUMNS, properties=properties)
    source = spark.createDataFrame(data).coalesce(4).cache()
    source.count()
    return {
        f"{format}: all rows, Python `to_batches`": lambda: drain(table, cores),
        f"{format}: all rows, Python `to_arrow`": lambda: table.scan().to_arrow(threads=cores),
        f"{format}: all rows, Spark, given up (`noop`)": lambda: (
            spark.table(table.name).write.format("noop").mode("overwrite").save()
        ),
        f"{format}: all rows, Spark `toArrow`": lambda: spark.table(table.name).toArrow(),
        f"{format}: count, Python": lambda: table.scan().count(),
        f"{format}: count, Spark": lambda: spark.table(table.name).count(),
        f"{format}: append, Python": lambda: written.append(data),
        f"{format}: INSERT, Spark": lambda: source.writeTo(written.name).append(),
    }


def main() -> None:
    """Print the best of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=float, default=2e6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    events = int(arguments.events)
    data, found = make_rows(events), defaultdict[str, list[float]](list)
    with (
        open_cluster() as config,
        open_session(config, arguments.cores, {"spark.driver.memory": "3g"}) as (spark, scope),
    ):
        settings = {"controller_uri": config.controller_uri, "schema_registry_uri": config.registry_uri}
        with connect(**settings) as api:
            for format in ("avro", "json"):
                measured = measure_ways(spark, api, scope, format, data, arguments.cores)
                for number in range(arguments.rounds + 1):
                    for what, way in measured.items():
                        begin = time.perf_counter()
                        way()
                        if number:
                            found[what].append(time.perf_counter() - begin)
    print(f"load {os.getloadavg()[0]:.0f}; {events:,} events, {arguments.cores} cores; best\n| | rows/s |\n|---|---|")
    for what, seconds in found.items():
        print(f"| {what} | {events / min(seconds) / 1e6:.2f} M |")


if __name__ == "__main__":
    main()
