"""Measure how long statements wait before any data moves, and how much memory tasks use.

    python -m bench.latency_and_memory [--megabytes 512]

Start of the catalog service: from its process to its first answer. Planning: from SQL text to the executable plan of a
simple SELECT, in a session that has run one before. A look at a table: the first query after idle workers have ended,
then `show()`, LIMIT 10, and LIMIT 10 behind a filter that is not pushed, of a table of 200,000 rows in four segments.
Memory: the highest resident size of the Python workers that read
a segment, or write one, of a twentieth of the size and of the whole size; it must not grow with the size. Then the same
for other values of `read-window` and `spool.memory`, which it depends on.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from bench.servers import open_cluster
from pyspark_pravega import configure
from pyspark_pravega.client.config import ClientConfig

EVENT_BYTES = 1000


def measure_service_start(config: ClientConfig) -> float:
    """Return the seconds from starting a service to its first answer."""
    conf = [["controller-uri", config.controller_uri], ["catalog-name", "pravega"]]
    request = "1 " + json.dumps({"operation": "list_namespaces", "conf": conf, "arguments": {}})
    begin = time.perf_counter()
    command = [sys.executable, "-P", "-m", "pyspark_pravega.catalog.service"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdin is not None and service.stdout is not None
        service.stdin.write(request + "\n")
        service.stdin.flush()
        answer = json.loads(service.stdout.readline().removeprefix("1 "))
        seconds = time.perf_counter() - begin
        assert "result" in answer, answer
        service.stdin.close()
    return seconds


def find_workers(jvm: int) -> list[int]:
    """Return the Python workers that this Spark runs for its tasks: what its daemons have forked."""
    return [
        worker
        for daemon in list_children(jvm)
        if b"daemon" in Path(f"/proc/{daemon}/cmdline").read_bytes()
        for worker in list_children(daemon)
    ]


def list_children(pid: int) -> list[int]:
    """Return the processes that a process has started, without those of threads that end in the meantime."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, task.read_text().split())
    return found


def find_driver(spark: SparkSession) -> int:
    """Return the process of a session's JVM."""
    return int(spark.sparkContext._jvm.ProcessHandle.current().pid())  # type: ignore[union-attr]


def measure_peak_memory(jvm: int, work: Callable[[], None]) -> float:
    """Return the most MiB that one Python worker had resident while some work ran."""
    done = threading.Event()
    peak = 0.0

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            for pid in find_workers(jvm):
                try:
                    match = re.search(r"^VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                peak = max(peak, int(match[1]) / 1024 if match else 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak


def end_idle_workers(spark: SparkSession) -> None:
    """End idle workers, so that the next task's worker starts without what the last one left."""
    jvm = find_driver(spark)
    for pid in find_workers(jvm):
        os.kill(pid, 15)


def measure_peak_of_scan(spark: SparkSession, jvm: int, table: str, window: str) -> float:
    """Return the most MiB of a worker that reads a table with a `read-window`."""
    end_idle_workers(spark)
    frame = spark.read.option("read-window", window).table(table)
    return measure_peak_memory(jvm, lambda: frame.write.format("noop").mode("overwrite").save())


def measure_peak_of_insert(spark: SparkSession, jvm: int, table: str, megabytes: int, spool: str) -> float:
    """Return the most MiB of a worker that inserts `size` megabytes with a `spool.memory`."""
    end_idle_workers(spark)
    rows = spark.range(0, megabytes * 1_000_000 // EVENT_BYTES, 1, 1).selectExpr(
        f"CAST(repeat('x', {EVENT_BYTES}) AS BINARY) AS event"
    )
    return measure_peak_memory(jvm, lambda: rows.writeTo(table).option("spool.memory", spool).append())


def measure_planning(spark: SparkSession, statement: str) -> float:
    """Return the seconds from a statement's text to its plan."""
    begin = time.perf_counter()
    spark.sql(statement)._jdf.queryExecution().executedPlan()
    return time.perf_counter() - begin


def time_runs(work: Callable[[], object], times: int = 10) -> list[float]:
    """Return how long each of some runs took."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return found


def look_at(spark: SparkSession, table: str) -> None:
    """Print how long the first rows of a table take."""
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING) USING pravega "
        "TBLPROPERTIES ('routing-key'='id', 'scaling.min-segments'='4')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, repeat('x', 50) FROM range(200000)")
    limit = f"SELECT * FROM {table} LIMIT 10"

    def show() -> None:
        with redirect_stdout(io.StringIO()):
            spark.table(table).show()

    def first() -> None:
        end_idle_workers(spark)
        spark.sql(limit).collect()

    looks: dict[str, Callable[[], object]] = {
        "LIMIT 10 in a new worker": first,
        "show()": show,
        "LIMIT 10": lambda: spark.sql(limit).collect(),
        "WHERE ... LIMIT 10": lambda: spark.sql(f"SELECT * FROM {table} WHERE id > 5 LIMIT 10").collect(),
    }
    for name, look in looks.items():
        look()
        found = time_runs(look)
        print(f"{name}: median {statistics.median(found):.3f} s, best {min(found):.3f} s")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    megabytes = parser.parse_args().megabytes
    with open_cluster() as config:
        starts = [measure_service_start(config) for _ in range(5)]
        print(f"service start, to its first answer: median {statistics.median(starts):.2f} s, best {min(starts):.2f} s")
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        builder = configure(builder, controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri)
        spark = builder.getOrCreate()
        jvm = find_driver(spark)
        scope = f"bench-{uuid.uuid4().hex[:8]}"
        spark.sql(f"CREATE NAMESPACE pravega.`{scope}`")
        try:
            table = f"pravega.`{scope}`.sensor"
            spark.sql(f"CREATE TABLE {table} (id INT, location STRING, temp DOUBLE) USING pravega")
            spark.sql(f"INSERT INTO {table} VALUES (1, 'here', 20.5)")
            select = f"SELECT location, temp FROM {table} WHERE id = 1"
            first = measure_planning(spark, select)
            warm = [measure_planning(spark, select) for _ in range(20)]
            print(f"planning of a SELECT: first {first:.2f} s, warm median {statistics.median(warm):.3f} s, "
                  f"worst of 20 {max(warm):.3f} s")  # fmt: skip
            whole = []
            for _ in range(10):
                begin = time.perf_counter()
                spark.sql(select).collect()
                whole.append(time.perf_counter() - begin)
            print(f"the same SELECT with its one row: median {statistics.median(whole):.3f} s")
            look_at(spark, f"pravega.`{scope}`.`looked-at`")
            for size in (megabytes // 20, megabytes):
                name = f"pravega.`{scope}`.`raw-{size}`"
                spark.sql(f"CREATE TABLE {name} USING pravega TBLPROPERTIES ('format'='raw')")
                written = measure_peak_of_insert(spark, jvm, name, size, "32m")
                read = measure_peak_of_scan(spark, jvm, name, "16m")
                print(f"one segment of {size} MB: INSERT task {written:.0f} MiB, scan task {read:.0f} MiB", flush=True)
            for window in ("1m", "4m", "64m"):
                print(
                    f"  read-window {window}: scan task {measure_peak_of_scan(spark, jvm, name, window):.0f} MiB",
                    flush=True,
                )
            for spool in ("1m", "128m"):
                peak = measure_peak_of_insert(spark, jvm, name, size, spool)
                print(f"  spool.memory {spool}: INSERT task {peak:.0f} MiB")
        finally:
            spark.sql(f"DROP NAMESPACE pravega.`{scope}` CASCADE")
            spark.stop()


if __name__ == "__main__":
    main()
