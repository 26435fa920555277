"""Measure streaming queries from table to table: latency, sustained throughput, memory, sizes of micro-batches.

    python -m bench.streaming [latency] [real-time] [sustained] [memory] [sizes] [copy] [--cores 0,1] [--seconds 30]
        [--batches 500] [--rates 250000,500000] [--conf key=value]

Latency: events are appended at 1,000 and at 50,000 per second; from the append of an event to the moment at which a
reader of the target table finds it, which is asked for every 5 ms. Beside it what Spark tells of its micro-batches:
its own writes of the checkpoint (`walCommit`, `commitOffsets`), and all the rest. Real time: the same in Spark's
real-time mode, which writes without transactions, for a reader that waits at the target's segments, and the processor
time of driver, catalog service and Python workers. Sustained: events are appended at a rate; how far the query lags
behind in the first and in the last third, and the processor time of the same. Memory: resident sizes of the same over
so many micro-batches. Sizes: from the commit of a transaction of so many events to the end of the micro-batch that has
them, and of a batch that finds nothing. Copy: a table of two million events into another one, in one micro-batch. All
but the segment store runs on the cores given.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.feeder import make_block
from bench.latency_and_memory import find_driver, find_workers, list_children
from bench.limits import time_work
from bench.servers import open_cluster, open_session
from bench.visible import Asked, Followed, Visible
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import Transaction

COLUMNS = "id BIGINT, sent BIGINT, temp DOUBLE, note STRING"
SEGMENTS = 2
RATES = (1_000, 50_000)
"""Events a second where latency is measured."""
SUSTAINED = (100_000, 250_000, 500_000)
"""Events a second where throughput is measured."""
WARM_SECONDS, WARM_RATE = 20, 50_000
"""How long events come before those that are measured, and how many a second at least, because JVMs compile what they
run often: at 1,000 a second, servers and Spark would still be interpreting much of it."""
WARM = 30
"""Warm-up micro-batches, because the JVM compiles what it runs often."""
LARGE, LARGE_WARM = 1_000_000, 6
"""The warm-up where throughput is measured: events of each micro-batch, and the number of micro-batches."""
SWITCHES = ("allowlistCheck", "asyncProgressTrackingByDefault.enabled")
"""What keeps Spark from taking other sinks than its own in real-time mode."""
OWN = ("walCommit", "commitOffsets", "commitBatch")
"""What Spark writes into the checkpoint for each micro-batch, whatever the source and sink."""
Job = Callable[["Run"], None]


class Run:
    """A session, and a namespace that is dropped at the end."""

    def __init__(self, spark: SparkSession, pravega: Pravega, config: ClientConfig, scope: str, seconds: float) -> None:
        self.spark, self.pravega, self.config, self.scope, self.seconds = spark, pravega, config, scope, seconds

    def tables(self) -> tuple[str, str]:
        """Create a source and a target; return the names of their streams."""
        names = f"source-{uuid.uuid4().hex[:6]}", f"target-{uuid.uuid4().hex[:6]}"
        for name in names:
            self.spark.sql(
                f"CREATE TABLE pravega.`{self.scope}`.`{name}` ({COLUMNS}) USING pravega TBLPROPERTIES "
                f"('format'='json', 'framing'='none', 'scaling.min-segments'='{SEGMENTS}')"
            )
        return names

    @contextmanager
    def query(self, source: str, target: str, real_time: bool = False) -> Iterator[StreamingQuery]:
        """Run the measured query from one table to the other."""
        rows = self.spark.readStream.table(f"pravega.`{self.scope}`.`{source}`")
        changed = rows.selectExpr("id", "sent", "temp * 1.8 + 32 AS temp", "note").where("temp > 0")
        with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
            writer = changed.writeStream.option("checkpointLocation", checkpoint)
            if real_time:
                writer = writer.option("write-mode", "at-least-once").outputMode("update").trigger(realTime="1 minute")  # type: ignore[call-overload]
            query = writer.toTable(f"pravega.`{self.scope}`.`{target}`")
            try:
                yield query
                if (error := query.exception()) is not None:
                    raise error
            finally:
                query.stop()

    def commit(self, source: str, events: int) -> float:
        """Append events in one transaction; return when its commit was asked for."""
        transaction = Transaction.begin(self.pravega.controller, Stream(self.scope, source), 60_000)
        stamped = make_block(max(events // SEGMENTS, 1))
        for segment in transaction.segments:
            writer = uuid.uuid4()
            with SegmentAppender(
                self.pravega.segments, transaction.stream, segment.segment_id, writer, transaction.id
            ) as appender:
                appender.append(stamped, max(events // SEGMENTS, 1))
                appender.flush()
        began = time.time()
        transaction.commit()
        return began

    def percentiles(self, target: str, visible: Visible, sent: int, since: float = 1e9) -> str:
        """Return the percentiles of the times from append to visible, of events that were appended since a time."""
        rows = self.spark.sql(
            f"SELECT split(split(_segment, '/')[2], '[.]')[0], _offset, sent FROM pravega.`{self.scope}`.`{target}` "
            f"WHERE sent > {int(since * 1000)} AND id % {max(sent // 20_000, 1)} = 0"
        ).collect()
        seconds = sorted(visible.since(int(row[0]), row[1]) - row[2] / 1000 for row in rows)
        return ", ".join(f"p{part} {find_percentile(seconds, part / 100):.0f} ms" for part in (50, 90, 99))

    @contextmanager
    def feed(self, source: str, rate: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
        """Append at a rate while the body runs, which must not end earlier."""
        environment = dict(os.environ, PRAVEGA_CONTROLLER_URI=self.config.controller_uri)
        command = [sys.executable, "-m", "bench.feeder", self.scope, source, str(rate), str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as feeder:
            yield feeder
        assert feeder.returncode == 0


def list_batches(query: StreamingQuery) -> list[Any]:
    """Return the progress of the micro-batches that had rows."""
    return [progress for progress in query.recentProgress if progress.numInputRows]


def wait_for_rows(query: StreamingQuery, rows: int, seconds: float = 120) -> None:
    """Wait until micro-batches have had this number of rows."""
    end = time.monotonic() + seconds
    while sum(progress.numInputRows for progress in query.recentProgress) < rows:
        if query.exception() is not None or time.monotonic() > end:
            raise RuntimeError(f"the query has not got {rows} rows: {query.exception()}")
        time.sleep(0.1)


def measure_latency(run: Run) -> None:
    """Print how long events take at two rates, and where the time goes."""
    for rate in RATES:
        source, target = run.tables()
        with run.query(source, target) as query:
            for number in range(1, WARM + 1):
                run.commit(source, 100)
                wait_for_rows(query, 100 * number)
            with Asked(run.pravega, Stream(run.scope, target)) as visible:
                with run.feed(source, rate, run.seconds) as feeder:
                    assert feeder.stdout is not None
                    sent = int(feeder.stdout.read())
                wait_for_rows(query, 100 * WARM + sent)
                time.sleep(0.5)
            done = list_batches(query)[WARM:]
        own = statistics.median(sum(progress.durationMs.get(part, 0) for part in OWN) for progress in done)
        whole = statistics.median(progress.durationMs["triggerExecution"] for progress in done)
        times = run.percentiles(target, visible, sent)
        print(
            f"{rate:,} events/s: append to visible {times}; a micro-batch {whole:.0f} ms, of which Spark's "
            f"checkpoint {own:.0f} ms; {len(done)} micro-batches\n  medians: {summarize_parts(done)}",
            flush=True,
        )


def measure_real_time(run: Run, rates: Sequence[int]) -> None:
    """Print how long events take in real-time mode, and the processor time of driver, service and workers for each."""
    jvm = find_driver(run.spark)
    for rate in rates:
        source, target = run.tables()
        table = f"pravega.`{run.scope}`.`{target}`"
        stream = Stream(run.scope, target)
        with run.query(source, target, real_time=True), Followed(run.pravega, stream) as visible:
            with run.feed(source, max(rate, WARM_RATE), WARM_SECONDS) as feeder:
                assert feeder.stdout is not None
                first = int(feeder.stdout.read())
            wait_for_visible(run, table, first)
            warm, used = datetime.now().timestamp(), read_processor_seconds(jvm)
            with run.feed(source, rate, run.seconds) as feeder:
                assert feeder.stdout is not None
                sent = int(feeder.stdout.read())
            used = read_processor_seconds(jvm) - used
            fed = time.monotonic()
            wait_for_visible(run, table, first + sent)
            behind = time.monotonic() - fed
        times = run.percentiles(target, visible, sent, since=warm)
        print(
            f"{rate:,} events/s: append to visible {times}; all of them {behind:.1f} s after the last append; "
            f"{used / sent * 1e6:.0f} core microseconds for each",
            flush=True,
        )


def wait_for_visible(run: Run, table: str, rows: int, seconds: float = 120) -> None:
    """Wait until a table has this number of rows."""
    end = time.monotonic() + seconds
    while (count := run.spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0]) < rows:
        assert time.monotonic() < end, (count, rows)
        time.sleep(0.5)
    assert count == rows, (count, rows)


def find_percentile(ordered: list[float], part: float) -> float:
    """Return a percentile in milliseconds."""
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000


def summarize_parts(done: list[Any]) -> str:
    """Return the medians of what Spark measures of micro-batches."""
    names = sorted({name for progress in done for name in progress.durationMs})
    return ", ".join(
        f"{name} {statistics.median(progress.durationMs.get(name, 0) for progress in done):.0f} ms" for name in names
    )


def measure_sustained(run: Run, rates: Sequence[int]) -> None:
    """Print the rates with which the query keeps up."""
    jvm = find_driver(run.spark)
    for rate in rates:
        source, target = run.tables()
        with run.query(source, target) as query:
            for number in range(1, LARGE_WARM + 1):
                run.commit(source, LARGE)
                wait_for_rows(query, LARGE * number)
            before = LARGE * LARGE_WARM
            lags: list[float] = []
            used = read_processor_seconds(jvm)
            begin = time.time()
            with run.feed(source, rate, run.seconds) as feeder:
                while feeder.poll() is None:
                    time.sleep(0.5)
                    taken = sum(progress.numInputRows for progress in query.recentProgress) - before
                    lags.append((time.time() - begin) - taken / rate)
                assert feeder.stdout is not None
                sent = int(feeder.stdout.read())
            fed = time.time() - begin
            wait_for_rows(query, before + sent, 600)
            all_of = time.time() - begin
            used = read_processor_seconds(jvm) - used
            done = list_batches(query)[LARGE_WARM:]
        third = max(len(lags) // 3, 1)
        print(
            f"{rate:,} events/s wanted, {sent / fed:,.0f} came: lag {statistics.median(lags[:third]):.1f} s in the "
            f"first third, {statistics.median(lags[-third:]):.1f} s in the last; took {sent / all_of:,.0f} events/s; "
            f"{used / sent * 1e6:.2f} core seconds for a million; {len(done)} micro-batches of "
            f"{statistics.median(progress.durationMs['triggerExecution'] for progress in done):.0f} ms",
            flush=True,
        )


def time_with_cores(process: int, work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that some work took, and the core seconds of a process and its descendants in them."""
    used = read_processor_seconds(process)
    spent = time_work(work)
    return spent, read_processor_seconds(process) - used


def read_processor_seconds(process: int) -> float:
    """Return the processor time that a process, its descendants and its ended children have used so far."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return 0.0
    ticks = sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(read_processor_seconds, list_children(process)))


def measure_memory(run: Run, count: int) -> None:
    """Print resident sizes over many micro-batches."""
    source, target = run.tables()
    jvm = find_driver(run.spark)
    with run.query(source, target) as query:
        run.commit(source, 100)
        wait_for_rows(query, 100)
        first = find_last_id(query)
        steps = 5
        for step in range(1, steps + 1):
            while find_last_id(query) < first + count * step // steps:
                run.commit(source, 100)
                time.sleep(0.05)
            run.spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]
            time.sleep(1)
            service = [
                pid for pid in list_children(jvm) if b"catalog.service" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            heap = run.spark.sparkContext._jvm.Runtime.getRuntime()  # type: ignore[union-attr]
            used = (heap.totalMemory() - heap.freeMemory()) >> 20
            workers = [read_resident([pid]) for pid in find_workers(jvm)]
            print(
                f"after {find_last_id(query) - first} micro-batches: driver {read_resident([jvm])} MiB (heap used "
                f"{used} MiB), service {read_resident(service)} MiB, workers {workers} MiB",
                flush=True,
            )


def find_last_id(query: StreamingQuery) -> int:
    """Return the number of the last micro-batch."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)


def read_resident(pids: list[int]) -> int:
    """Return the resident MiB of processes."""
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


def measure_sizes(run: Run) -> None:
    """Print how long micro-batches of different sizes take."""
    for events in (100, 1_000, 10_000, 100_000, 1_000_000):
        source, target = run.tables()
        with run.query(source, target) as query:
            waits, total = [], 0
            for round in range(12 if events < 1_000_000 else 5):
                began = run.commit(source, events)
                total += events
                wait_for_rows(query, total)
                waits.append(max(map(find_end, list_batches(query))) - began)
                time.sleep(0.2 + 0.037 * (round % 7))  # not in step with any timer
            done = list_batches(query)[2:]
            print(
                f"{events:,} events: commit to the end of the micro-batch {statistics.median(waits[2:]) * 1000:.0f} ms "
                f"(best {min(waits[2:]) * 1000:.0f} ms); {summarize_parts(done)}",
                flush=True,
            )
            if events == 100:
                time.sleep(11)  # Spark reports batches that find nothing every 10 s
                empty = [progress for progress in query.recentProgress if "addBatch" not in progress.durationMs]
                print(f"nothing new: {summarize_parts(empty)}" if empty else "nothing new: not told", flush=True)


def measure_copy(run: Run) -> None:
    """Print how fast a query that ends at the newest event takes a table into another one."""
    jvm = find_driver(run.spark)
    source, target = run.tables()
    for _ in range(2):
        run.commit(source, LARGE)

    def copy() -> None:
        rows = run.spark.readStream.table(f"pravega.`{run.scope}`.`{source}`")
        with tempfile.TemporaryDirectory(prefix="bench-checkpoint-") as checkpoint:
            writer = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", checkpoint)
            writer.toTable(f"pravega.`{run.scope}`.`{target}`").awaitTermination()

    times = [time_with_cores(jvm, copy) for _ in range(7)][2:]
    copied = run.spark.sql(f"SELECT count(*) FROM pravega.`{run.scope}`.`{target}`").collect()[0][0]
    assert copied == 7 * 2 * LARGE, copied
    spent, used = (statistics.median(each) for each in zip(*times, strict=True))
    print(f"{2 * LARGE:,} events: {2 * LARGE / spent / 1e6:.2f} M/s, {used:.2f} core seconds", flush=True)


def find_end(progress: Any) -> float:
    """Return when a micro-batch ended."""
    began = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
    return float(began + progress.durationMs["triggerExecution"] / 1000)


def main() -> None:
    """Measure the named parts, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["sizes", "latency", "real-time", "sustained", "memory", "copy"])
    parser.add_argument("--cores", default="0,1")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--rates", help="events a second of sustained and real-time")
    parser.add_argument("--conf", action="append", default=[], help="key=value, a conf of Spark; may be repeated")
    arguments = parser.parse_args()
    rates = [int(rate) for rate in (arguments.rates or "").split(",") if rate]
    jobs: dict[str, Job] = {
        "latency": measure_latency,
        "real-time": lambda run: measure_real_time(run, rates or RATES),
        "sustained": lambda run: measure_sustained(run, rates or SUSTAINED),
        "memory": lambda run: measure_memory(run, arguments.batches),
        "sizes": measure_sizes,
        "copy": measure_copy,
    }
    with open_cluster() as config, connect(config) as pravega:
        cores = {int(core) for core in arguments.cores.split(",")}
        os.sched_setaffinity(0, cores)
        confs = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
        confs |= dict(conf.split("=", 1) for conf in arguments.conf)
        confs |= dict.fromkeys((f"spark.sql.streaming.realTimeMode.{name}" for name in SWITCHES), "false")
        # Tasks in real-time mode keep their slots, and the rows are counted beside them.
        slots = len(cores) + SEGMENTS * ("real-time" in arguments.what)
        with open_session(config, slots, confs) as (spark, scope):
            print(f"cores {arguments.cores}, load average {os.getloadavg()[0]:.1f}", flush=True)
            for name in arguments.what:
                print(f"--- {name}", flush=True)
                jobs[name](Run(spark, pravega, config, scope, arguments.seconds))


if __name__ == "__main__":
    main()
