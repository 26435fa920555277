"""How near `raw` tables come to the servers' limits: scan against a bare range read, INSERT against a bare writer.

    python -m bench.raw_throughput [--megabytes 256] [--rounds 3]

Every round measures limit and product one after the other on the same stream and prints their ratio; the medians of
the rounds are what to quote. The source of the INSERT is a Parquet file; its own cost is measured and shown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.servers import cluster
from pyspark_pravega import configure
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.append import SegmentAppender
from pyspark_pravega.client.event_frames import frame
from pyspark_pravega.client.reader import SegmentRangeReader
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import Transaction

SEGMENTS = 2
BLOCK_EVENTS_BYTES = 1 << 20


@dataclass(frozen=True)
class Rate:
    """What one measurement moved, payload only."""

    events: int
    bytes: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.events / self.seconds / 1e6:6.2f} M events/s {self.bytes / self.seconds / 1e6:7.0f} MB/s"


def timed(work: Callable[[], None]) -> float:
    """Return the seconds that some work took."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def payloads(count: int, size: int) -> pa.BinaryArray:
    """Return random events of one size."""
    data = np.random.default_rng(1).integers(0, 256, count * size, dtype=np.uint8)
    offsets = np.arange(count + 1, dtype=np.int64) * size
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def bare_write(pravega: Pravega, stream: Stream, events: pa.Array) -> None:
    """Write all events in one transaction, as fast as one process can without encoding or routing."""
    transaction = Transaction.begin(pravega.controller, stream, 60_000)
    transaction.keep_alive()
    ids = [segment.segment_id for segment in transaction.segments]
    share = len(events) // len(ids)
    per_block = max(1, BLOCK_EVENTS_BYTES // (len(events[0].as_py()) + 8))
    for number, segment_id in enumerate(ids):
        mine = events.slice(number * share, share if number < len(ids) - 1 else len(events))
        with SegmentAppender(pravega.segments, stream, segment_id, uuid.uuid4(), transaction.id) as appender:
            for first in range(0, len(mine), per_block):
                block = mine.slice(first, per_block)
                appender.append(frame(block), len(block))
            appender.flush()
    transaction.commit()


def bare_read(pravega: Pravega, stream: Stream) -> None:
    """Read all bytes of a stream and find the events in them, without decoding."""
    head = pravega.controller.head(stream)
    ids, _ = pravega.controller.segments_between(head, None)
    for segment_id, info in pravega.segments.segment_infos(stream, ids).items():
        for window in SegmentRangeReader(pravega.segments, stream, segment_id, 0, info.write_offset):
            assert len(window.starts)


def measure(spark: SparkSession, pravega: Pravega, scope: str, size: int, megabytes: int, rounds: int) -> None:
    """Print one line per round and the medians for one size of events."""
    count = megabytes * 1_000_000 // size
    events = payloads(count, size)
    scan_ratios, insert_ratios = [], []
    with tempfile.TemporaryDirectory() as directory:
        file = str(Path(directory) / "events.parquet")
        pq.write_table(
            pa.table({"event": events.cast(pa.binary())}), file, row_group_size=count // 8 + 1, compression="NONE"
        )
        source = spark.read.parquet(file)
        for number in range(rounds):
            name = f"raw-{size}-{number}"
            table, bare = f"pravega.`{scope}`.`{name}`", Stream(scope, f"{name}-bare")
            for made in (table, f"pravega.`{scope}`.`{bare.name}`"):
                spark.sql(
                    f"CREATE TABLE {made} USING pravega "
                    f"TBLPROPERTIES ('format'='raw', 'scaling.min-segments'='{SEGMENTS}')"
                )

            def rate(seconds: float) -> Rate:
                return Rate(count, count * size, seconds)

            written = rate(timed(lambda bare=bare: bare_write(pravega, bare, events)))
            noop = rate(timed(lambda: source.write.format("noop").mode("overwrite").save()))
            inserted = rate(timed(lambda table=table: source.writeTo(table).append()))
            read = rate(timed(lambda bare=bare: bare_read(pravega, bare)))
            scanned = rate(timed(lambda table=table: spark.table(table).write.format("noop").mode("overwrite").save()))
            assert spark.table(table).count() == count
            scan_ratios.append(read.seconds / scanned.seconds)
            insert_ratios.append(written.seconds / inserted.seconds)
            print(f"{size} B, round {number + 1}")
            print(f"  bare read    {read}\n  scan         {scanned}   ratio {scan_ratios[-1]:.2f}")
            print(f"  bare write   {written}\n  INSERT       {inserted}   ratio {insert_ratios[-1]:.2f}")
            print(f"  source alone {noop}", flush=True)
            for made in (table, f"pravega.`{scope}`.`{bare.name}`"):
                spark.sql(f"DROP TABLE {made}")
    scan, insert = statistics.median(scan_ratios), statistics.median(insert_ratios)
    print(f"{size} B, median of {rounds}: scan / bare read {scan:.2f}, INSERT / bare write {insert:.2f}", flush=True)


def main() -> None:
    """Measure events of 100 B and of 1 kB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with cluster() as config, connect(config) as pravega:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = configure(builder, controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri)
        spark = builder.getOrCreate()
        scope = f"bench-{uuid.uuid4().hex[:8]}"
        spark.sql(f"CREATE NAMESPACE pravega.`{scope}`")
        try:
            for size in (100, 1000):
                measure(spark, pravega, scope, size, arguments.megabytes, arguments.rounds)
        finally:
            spark.sql(f"DROP NAMESPACE pravega.`{scope}` CASCADE")
            spark.stop()


if __name__ == "__main__":
    main()
