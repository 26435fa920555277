"""A driver on a cluster: a stream of changes batch by batch, whose executors lose their files and their lives."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail

ROWS, BATCHES = 100, 6


def executors(spark: SparkSession) -> list[int]:
    """The processes of the executors."""

    def parent(number: int) -> int:
        status = Path(f"/proc/{os.getppid()}/status").read_text()  # the worker's parent is the daemon, a child of it
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))

    return sorted(set(spark.sparkContext.parallelize(range(8), 8).map(parent).collect()))


def truncate(controller: str, table: str) -> None:
    """Let retention remove all events."""
    scope, name = table.replace("`", "").split(".")[1:]
    with connect(ClientConfig(controller)) as pravega:
        pravega.controller.truncate_stream(measure_tail(pravega, Stream(scope, name)))


def main(master: str, table: str, controller: str, registry: str, log: str) -> None:
    """Update all rows before each batch. In the middle all events are removed.

    Then one executor loses its files, and in the next batch it is killed and both have lost theirs. Prints for each
    batch the number of changes, and the names of the states by executor.
    """
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m")
    spark = configure(builder, controller_uri=controller, schema_registry_uri=registry).getOrCreate()
    for number in range(BATCHES):
        spark.sql(f"INSERT INTO {table} SELECT id, 'v{number}' FROM range({ROWS})")
        query = (
            spark.readStream.changes(table)
            .writeStream.format("noop")
            .option("checkpointLocation", f"{log}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        directories = sorted(Path(log).parent.glob("local/**/pyspark-pravega-row-states"))
        states = {str(directory): sorted(path.name for path in directory.iterdir()) for directory in directories}
        print(
            json.dumps({"changes": sum(progress.numInputRows for progress in query.recentProgress), "states": states})
        )
        if number == BATCHES // 2:
            truncate(controller, table)
            shutil.rmtree(directories[0])
        if number == BATCHES // 2 + 1:
            for directory in directories:
                shutil.rmtree(directory)
            os.kill(executors(spark)[0], signal.SIGKILL)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
