"""Measure how near `raw` tables come to the servers' limits: scan against bare range read, INSERT against bare writer.

    python -m bench.raw_throughput [--megabytes 256] [--rounds 3]

The limits are bare readers and a bare transactional writer with as many processes as Spark has tasks, one for each
segment, which run before the clock does (bench/limits.py). Reading is measured without finding the events in the bytes
(the limit) and with it. Every round measures limits and product one after the other and prints their ratios; the
medians of the rounds are what to quote. The source of the INSERT is a Parquet file; its own cost is measured and shown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.limits import Processes, make_payloads, start_processes, time_bare_read, time_bare_write, time_work
from bench.servers import open_cluster, open_session
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream

SEGMENTS = 2


@dataclass(frozen=True)
class Rate:
    """The payload that one measurement moved."""

    events: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.events / self.seconds / 1e6:6.2f} M events/s {self.bytes / self.seconds / 1e6:7.0f} MB/s"


def make_source(spark: SparkSession, directory: str, size: int, megabytes: int) -> tuple[int, DataFrame]:
    """Write events of a size into a Parquet file; return their number, and the file as rows."""
    count = megabytes * 1_000_000 // size
    file = str(Path(directory) / f"{size}.parquet")
    table = pa.table({"event": make_payloads(count, size).cast(pa.binary())})
    pq.write_table(table, file, row_group_size=count // 8 + 1, compression="NONE")
    return count, spark.read.parquet(file)


def make_table(spark: SparkSession, scope: str, name: str, segments: int = SEGMENTS) -> str:
    """Make a table of raw events, and return its name in SQL."""
    table = f"pravega.`{scope}`.`{name}`"
    spark.sql(f"CREATE TABLE {table} USING pravega TBLPROPERTIES ('format'='raw', 'scaling.min-segments'='{segments}')")
    return table


def insert_all(source: DataFrame, table: str) -> None:
    """INSERT all rows of a source into a table."""
    source.writeTo(table).append()


def scan_all(spark: SparkSession, table: str) -> None:
    """Read all rows of a table and drop them."""
    spark.table(table).write.format("noop").mode("overwrite").save()


def measure(
    spark: SparkSession, pravega: Pravega, ready: Processes, scope: str, size: int, megabytes: int, rounds: int
) -> None:
    """Print one line per round and the medians for one size of events."""
    scan_ratios, split_ratios, insert_ratios = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        count, source = make_source(spark, directory, size, megabytes)
        for number in range(rounds):
            name = f"raw-{size}-{number}"
            bare = Stream(scope, f"{name}-bare")
            tables = make_table(spark, scope, name), make_table(spark, scope, bare.name)
            table = tables[0]

            def rate(seconds: float) -> Rate:
                return Rate(count, count * size, seconds)

            written = rate(time_bare_write(pravega, ready, bare, count, size))
            noop = rate(time_work(lambda: source.write.format("noop").mode("overwrite").save()))
            inserted = rate(time_work(partial(insert_all, source, table)))
            # All read the same bytes, which the segment store has in its cache when the first clock starts.
            product = Stream(scope, name)
            time_bare_read(pravega, ready, product, split=False)
            read = rate(time_bare_read(pravega, ready, product, split=False))
            split = rate(time_bare_read(pravega, ready, product, split=True))
            scanned = rate(time_work(partial(scan_all, spark, table)))
            assert spark.table(table).count() == count
            scan_ratios.append(read.seconds / scanned.seconds)
            split_ratios.append(split.seconds / scanned.seconds)
            insert_ratios.append(written.seconds / inserted.seconds)
            print(f"{size} B, round {number + 1}")
            print(
                f"  bare read    {read}\n  with events  {split}\n  scan         {scanned}   ratio {scan_ratios[-1]:.2f}"
            )
            print(f"  bare write   {written}\n  INSERT       {inserted}   ratio {insert_ratios[-1]:.2f}")
            print(f"  source alone {noop}", flush=True)
            for made in tables:
                spark.sql(f"DROP TABLE {made}")
    scan, split_scan, insert = (statistics.median(ratios) for ratios in (scan_ratios, split_ratios, insert_ratios))
    print(
        f"{size} B, median of {rounds}: scan / bare read {scan:.2f} (with events {split_scan:.2f}), "
        f"INSERT / bare write {insert:.2f}",
        flush=True,
    )


def main() -> None:
    """Measure events of 100 B and of 1 kB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with (
        open_cluster() as config,
        connect(config) as pravega,
        start_processes(config, SEGMENTS) as ready,
        open_session(config, SEGMENTS) as (spark, scope),
    ):
        for size in (100, 1000):
            measure(spark, pravega, ready, scope, size, arguments.megabytes, arguments.rounds)


if __name__ == "__main__":
    main()
