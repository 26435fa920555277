"""Measure whole queries and INSERTs in Spark: tables of this project against the usual way.

    python -m bench.end_to_end [--events 4000000] [--rounds 5]

The usual way is a binary column that Spark's own `from_json` or `from_avro` decodes in the JVM. Here it reads the same
stream as a `raw` table, so that the transport is the same and only the decoding differs. Both decode the same columns:
once all of them, once the two that the question needs. The usual way is told these by hand (a schema of two columns for
`from_json`, a reader schema for `from_avro`); a table finds them by itself. Both run once before the clock starts and
take turns in going first. The medians of their ratios are what to quote. `from_avro` is in the package spark-avro,
which Spark fetches when the session starts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import uuid
from collections.abc import Callable, Sequence

import pyarrow
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from bench.limits import time_work
from bench.servers import open_cluster
from pyspark_pravega import __version__, configure, native
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import load_table

COLUMNS = {"device": "STRING", "at": "BIGINT", "temperature": "DOUBLE", "status": "INT"}
NEEDED = ("temperature", "status")
HEADER = 5
"""Bytes of the registry's header before each payload."""

GOALS = {"json": 5.0, "avro": 3.0}
"""How many times faster than the usual way, with the needed columns only."""
INSERT_GOAL = 0.6
"""Million events per second: three times what the upstream connector reaches on two cores."""


def describe_columns(names: Sequence[str]) -> str:
    """Return columns as in CREATE TABLE."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in names)


def parse_json(payload: Column, schema: str, names: Sequence[str]) -> Column:
    """A struct of these columns by from_json."""
    return f.from_json(payload.cast("string"), describe_columns(names))


def parse_avro(payload: Column, schema: str, names: Sequence[str]) -> Column:
    """A struct of these columns by from_avro; fewer than all are a reader schema, as Avro resolves them."""
    record = json.loads(schema)
    record["fields"] = [field for field in record["fields"] if field["name"] in names]
    return from_avro(payload, schema, {"avroSchema": json.dumps(record)})


def select_usual_way(
    decode: Callable[[Column, str, Sequence[str]], Column], raw: DataFrame, schema: str, names: Sequence[str]
) -> DataFrame:
    """The rows of a raw table the usual way."""
    payload = f.substring("event", HEADER + 1, 1 << 30)
    return raw.select(decode(payload, schema, names).alias("row")).select("row.*")


def group_rows(rows: DataFrame, names: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the measured query: count and sum by status, with all columns also the greatest of the others."""
    asked = [f.count("*"), f.round(f.sum("temperature"), 1)]
    asked += [f.max(name) for name in names if name not in NEEDED]
    return sorted(tuple(row) for row in rows.groupBy("status").agg(*asked).collect())


def insert(spark: SparkSession, stream: Stream, format: str, source: DataFrame) -> float:
    """Return the seconds of an INSERT into a new table."""
    table = f"pravega.`{stream.scope}`.`{stream.name}`"
    spark.sql(
        f"CREATE TABLE {table} ({describe_columns(list(COLUMNS))}) USING pravega "
        f"TBLPROPERTIES ('format'='{format}', 'scaling.min-segments'='2')"
    )
    return time_work(lambda: source.writeTo(table).append())


def format_spread(values: Sequence[float]) -> str:
    """Format median, least and greatest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def compare(
    spark: SparkSession, pravega: Pravega, stream: Stream, format: str, names: Sequence[str], count: int, rounds: int
) -> None:
    """Print the rates of both ways with their spread, and the median of the ratios of the rounds."""
    table = f"pravega.`{stream.scope}`.`{stream.name}`"
    schema = load_table(pravega, stream).table.schema_text or ""
    options = {"controller-uri": pravega.config.controller_uri, "scope": stream.scope, "stream": stream.name}
    raw = spark.read.format("pravega").options(format="raw", **options).load()
    decode = {"json": parse_json, "avro": parse_avro}[format]
    results: dict[str, list[tuple[object, ...]]] = {}

    def ours() -> None:
        results["ours"] = group_rows(spark.table(table), names)

    def theirs() -> None:
        results["theirs"] = group_rows(select_usual_way(decode, raw, schema, names), names)

    ways = {"ours": ours, "theirs": theirs}
    for way in ways.values():
        way()  # the server's cache, Spark's compiled code and the Python workers are warm for both
    assert results["ours"] == results["theirs"], results
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(rounds):
        for name in sorted(ways, reverse=bool(number % 2)):
            seconds[name].append(time_work(ways[name]))
    rates = {name: [count / time / 1e6 for time in times] for name, times in seconds.items()}
    ratios = [their / mine for mine, their in zip(seconds["ours"], seconds["theirs"], strict=True)]
    columns = "all columns" if len(names) == len(COLUMNS) else f"{len(names)} of {len(COLUMNS)} columns"
    goal = "" if len(names) == len(COLUMNS) else f"; goal {GOALS[format]:.0f}"
    print(
        f"{format}, {columns}: GROUP BY {format_spread(rates['ours'])} M events/s, "
        f"from_{format} {format_spread(rates['theirs'])} M events/s, ratio {format_spread(ratios)}{goal}",
        flush=True,
    )


def measure(spark: SparkSession, pravega: Pravega, scope: str, format: str, count: int, rounds: int) -> None:
    """Print the figures of one format."""
    source = spark.range(0, count, 1, 2).selectExpr(
        "concat('sensor-', id % 10000) AS device",
        "1700000000000 + id AS at",
        "round(rand(1) * 60 - 20, 2) AS temperature",
        "CAST(id % 5 AS INT) AS status",
    )
    source = source.cache()
    source.count()
    insert(spark, Stream(scope, f"{format}-warm"), format, source)
    rates = []
    for number in range(rounds):
        stream = Stream(scope, f"{format}-{number}")
        rates.append(count / insert(spark, stream, format, source) / 1e6)
        if number < rounds - 1:
            spark.sql(f"DROP TABLE pravega.`{scope}`.`{stream.name}`")
    source.unpersist()
    print(f"{format}: INSERT {format_spread(rates)} M events/s; goal {INSERT_GOAL}", flush=True)
    for names in (NEEDED, tuple(COLUMNS)):
        compare(spark, pravega, stream, format, names, count, rounds)


def main() -> None:
    """Measure JSON and Avro."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--formats", default="json,avro")
    parser.add_argument("--spark-avro", default="4.1.1", help="version of spark-avro; not every Spark has its own")
    arguments = parser.parse_args()
    with open_cluster() as config, connect(config) as pravega:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.jars.packages", f"org.apache.spark:spark-avro_2.13:{arguments.spark_avro}")
        builder = configure(builder, controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
        print(
            f"pyspark-pravega {__version__} ({'native' if native.get_status().active else 'in Python'}), "
            f"Spark {spark.version}, spark-avro {arguments.spark_avro}, Java {java}, "
            f"Python {platform.python_version()}, PyArrow {pyarrow.__version__}\n"
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; "
            f"{arguments.events:,} events, median (least to greatest) of {arguments.rounds} rounds",
            flush=True,
        )
        scope = f"bench-{uuid.uuid4().hex[:8]}"
        spark.sql(f"CREATE NAMESPACE pravega.`{scope}`")
        try:
            for format in arguments.formats.split(","):
                measure(spark, pravega, scope, format, arguments.events, arguments.rounds)
        finally:
            spark.sql(f"DROP NAMESPACE pravega.`{scope}` CASCADE")
            spark.stop()


if __name__ == "__main__":
    main()
