"""Measure growth by streams: SHOW TABLES of a scope, requests of tools that browse it, and loads of one table.

At the end a Thrift server lists the tables, which needs build/dbt: `make build/dbt/installed`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.crowd.front_ends import open_front_end
from bench.servers import open_cluster, open_session
from pyspark_pravega.catalog.api.catalog import PravegaCatalog
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream, StreamConfiguration

from .measured import QUIET, Memory, measure_warm, prepare_statement, save, time_runs

LOADS = 100
"""Loads of each kind, and tables with a schema that are made for each size of the scope."""
THREADS = 16
REST = 60
"""New streams after which the server gets a second to store what it keeps about them."""


def load(spark: SparkSession, scope: str, name: str) -> float:
    """Load a table as a statement does; return the milliseconds."""
    jvm = spark.sparkContext._jvm
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("pravega")
    namespace = spark.sparkContext._gateway.new_array(jvm.String, 1)
    namespace[0] = scope
    identifier = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, name)
    begin = time.perf_counter()
    catalog.loadTable(identifier)
    return (time.perf_counter() - begin) * 1000


def make_table(spark: SparkSession, scope: str, name: str) -> None:
    """Create a table with a schema."""
    spark.sql(f"CREATE TABLE pravega.`{scope}`.`{name}` (id BIGINT, name STRING) USING pravega")


def make_stream(pravega: Pravega, scope: str, name: str) -> None:
    """Create a stream that is unknown to the schema registry."""
    pravega.controller.create_stream(Stream(scope, name), StreamConfiguration())


def compute_quantiles(milliseconds: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the worst."""
    ordered = sorted(milliseconds)
    return {"p50": statistics.median(ordered), "p95": ordered[int(len(ordered) * 0.95)], "worst": ordered[-1]}


def load_in_parallel(spark: SparkSession, scope: str, tables: Sequence[str]) -> list[float]:
    """Load tables, eight at the same time; return the milliseconds of each."""
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(partial(load, spark, scope), tables))


def list_browsing_requests(spark: SparkSession, pravega: Pravega, scope: str) -> dict[str, Callable[[], object]]:
    """Return the requests of tools by name: some list all tables of the scope, some use a pattern."""
    place = f"pravega.`{scope}`"
    api = PravegaCatalog(Catalog({}, pravega))
    return {
        "SHOW TABLES LIKE": prepare_statement(spark, f"SHOW TABLES IN {place} LIKE 'table_0000*'"),
        "SHOW TABLE EXTENDED of 10": prepare_statement(spark, f"SHOW TABLE EXTENDED IN {place} LIKE 'table_0000*'"),
        "SHOW TABLE EXTENDED": prepare_statement(spark, f"SHOW TABLE EXTENDED IN {place} LIKE '*'"),
        "catalog.listTables": lambda: spark.catalog.listTables(place),
        "list_tables in Python": lambda: api.list_tables(f"`{scope}`"),
    }


def measure_filled(spark: SparkSession, pravega: Pravega, scope: str, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Yield what is measured at each number of streams."""
    there, memory = 0, Memory(spark)
    for size in sizes:
        begin = time.perf_counter()
        tables = [f"table-{number:05}" for number in range(there, there + LOADS)]
        others = [f"stream-{number:05}" for number in range(there + LOADS, size)]
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(partial(make_table, spark, scope), tables))
            list(threads.map(partial(make_stream, pravega, scope), others))
        made = time.perf_counter() - begin
        time.sleep((size - there) / REST)
        with memory.watched() as peak:
            shown = measure_warm(prepare_statement(spark, f"SHOW TABLES IN pravega.`{scope}`"))
            assert spark.sql(f"SHOW TABLES IN pravega.`{scope}`").count() == size
            browsed = {
                name: time_runs(work, runs=1)[0] for name, work in list_browsing_requests(spark, pravega, scope).items()
            }
            cold = compute_quantiles([load(spark, scope, name) for name in reversed(tables[1:])])
            load(spark, scope, tables[0])
            again = compute_quantiles([load(spark, scope, tables[0]) for _ in range(LOADS)])
        there = size
        busy = compute_quantiles(load_in_parallel(spark, scope, tables))
        row = {"streams": size, "made": made, "SHOW TABLES": shown, "first load": cold, "load": again}
        row |= {"browsing": browsed, "loads of 8 at once": busy}
        print(
            f"{size:>6} streams, made in {made:.0f} s: SHOW TABLES {shown['seconds']:.2f} s, first load p95 "
            f"{cold['p95']:.0f} ms, load p95 {again['p95']:.0f} ms, of 8 at once {busy['p95']:.0f} ms; "
            + ", ".join(f"{name} {took:.2f} s" for name, took in browsed.items()),
            flush=True,
        )
        yield {**row, "memory": dict(peak)}


def main(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure scopes of 200 streams and of more."""
    greatest = int(float(arguments.streams))
    sizes = [size for size in (200, 1_000, 3_000, 10_000, 30_000) if size < greatest] + [greatest]
    with (
        open_cluster() as config,
        connect(config) as pravega,
        open_session(config, arguments.cores, QUIET) as (spark, scope),
    ):
        streams = f"{scope}-streams"
        spark.sql(f"CREATE NAMESPACE pravega.`{streams}`")
        rows = list(measure_filled(spark, pravega, streams, sizes))
        with tempfile.TemporaryDirectory() as local, open_front_end("thrift", config, 2, Path(local)) as front:
            listed = measure_warm(partial(front.connect().list_tables, f"pravega.{streams}".replace("-", "_")))
            print(f"getTables over Thrift {listed['seconds']:.2f} s, best {listed['best']:.2f} s", flush=True)
        save(directory, "streams", {"rows": rows, "getTables": listed})
        if os.environ.get("PRAVEGA_CONTROLLER_URI"):  # a server of our own ends sooner than 10,000 streams are dropped
            spark.sql(f"DROP NAMESPACE pravega.`{streams}` CASCADE")
