"""INSERTs of single rows by processes without Spark."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from bench.crowd.load import Load, run_clients
from pyspark_pravega.catalog import connect
from pyspark_pravega.client.config import ClientConfig


def insert_without_spark(
    config: ClientConfig, table: str, threads: int, seconds: float, out: Path, pause: float = 0
) -> None:
    """INSERT single rows into a table by some threads of this process; write down how long each took.

    Each thread begins one at most every `pause` seconds.
    """
    with connect(controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri) as catalog:
        tables = [catalog.load_table(table) for _ in range(threads)]
        row = pa.table({"id": pa.array([-1], pa.int64())})

        def insert(number: int) -> float:
            began = time.perf_counter()
            tables[number].append(row)
            took = time.perf_counter() - began
            time.sleep(max(0.0, pause - took))
            return took

        load = run_clients(threads, seconds, insert)
    out.write_text("\n".join([str(load.elapsed), *map(str, load.seconds)]))


def measure_processes(config: ClientConfig, scope: str, processes: int, threads: int, seconds: float) -> None:
    """Print the rate of several processes that INSERT into one table, and count its rows."""
    with connect(controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri) as catalog:
        table = catalog.create_table(f"`{scope}`.crowd", pa.schema([("id", pa.int64())]))
        with tempfile.TemporaryDirectory() as directory:
            files = [Path(directory) / str(number) for number in range(processes)]
            forks = multiprocessing.get_context("spawn")
            workers = [
                forks.Process(target=insert_without_spark, args=(config, f"`{scope}`.crowd", threads, seconds, file))
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
            f"| INSERT without Spark, {processes} processes | {processes * threads} | {load.describe()} | | | | | |",
            flush=True,
        )
        catalog.drop_table(f"`{scope}`.crowd")
