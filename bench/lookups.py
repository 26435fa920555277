"""Measure micro-batches that look keys up in a table of changes, in turns with the same ones without the join.

    python -m bench.lookups [--rows 1e6] [--keys 1000] [--rounds 9]

The table has four segments, and its rows are remembered. Each round appends events with as many different keys to a
stream, and each of three queries, one by one, takes them in one micro-batch: without a join; joined by a lookup; joined
with `push-down-routing-key` = `false`, so that the micro-batch reads the whole table. Before some rounds a row of the
table changes. Printed are the medians of the milliseconds of a micro-batch and of the core milliseconds of driver,
catalog service and Python workers, of all rounds after the first 20, in which the JVM compiles what it runs often.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict

from pyspark.sql import DataFrame

from bench.latency_and_memory import find_driver
from bench.servers import open_cluster, open_session
from bench.streaming import read_processor_seconds

WARM = 20
ROW = "id BIGINT, name STRING, city STRING, n INT"
VALUES = "id, concat('name-', id) AS name, concat('city-', id % 1000) AS city, CAST(id % 97 AS INT) AS n"


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    rows = int(arguments.rows)
    with tempfile.TemporaryDirectory() as directory, open_cluster() as config:
        confs = {
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.catalog.pravega.current-rows.remembered-in": f"{directory}/rows",
        }
        with open_session(config, 2, confs) as (spark, scope):
            table, source = f"pravega.`{scope}`.t", f"pravega.`{scope}`.source"
            spark.sql(
                f"CREATE TABLE {table} ({ROW}) USING pravega TBLPROPERTIES ('format'='debezium-json', "
                "'primary-key'='id', 'scaling.min-segments'='4')"
            )
            spark.sql(f"INSERT INTO {table} SELECT {VALUES} FROM range({rows})")
            spark.sql(f"CREATE TABLE {source} (id BIGINT, temp DOUBLE) USING pravega TBLPROPERTIES ('format'='json')")
            spark.sql(f"SELECT max(n) FROM {table}").collect()  # remembers the rows

            def query(kind: str) -> DataFrame:
                events = spark.readStream.table(source)
                if kind == "without a join":
                    return events
                options = {} if kind == "looked up" else {"push-down-routing-key": "false"}
                return events.hint("broadcast").join(spark.read.options(**options).table(table), "id")

            took: defaultdict[str, list[float]] = defaultdict(list)
            used: defaultdict[str, list[float]] = defaultdict(list)
            jvm = find_driver(spark)
            counts: defaultdict[str, int] = defaultdict(int)
            kinds = ("without a join", "looked up", "read whole")
            for number in range(arguments.rounds + WARM):
                first = number * 37 % max(rows // arguments.keys, 1)
                keys = f"range({first}, {rows}, {max(rows // arguments.keys, 1)})"
                spark.sql(f"INSERT INTO {source} SELECT id, id * 0.5 FROM {keys} LIMIT {arguments.keys}")
                if number % 3 == 2:
                    spark.sql(f"UPDATE {table} SET n = n + 1 WHERE id = {number}")
                for kind in kinds:

                    def write(batch: DataFrame, _: int, kind: str = kind) -> None:
                        counts[kind] += len(batch.collect())

                    writer = query(kind).writeStream.foreachBatch(write).trigger(availableNow=True)
                    before = read_processor_seconds(jvm)
                    run = writer.option("checkpointLocation", f"{directory}/{kind}").start()
                    run.awaitTermination()
                    used[kind].append(1000 * (read_processor_seconds(jvm) - before))
                    batches = [one for one in run.recentProgress if one["numInputRows"]]
                    took[kind].append(sum(one["durationMs"]["triggerExecution"] for one in batches))
            assert len(set(counts.values())) == 1, counts
    for kind in kinds:
        spent, cores = (statistics.median(each[kind][WARM:]) for each in (took, used))
        print(f"{kind:16} {spent:8.0f} ms, {cores:6.0f} core ms with the start of the query")


if __name__ == "__main__":
    main()
