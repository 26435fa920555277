"""Measure growth by columns: the same number of values in events of 1 to 1,000 columns."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.raw_throughput import scan_all
from bench.servers import open_cluster, open_session

from .measured import QUIET, Memory, measure_warm, prepare_statement, print_best, save

SEGMENTS = 2
TYPES = (("BIGINT", "id + {0}"), ("DOUBLE", "(id + {0}) / 7D"), ("STRING", "concat('v-', (id + {0}) % 100)"))
"""Types of columns, in turn, and their values."""


def list_counts(greatest: int) -> list[int]:
    """Return 1, 3, 10, 30 and so on."""
    found = [1]
    while found[-1] < greatest:
        found.append(min(greatest, found[-1] * 3 if str(found[-1])[0] == "1" else found[-1] // 3 * 10))
    return found


def measure_widths(
    spark: SparkSession, scope: str, format: str, values: int, greatest: int
) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each statement with each number of columns."""
    memory = Memory(spark)
    # The first table is for Spark's compiled code and the Python workers.
    for number, name in [(10, "warm-up"), *((count, f"of-{count}") for count in list_counts(greatest))]:
        events = max(values // number, 1)
        table, source = f"pravega.`{scope}`.`{format}-{name}`", f"rows_{number}"
        kinds = [TYPES[column % len(TYPES)] for column in range(number)]
        columns = ", ".join(f"c{column} {kind[0]}" for column, kind in enumerate(kinds))
        select = ", ".join(f"{kind[1].format(column)} AS c{column}" for column, kind in enumerate(kinds))
        spark.sql(
            f"CREATE TABLE {table} ({columns}) USING pravega "
            f"TBLPROPERTIES ('format'='{format}', 'scaling.min-segments'='{SEGMENTS}')"
        )
        rows = spark.sql(f"SELECT {select} FROM range(0, {events}, 1, {SEGMENTS})").cache()
        rows.createOrReplaceTempView(source)
        assert rows.count() == events
        with memory.watched() as peak:
            found = {
                "INSERT": measure_warm(prepare_statement(spark, f"INSERT INTO {table} SELECT * FROM {source}"), runs=2)
            }
            there = spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0]
            found |= {
                "all columns": measure_warm(partial(scan_all, spark, table)),
                "one column": measure_warm(prepare_statement(spark, f"SELECT sum(c0) FROM {table}")),
                "LIMIT 10": measure_warm(prepare_statement(spark, f"SELECT * FROM {table} LIMIT 10")),
                "load": measure_warm(partial(spark.table, table)),
            }
        rows.unpersist()
        row = {"format": format, "columns": number, "events": events, "read": there, **found, "memory": dict(peak)}
        print_best(f"{format} {number:>4} columns", found)
        yield row


def main(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure each format in a session of its own."""
    for format in arguments.formats_of_columns.split(","):
        with open_cluster() as config, open_session(config, arguments.cores, QUIET) as (spark, scope):
            rows = list(measure_widths(spark, scope, format, int(float(arguments.values)), arguments.columns))
        save(directory, f"columns-{format}", {"rows": rows[1:]})
