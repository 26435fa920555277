"""Queries and INSERTs of whole statements in Spark: tables of this project against the usual way.

    python -m bench.end_to_end [--events 2000000] [--rounds 3]

The usual way is a binary column that Spark's own `from_json` or `from_avro` decodes in the JVM. Here it reads the same
stream as a `raw` table, so that the transport is the same and only the decoding differs. Every round runs both, one
after the other; the medians of their ratios are what to quote. `from_avro` is in the package spark-avro, which Spark
fetches when the session starts.
"""

from __future__ import annotations

import argparse
import statistics
import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from bench.limits import timed
from bench.servers import cluster
from pyspark_pravega import configure
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import load_table

COLUMNS = "device STRING, at BIGINT, temperature DOUBLE, status INT"
HEADER = 5
"""Bytes of the registry's header before each payload."""

GOALS = {"json": 5.0, "avro": 3.0}
INSERT_GOAL = 0.6
"""Million events per second: three times what the upstream connector reaches on two cores."""


def by_json(events: DataFrame, schema: str) -> DataFrame:
    """Rows of a raw table by from_json."""
    text = f.substring("event", HEADER + 1, 1 << 30).cast("string")
    return events.select(f.from_json(text, COLUMNS).alias("row")).select("row.*")


def by_avro(events: DataFrame, schema: str) -> DataFrame:
    """Rows of a raw table by from_avro."""
    payload = f.substring("event", HEADER + 1, 1 << 30)
    return events.select(from_avro(payload, schema).alias("row")).select("row.*")


def grouped(rows: DataFrame) -> list[tuple[int, int, float]]:
    """What is asked: count and sum by status."""
    found = rows.groupBy("status").agg(f.count("*"), f.round(f.sum("temperature"), 1)).collect()
    return sorted((row[0], row[1], row[2]) for row in found)


def one_round(
    spark: SparkSession, pravega: Pravega, stream: Stream, format: str, source: DataFrame
) -> tuple[float, float, float]:
    """Seconds of an INSERT into a new table, of the query over it, and of the same the usual way."""
    table = f"pravega.`{stream.scope}`.`{stream.name}`"
    spark.sql(
        f"CREATE TABLE {table} ({COLUMNS}) USING pravega "
        f"TBLPROPERTIES ('format'='{format}', 'scaling.min-segments'='2')"
    )
    inserted = timed(lambda: source.writeTo(table).append())
    schema = load_table(pravega, stream).table.schema_text or ""
    options = {"controller-uri": pravega.config.controller_uri, "scope": stream.scope, "stream": stream.name}
    raw = spark.read.format("pravega").options(format="raw", **options)
    decode = {"json": by_json, "avro": by_avro}[format]
    results: dict[str, list[tuple[int, int, float]]] = {}

    def ours() -> None:
        results["ours"] = grouped(spark.table(table))

    def theirs() -> None:
        results["theirs"] = grouped(decode(raw.load(), schema))

    ours()  # the server's cache is warm for both
    seconds = timed(ours), timed(theirs)
    assert results["ours"] == results["theirs"], results
    spark.sql(f"DROP TABLE {table}")
    return inserted, *seconds


def measure(spark: SparkSession, pravega: Pravega, scope: str, format: str, count: int, rounds: int) -> None:
    """Print the rates of each round and the medians for one format."""
    source = spark.range(0, count, 1, 2).selectExpr(
        "concat('sensor-', id % 10000) AS device",
        "1700000000000 + id AS at",
        "round(rand(1) * 60 - 20, 2) AS temperature",
        "CAST(id % 5 AS INT) AS status",
    )
    source = source.cache()
    source.count()
    ratios, rates = [], []
    for number in range(rounds):
        inserted, mine, other = one_round(spark, pravega, Stream(scope, f"{format}-{number}"), format, source)
        ratios.append(other / mine)
        rates.append(count / inserted / 1e6)
        print(
            f"{format}, round {number + 1}: GROUP BY {count / mine / 1e6:.2f} M events/s, from_{format} "
            f"{count / other / 1e6:.2f} M events/s, ratio {ratios[-1]:.1f}; INSERT {rates[-1]:.2f} M events/s",
            flush=True,
        )
    source.unpersist()
    ratio, rate = statistics.median(ratios), statistics.median(rates)
    print(f"{format}, median of {rounds}: {ratio:.1f} times from_{format} (goal {GOALS[format]:.0f})", flush=True)
    print(f"{format}, median of {rounds}: INSERT {rate:.2f} M events/s (goal {INSERT_GOAL})", flush=True)


def main() -> None:
    """Measure JSON and Avro."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", default="json,avro")
    parser.add_argument("--spark-avro", default="4.1.1", help="version of spark-avro; not every Spark has its own")
    arguments = parser.parse_args()
    with cluster() as config, connect(config) as pravega:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.jars.packages", f"org.apache.spark:spark-avro_2.13:{arguments.spark_avro}")
        builder = configure(builder, controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
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
