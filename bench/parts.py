"""Measure how a scan of one segment gains from more tasks: the longest of 1, 2, 4, 8 parts, and Spark with two cores.

    python -m bench.parts [--events 2e7] [--versions 4] [--rounds 3]

One core reads the parts one after the other, so that they do not disturb each other; "share" is how much longer the
longest of them takes than an equal share of one task's time, and how much larger the largest is than an equal share of
the bytes. Spark reads the same table whole and divided, in turns.
"""

from __future__ import annotations

import argparse
import statistics
import time

from bench.python_api import COLUMNS, make_rows
from bench.servers import open_cluster, open_session
from pyspark_pravega.catalog import Table, connect
from pyspark_pravega.datasource.scan.reader import SlicePartition

PARTS = (1, 2, 4, 8)


def time_parts(table: Table, parts: int) -> tuple[list[float], list[int]]:
    """Return the seconds and the bytes of each task of a scan in so many parts."""
    seconds, sizes = [], []
    for task in table.scan(options={"min-partitions": str(parts)}).tasks():
        assert isinstance(task.partition, SlicePartition)
        sizes.append(task.partition.read.end - task.partition.read.start)
        began = time.perf_counter()
        for _ in task.to_batches():
            pass
        seconds.append(time.perf_counter() - began)
    return seconds, sizes


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=float, default=2e7)
    parser.add_argument("--versions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    data, rounds = make_rows(int(arguments.events) // arguments.versions), arguments.rounds
    with open_cluster() as config, open_session(config, 2, {"spark.driver.memory": "3g"}) as (spark, scope):
        settings = {"controller_uri": config.controller_uri, "schema_registry_uri": config.registry_uri}
        with connect(**settings) as api:
            table = api.create_table(f"`{scope}`.one", COLUMNS, properties={"format": "avro"})
            for _ in range(arguments.versions):
                table.append(data)
            print(f"{arguments.versions} versions, {table.size().bytes / 1e6:.0f} MB in one segment")
            times: dict[str, list[float]] = {"whole": [], "divided": []}
            for _ in range(rounds + 1):
                for name, options in (("whole", {}), ("divided", {"max-bytes-per-task": "64m"})):
                    began = time.perf_counter()
                    rows = spark.read.options(**options).table(table.name)
                    rows.write.format("noop").mode("overwrite").save()
                    times[name].append(time.perf_counter() - began)
            longest: dict[int, list[float]] = {parts: [] for parts in PARTS}
            largest: dict[int, float] = {}
            for _ in range(rounds + 1):
                for parts in PARTS:
                    seconds, sizes = time_parts(table, parts)
                    assert len(seconds) == parts, f"{len(seconds)} tasks instead of {parts}"
                    longest[parts].append(max(seconds))
                    largest[parts] = max(sizes) * parts / sum(sizes)
    one = statistics.median(longest[1][1:])
    for parts in PARTS:
        found = statistics.median(longest[parts][1:])
        print(
            f"{parts} parts: the longest {found:.2f} s, {found * parts / one:.2f} times its share; the largest "
            f"{largest[parts]:.3f} times its share of the bytes"
        )
    for name, seconds in times.items():
        print(f"Spark, 2 cores, {name}: {statistics.median(seconds[1:]):.2f} s")


if __name__ == "__main__":
    main()
