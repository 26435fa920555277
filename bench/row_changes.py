"""Measure UPDATE and MERGE on a table of changes, in turns with what they consist of: a SELECT and an INSERT.

    python -m bench.row_changes [--rows 1e6] [--changes 1e4] [--rounds 5] [--remembered]

One table of four segments, on two cores: a one-row INSERT; a one-row UPDATE by key, and the SELECT of that row; a MERGE
of rows that exist, and its two halves: the join that finds the rows, and an INSERT of as many. With `--remembered`,
SELECTs begin with remembered rows. The figures are the medians of all rounds but the first one.

Then micro-batches of 1,000 rows: appended to a table of events in JSON, and in output mode `update` into one of
changes, in turns. At last the table of many rows is compacted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable

from pyspark.sql import SparkSession

from bench.servers import open_cluster, open_session

ROW = "id BIGINT, name STRING, city STRING, n INT"
VALUES = "id, concat('name-', id) AS name, concat('city-', id % 1000) AS city, CAST(id % 97 AS INT) AS n"


BATCH = 1000


def time_micro_batch(spark: SparkSession, scope: str, mode: str, directory: str) -> float:
    """Return how many milliseconds the next micro-batch of a query takes that goes on from its checkpoint."""
    stream = spark.readStream.table(f"pravega.`{scope}`.source").writeStream.outputMode(mode)
    options = {"format": "debezium-json", "primary-key": "id"} if mode == "update" else {"format": "json"}
    target = f"{scope}-{mode}"
    if spark.catalog.tableExists(f"pravega.`{scope}`.{mode}d"):
        options = {}
    query = (
        stream.options(**options, checkpointLocation=f"{directory}/{target}")
        .trigger(availableNow=True)
        .toTable(f"pravega.`{scope}`.{mode}d")
    )
    query.awaitTermination()
    return float(sum(one["durationMs"]["triggerExecution"] for one in query.recentProgress))


def main() -> None:
    """Print the medians in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--changes", type=float, default=1e4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--remembered", action="store_true")
    arguments = parser.parse_args()
    rows, changes = int(arguments.rows), int(arguments.changes)
    confs = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"}
    with tempfile.TemporaryDirectory() as directory, open_cluster() as config:
        if arguments.remembered:
            confs["spark.sql.catalog.pravega.current-rows.remembered-in"] = f"{directory}/rows"
        with open_session(config, 2, confs) as (spark, scope):
            table, other = f"pravega.`{scope}`.t", f"pravega.`{scope}`.other"
            for name in (table, other):
                spark.sql(
                    f"CREATE TABLE {name} ({ROW}) USING pravega TBLPROPERTIES ('format'='debezium-json', "
                    "'primary-key'='id', 'scaling.min-segments'='4')"
                )
            spark.sql(f"INSERT INTO {table} SELECT {VALUES} FROM range({rows})")
            source = f"(SELECT id, n + 1 AS m FROM (SELECT {VALUES} FROM range(0, {rows}, {max(1, rows // changes)})))"
            number = iter(range(1 << 30))
            statements: dict[str, Callable[[], object]] = {
                "INSERT of a row": lambda: spark.sql(f"INSERT INTO {other} VALUES ({next(number)}, 'a', 'b', 1)"),
                "UPDATE of a row by key": lambda: spark.sql(f"UPDATE {table} SET n = n + 1 WHERE id = {rows // 2}"),
                "SELECT of a row by key": lambda: spark.sql(f"SELECT * FROM {table} WHERE id = {rows // 2}").collect(),
                "MERGE": lambda: spark.sql(
                    f"MERGE INTO {table} t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = t.n + s.m"
                ),
                "the SELECT in it": lambda: (
                    spark.sql(f"SELECT t.*, s.m FROM {table} t JOIN {source} s ON t.id = s.id")
                    .write.format("noop")
                    .mode("overwrite")
                    .save()
                ),
                "INSERT of its rows": lambda: spark.sql(f"INSERT INTO {other} SELECT {VALUES} FROM range({changes})"),
            }
            took: defaultdict[str, list[float]] = defaultdict(list)
            for _ in range(arguments.rounds + 1):
                for name, run in statements.items():
                    began = time.perf_counter()
                    run()
                    took[name].append((time.perf_counter() - began) * 1000)
            source = f"pravega.`{scope}`.source"
            spark.sql(f"CREATE TABLE {source} ({ROW}) USING pravega TBLPROPERTIES ('format'='json')")
            for mode in ("append", "update") * arguments.rounds:
                spark.sql(f"INSERT INTO {source} SELECT {VALUES} FROM range({BATCH})")
                took[f"micro-batch, {mode}"].append(time_micro_batch(spark, scope, mode, directory))
            if not arguments.remembered:
                began = time.perf_counter()
                [done] = spark.sql(f"CALL pravega.system.compact_changes('`{scope}`.t', true)").collect()
                took["compaction"] = [0.0, (time.perf_counter() - began) * 1000]
                print(f"compaction of {done.rows} rows: {done.bytes_before >> 20} MiB to {done.bytes_after >> 20} MiB")
    for name, times in took.items():
        print(f"{name:24} {statistics.median(times[1:]):8.0f} ms")


if __name__ == "__main__":
    main()
