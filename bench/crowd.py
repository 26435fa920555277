"""Measure many statements at the same time: rates, latencies, and what a statement costs each process.

    python -m bench.crowd [--clients 1,4,16,64] [--seconds 10] [--only INSERT] [--soak 5000]

Threads of one PySpark session run one kind of statement for some seconds: SELECT of a small table, of a Parquet table
and of a view in memory, INSERTs of one row into one table and into eight, and metadata. Then one process, and four at
the same time, with sixteen threads each, INSERT into one table without Spark. Each written row is counted afterwards.
With `--soak`, that many statements of all kinds follow, and threads and memory of the processes are shown on the
way.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.latency_and_memory import find_driver, list_children
from bench.servers import open_cluster, open_session
from pyspark_pravega.catalog import connect
from pyspark_pravega.client.config import ClientConfig

TABLES = 8
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Statement:
    """A kind of statement: its text by the number of the client."""

    name: str
    make: Callable[[int], str]
    writes: bool = False

    def prepare(self, spark: SparkSession) -> Callable[[int], object]:
        """Return the function that runs it for a client."""
        return lambda number: spark.sql(self.make(number)).collect()


@dataclass(frozen=True)
class Load:
    """What some clients did: the seconds of each statement, and of all together."""

    seconds: list[float]
    elapsed: float

    def describe(self) -> str:
        """Return the rate, and the quantiles of the latencies in milliseconds."""
        ordered = sorted(self.seconds)
        p99 = ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]
        return f"{len(ordered) / self.elapsed:.1f} | {statistics.median(ordered) * 1000:.0f} | {p99 * 1000:.0f}"


class Processes:
    """The processes of a session and of the servers, with the processor time that each kind has used."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = find_driver(spark)

    def find(self) -> dict[str, list[int]]:
        """Return the ids of the processes by kind."""
        kinds: dict[str, list[int]] = {"JVM": [self._jvm], "service": [], "workers": [], "Pravega": []}
        for pid in list_children(self._jvm):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"catalog.service" in command:
                kinds["service"].append(pid)
            elif b"daemon" in command:
                kinds["workers"] += [pid, *list_children(pid)]
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            if b"LocalPravegaEmulator" in _read(path):
                kinds["Pravega"].append(int(path.parent.name))
        return kinds

    def measure_time(self) -> dict[str, float]:
        """Return the seconds that each kind has used. Children that have ended count for the daemon of the workers."""
        times = {}
        for kind, pids in self.find().items():
            fields = [_read(Path(f"/proc/{pid}/stat")).decode().rpartition(")")[2].split() for pid in pids]
            last = 15 if kind == "workers" else 13
            times[kind] = sum(sum(map(int, each[11:last])) for each in fields if each) / TICKS
        return times

    def describe_size(self) -> str:
        """Return the threads and the resident MiB of the JVM and of the service."""
        sizes = []
        for kind in ("JVM", "service"):
            for pid in self.find()[kind]:
                status = dict(line.split(":\t", 1) for line in _read(Path(f"/proc/{pid}/status")).decode().splitlines())
                sizes.append(f"{kind} {status['Threads']} threads, {int(status['VmRSS'].split()[0]) // 1024} MiB")
        return "; ".join(sizes)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def run_clients(clients: int, seconds: float, work: Callable[[int], object]) -> Load:
    """Have clients do something again and again for some seconds; each finishes what it has begun."""
    took: list[float] = []
    failures: list[BaseException] = []
    begin = time.perf_counter()

    def run(number: int) -> None:
        try:
            while time.perf_counter() - begin < seconds and not failures:
                began = time.perf_counter()
                work(number)
                took.append(time.perf_counter() - began)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Load(took, time.perf_counter() - begin)


def make_statements(spark: SparkSession, scope: str, directory: str) -> list[Statement]:
    """Make the tables, and return the statements on them."""
    place = f"pravega.`{scope}`"
    for name in ("small", *(f"into_{number}" for number in range(TABLES))):
        spark.sql(f"CREATE TABLE {place}.{name} (id BIGINT, temp DOUBLE) USING pravega")
    spark.sql(f"INSERT INTO {place}.small SELECT id, id / 2D FROM range(100)")
    spark.range(100).selectExpr("id", "id / 2D AS temp").write.parquet(f"{directory}/parquet")
    spark.read.parquet(f"{directory}/parquet").createOrReplaceTempView("parquet_rows")
    spark.range(100).selectExpr("id", "id / 2D AS temp").createOrReplaceTempView("rows_in_memory")
    return [
        Statement("SELECT of 100 rows", lambda number: f"SELECT * FROM {place}.small WHERE temp > {number % 7}"),
        Statement("the same of Parquet", lambda number: f"SELECT * FROM parquet_rows WHERE temp > {number % 7}"),
        Statement("the same of a view", lambda number: f"SELECT * FROM rows_in_memory WHERE temp > {number % 7}"),
        Statement("INSERT of 1 row, 1 table", lambda number: f"INSERT INTO {place}.into_0 VALUES ({number}, 1D)", True),
        Statement(
            f"INSERT of 1 row, {TABLES} tables",
            lambda number: f"INSERT INTO {place}.into_{number % TABLES} VALUES ({number}, 1D)",
            True,
        ),
        Statement("DESCRIBE TABLE", lambda number: f"DESCRIBE TABLE {place}.into_{number % TABLES}"),
        Statement("SHOW TABLES", lambda number: f"SHOW TABLES IN {place}"),
    ]


def show_costs(before: Mapping[str, float], after: Mapping[str, float], statements: int) -> str:
    """Return the milliseconds of a core that a statement cost each kind of process."""
    return " | ".join(f"{(after[kind] - before[kind]) / statements * 1000:.0f}" for kind in before)


def insert_without_spark(config: ClientConfig, scope: str, threads: int, seconds: float, out: Path) -> None:
    """INSERT single rows into one table by some threads of this process; write down how long each took."""
    with connect(controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri) as catalog:
        tables = [catalog.load_table(f"`{scope}`.crowd") for _ in range(threads)]
        row = pa.table({"id": pa.array([1], pa.int64())})
        load = run_clients(threads, seconds, lambda number: tables[number].append(row))
    out.write_text("\n".join([str(load.elapsed), *map(str, load.seconds)]))


def measure_processes(config: ClientConfig, scope: str, processes: int, threads: int, seconds: float) -> None:
    """Print the rate of several processes that INSERT into one table, and count its rows."""
    with connect(controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri) as catalog:
        table = catalog.create_table(f"`{scope}`.crowd", pa.schema([("id", pa.int64())]))
        with tempfile.TemporaryDirectory() as directory:
            files = [Path(directory) / str(number) for number in range(processes)]
            forks = multiprocessing.get_context("spawn")
            workers = [
                forks.Process(target=insert_without_spark, args=(config, scope, threads, seconds, file))
                for file in files
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            lines = [[float(line) for line in file.read_text().splitlines()] for file in files]
        load = Load([each for line in lines for each in line[1:]], max(line[0] for line in lines))
        table.refresh()
        rows, versions = table.scan().count(), len(table.history())
        assert rows == versions == len(load.seconds), f"{rows} rows, {versions} versions, {len(load.seconds)} INSERTs"
        print(
            f"| INSERT without Spark, {processes} processes | {processes * threads} | {load.describe()} | | | | |",
            flush=True,
        )
        catalog.drop_table(f"`{scope}`.crowd")


def soak(statements: list[Callable[[int], object]], processes: Processes, total: int) -> None:
    """Run statements of all kinds by sixteen clients, and print how large the processes are on the way."""
    numbers = itertools.count()

    def work(number: int) -> None:
        statements[next(numbers) % len(statements)](number)

    done = shown = 0
    print(f"\nafter 0 statements: {processes.describe_size()}")
    while done < total:
        done += len(run_clients(16, 2, work).seconds)
        if done >= shown + total // 5:
            shown = done
            print(f"after {done} statements: {processes.describe_size()}", flush=True)


def main() -> None:
    """Print a row for each statement and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--soak", type=int, default=0)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        open_cluster() as config,
        open_session(config, arguments.cores, {"spark.ui.showConsoleProgress": "false"}) as (spark, scope),
    ):
        processes = Processes(spark)
        statements = make_statements(spark, scope, directory)

        written = 0
        for statement in statements:
            warm = run_clients(4, 3, statement.prepare(spark))
            written += len(warm.seconds) if statement.writes else 0
        print(
            "| statement | clients | a second | p50 ms | p99 ms | "
            + " | ".join(processes.find())
            + " |\n"
            + "|---" * 9
            + "|"
        )
        for statement in (one for one in statements if arguments.only in one.name):
            for clients in map(int, arguments.clients.split(",")):
                before = processes.measure_time()
                load = run_clients(clients, arguments.seconds, statement.prepare(spark))
                written += len(load.seconds) if statement.writes else 0
                costs = show_costs(before, processes.measure_time(), len(load.seconds))
                print(f"| {statement.name} | {clients} | {load.describe()} | {costs} |", flush=True)
        tables = " UNION ALL ".join(f"SELECT id FROM pravega.`{scope}`.into_{number}" for number in range(TABLES))
        [(rows,)] = spark.sql(f"SELECT count(id) FROM ({tables})").collect()
        assert rows == written, f"{rows} rows instead of {written}"
        for number in (1, 4):
            measure_processes(config, scope, number, 16, arguments.seconds)
        if arguments.soak:
            soak([statement.prepare(spark) for statement in statements], processes, arguments.soak)


if __name__ == "__main__":
    main()
