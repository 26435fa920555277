"""Measure the micro-batches of a streaming query while others INSERT into its table.

    python -m bench.crowd.beside_stream [--threads 0,4,16,64] [--rate 4] [--seconds 20]

A query writes 100 rows a second into a table, one micro-batch in each half second. Beside it, threads of a process
without Spark INSERT single rows: into another table, which says what the cores have to do with it, and then into the
same one. With `--rate`, all threads together INSERT no more than that a second, so that cores are free; with 0, as many
as they can. Afterwards, each row is there once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from bench.crowd.without_spark import insert_without_spark
from bench.servers import open_cluster, open_session
from pyspark_pravega.client.config import ClientConfig

ROWS_A_SECOND = 100


@contextmanager
def crowd(config: ClientConfig, table: str, threads: int, rate: float, seconds: float) -> Iterator[list[float]]:
    """Have a process INSERT meanwhile; yield a list that has the number of INSERTs and their seconds in the end."""
    done: list[float] = []
    if not threads:
        yield done
        return
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "took"
        arguments = (config, table, threads, seconds, out, threads / rate if rate else 0.0)
        process = multiprocessing.get_context("spawn").Process(target=insert_without_spark, args=arguments)
        process.start()
        yield done
        process.join()
        elapsed, *took = map(float, out.read_text().splitlines())
    done += len(took), elapsed


def wait(query: StreamingQuery, seconds: float) -> list[float]:
    """Return the milliseconds of the micro-batches with rows that end within some seconds."""
    first = -1 if query.lastProgress is None else query.lastProgress["batchId"]
    time.sleep(seconds)
    assert query.exception() is None
    progress = [each for each in query.recentProgress if each["batchId"] > first + 2 and each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] for each in progress]


def main() -> None:
    """Print a row for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="0,4,16,64")
    parser.add_argument("--rate", type=float, default=4)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    print(
        "| threads | into | INSERTs a second | micro-batch: p50 ms | p90 ms | of |\n|---|---|---|---|---|---|",
        flush=True,
    )
    with (
        open_cluster() as config,
        tempfile.TemporaryDirectory() as directory,
        open_session(config, 2, {"spark.ui.showConsoleProgress": "false"}) as (spark, scope),
    ):
        for table in ("stream", "other"):
            spark.sql(f"CREATE TABLE pravega.`{scope}`.{table} (id BIGINT) USING pravega")
        rows = spark.readStream.format("rate").option("rowsPerSecond", ROWS_A_SECOND).load().selectExpr("value AS id")
        writer = rows.writeStream.option("checkpointLocation", f"{directory}/checkpoint")
        query = writer.trigger(processingTime="500 milliseconds").toTable(f"pravega.`{scope}`.stream")
        wait(query, 15)
        inserted = 0
        for threads in map(int, arguments.threads.split(",")):
            for table in ("other", "stream") if threads else ("nothing",):
                with crowd(config, f"`{scope}`.{table}", threads, arguments.rate, arguments.seconds + 8) as done:
                    time.sleep(6 if threads else 0)  # the process starts
                    took = wait(query, arguments.seconds)
                count, elapsed = done or (0, 1)
                inserted += int(count) if table == "stream" else 0
                ordered = sorted(took)
                p90 = ordered[int(0.9 * len(ordered))]
                line = f"{count / elapsed:.1f} | {statistics.median(ordered):.0f} | {p90:.0f} | {len(ordered)}"
                print(f"| {threads} | {table} | {line} |", flush=True)
        query.stop()
        [(others, distinct, most)] = spark.sql(
            f"SELECT count_if(id < 0), count(DISTINCT id) FILTER (WHERE id >= 0), max(id) FROM pravega.`{scope}`.stream"
        ).collect()
        [(all_rows,)] = spark.sql(f"SELECT count(*) FROM pravega.`{scope}`.stream").collect()
        assert others == inserted and distinct == most + 1 == all_rows - others, (others, inserted, distinct, most)
        print(f"{all_rows} rows are there, each once")


if __name__ == "__main__":
    main()
