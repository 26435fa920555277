"""Measure growth by segments: the same events in 1 to 64 of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.servers import open_cluster, open_session

from .events import COLUMNS, GROUP_BY, VALUES
from .measured import QUIET, Memory, measure_warm, prepare_statement, print_best, save

GREATEST = 64


def list_counts(greatest: int) -> list[int]:
    """Return 1, 2, 4 and so on."""
    return [1 << power for power in range(greatest.bit_length())]


def measure_spreads(spark: SparkSession, scope: str, events: int, greatest: int) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each statement with each number of segments."""
    source = f"SELECT {VALUES['avro']} FROM range(0, {events}, 1, 4)"
    memory = Memory(spark)
    # The first table is for Spark's compiled code and the Python workers.
    for number, name in [(4, "warm-up"), *((count, f"of-{count}") for count in list_counts(greatest))]:
        table, one = f"pravega.`{scope}`.`{name}`", f"pravega.`{scope}`.`one-{name}`"
        for created in (table, one):
            spark.sql(
                f"CREATE TABLE {created} {COLUMNS['avro']} USING pravega "
                f"TBLPROPERTIES ('format'='avro', 'scaling.min-segments'='{number}')"
            )
        with memory.watched() as peak:
            found = {"INSERT": measure_warm(prepare_statement(spark, f"INSERT INTO {table} {source}"), runs=2)}
            there = spark.sql(f"SELECT count(*) FROM {table}").collect()[0][0]
            statements = {
                "count(*)": f"SELECT count(*) FROM {table} WHERE _offset >= 0",  # not from the commit log
                "GROUP BY": GROUP_BY["avro"].format(table),
                "LIMIT 10": f"SELECT * FROM {table} LIMIT 10",
                "INSERT of 1 row": f"INSERT INTO {one} VALUES (1700000000000, 7, 'plant-7', 0.5D)",
            }
            found |= {name: measure_warm(prepare_statement(spark, text)) for name, text in statements.items()}
        row = {"segments": number, "events": events, "read": there, **found, "memory": dict(peak)}
        print_best(f"{number:>3} segments", found)
        yield row


def main(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure all numbers of segments in one session."""
    with open_cluster() as config, open_session(config, arguments.cores, QUIET) as (spark, scope):
        rows = list(measure_spreads(spark, scope, int(float(arguments.events_in_segments)), arguments.segments))
    save(directory, "segments", {"rows": rows[1:]})
