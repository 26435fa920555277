"""Measure what the search for truncations of a table of changes costs EXPLAIN, queries and micro-batches.

    python -m bench.truncations [--rows 1000000] [--new 1000] [--batches 3]

The table has four segments that share no key, so that a query has to know the truncations of all of them. One is among
the events. Times are those of whole statements; counting the rows takes most of a SELECT.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession

from bench.changes_stream import make_rows
from bench.servers import open_cluster, open_session
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import Stream

TRUNCATION = {"op": "t", "before": None, "after": None, "ts_ms": 1, "source": {"connector": "postgresql", "lsn": 1}}
"""Older than all rows, so that it clears none of them."""


def truncate(config: ClientConfig, stream: Stream) -> int:
    """Append a truncation; return the bytes of the stream."""
    event = json.dumps(TRUNCATION, separators=(",", ":")).encode()
    with connect(config) as pravega:
        current = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        with SegmentAppender(pravega.segments, stream, current[0], uuid.uuid4()) as appender:
            appender.append(bytes(4) + len(event).to_bytes(4, "big") + event, 1)
            appender.flush()
        return sum(info.write_offset for info in pravega.segments.segment_infos(stream, current).values())


def measure(spark: SparkSession, config: ClientConfig, scope: str, arguments: argparse.Namespace) -> None:
    """Print the times of a table's first statements, and of those after them."""

    def show(what: str, action: Callable[[], object]) -> None:
        begin = time.perf_counter()
        action()
        print(f"{what}: {time.perf_counter() - begin:.2f} s", flush=True)

    def batch() -> None:
        stream = spark.readStream.changes(table).writeStream.format("noop")
        stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    table = f"pravega.`{scope}`.changes"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT NOT NULL, device STRING, temperature DOUBLE, note STRING) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id', 'framing'='none', 'scaling.min-segments'='4')"
    )
    make_rows(spark, 0, 1).writeTo(table).append()
    spark.sql(f"SELECT count(*) FROM {table}").collect()  # which starts everything that has to start
    make_rows(spark, 0, arguments.rows).writeTo(table).append()
    print(f"{truncate(config, Stream(scope, 'changes')) / 1e6:.0f} MB", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
        show("EXPLAIN", lambda: spark.sql(f"EXPLAIN SELECT count(device) FROM {table}").collect())
        for what in ("first SELECT", "SELECT", "SELECT"):
            show(what, lambda: spark.sql(f"SELECT count(device) FROM {table}").collect())
        without = f"SELECT count(device) FROM {table} WITH ('debezium.truncates'='false')"
        show("SELECT without truncations", lambda: spark.sql(without).collect())
        make_rows(spark, 0, arguments.new).writeTo(table).append()
        show(f"SELECT after {arguments.new} events", lambda: spark.sql(f"SELECT count(device) FROM {table}").collect())
        show("first batch", batch)
        for _ in range(arguments.batches):
            make_rows(spark, 0, arguments.new).writeTo(table).append()
            show(f"batch of {arguments.new} events", batch)


def main() -> None:
    """Measure on a cluster of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--batches", type=int, default=3)
    arguments = parser.parse_args()
    with open_cluster() as config, open_session(config, 4) as (spark, scope):
        measure(spark, config, scope, arguments)


if __name__ == "__main__":
    main()
