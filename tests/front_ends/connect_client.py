"""A client of Spark Connect, knowing nothing of this package: `connect_client.py URL NAMESPACE DIRECTORY [SECONDS]`.

Prints one line of JSON: what it saw of streaming queries over the tables `events`, `customers` and `doomed`. With
SECONDS it only copies `events` into `copy` and `other`, at least for this long: what a user may who has few rights.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

PATIENCE = 120


def copy(url: str, namespace: str, directory: str, seconds: str) -> None:
    """Copy `events` by a stream, by foreachBatch and by one INSERT, each with a pause in its tasks."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    pause = f"reflect('java.lang.Thread', 'sleep', {int(float(seconds) * 1000)}L) = 'null'"
    events = spark.readStream.option("maxRowsPerTrigger", 2).table(f"{namespace}.events").where(pause)

    def append(batch: DataFrame, number: int) -> None:
        batch.writeTo(f"{namespace}.other").append()

    def run(name: str, write: Callable[[DataStreamWriter], Any]) -> str | None:
        writer = events.writeStream.option("checkpointLocation", f"{directory}/{name}")
        try:
            query = write(writer.trigger(availableNow=True))
            assert query.awaitTermination(PATIENCE + 4 * float(seconds))
        except PySparkException as error:
            return str(error)
        return None

    seen = {
        "read": run("noop", lambda writer: writer.format("noop").start()),
        "table": run("copy", lambda writer: writer.toTable(f"{namespace}.copy")),
        "foreachBatch": run("other", lambda writer: writer.foreachBatch(append).start()),  # type: ignore[arg-type]
    }
    try:
        spark.sql(f"INSERT INTO {namespace}.copy SELECT * FROM {namespace}.events WHERE {pause}").collect()
        seen["INSERT"] = None
    except PySparkException as error:
        seen["INSERT"] = str(error)
    print(json.dumps(seen))
    spark.stop()


def main(url: str, namespace: str, directory: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    scope = namespace.rpartition(".")[2]
    seen: dict[str, Any] = {}

    def writing(rows: Any, name: str) -> DataStreamWriter:
        return rows.writeStream.queryName(name).option("checkpointLocation", f"{directory}/{name}")

    def taken(rows: Any, name: str) -> list[list[Any]]:
        writing(rows, name).format("memory").trigger(availableNow=True).start().awaitTermination(PATIENCE)
        return sorted(list(row) for row in spark.table(name).collect())

    def refused(act: Callable[[], object]) -> str:
        try:
            act()
        except PySparkException as error:
            return str(error)
        return "nothing was raised"

    def every(name: str) -> Any:
        return spark.readStream.table(f"{namespace}.{name}")

    # A query that runs: progress, listing, stop, and on from its checkpoint.
    limited = spark.readStream.option("maxRowsPerTrigger", 2).table(f"{namespace}.events")
    query = writing(limited, "copying").toTable(f"{namespace}.copy")
    deadline = time.monotonic() + PATIENCE
    while query.lastProgress is None or query.lastProgress["sources"][0]["metrics"].get("bytesBehind") != "0":
        assert time.monotonic() < deadline and query.exception() is None
        time.sleep(0.2)
    seen["batches"] = [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    seen["active"] = [query.name for query in spark.streams.active]
    query.stop()
    seen["running after stop"] = query.isActive
    spark.sql(f"INSERT INTO {namespace}.events VALUES (4, 'd')")
    writing(limited, "copying").trigger(availableNow=True).toTable(f"{namespace}.copy").awaitTermination(PATIENCE)
    seen["copy"] = sorted(list(row) for row in spark.table(f"{namespace}.copy").collect())

    # The other ways to read and write.
    seen["SQL"] = taken(spark.sql(f"SELECT id FROM STREAM {namespace}.events WHERE id > 2"), "by_sql")
    changes = spark.readStream.changes(f"{namespace}.customers").select("id", "name", "_change_type")
    seen["changes"] = taken(changes, "by_changes")
    by_options = spark.readStream.format("pravega").options(scope=scope, stream="events").load().select("id", "name")
    sink = writing(by_options, "by_options").format("pravega").options(scope=scope, stream="other")
    sink.trigger(availableNow=True).start().awaitTermination(PATIENCE)
    seen["options"] = spark.table(f"{namespace}.other").count()

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            batch.writeTo(f"{namespace}.other").option("txnAppId", "each").option("txnVersion", number).append()

    each = writing(every("events"), "each").foreachBatch(write).trigger(availableNow=True)  # type: ignore[arg-type]
    each.start().awaitTermination(PATIENCE)
    seen["foreachBatch"] = spark.table(f"{namespace}.other").count()

    # What goes wrong.
    noop = {name: writing(every(name), f"noop_{name}").format("noop") for name in ("customers", "doomed")}
    unknown = spark.readStream.option("ignoreDeletes", True).table(f"{namespace}.events")
    seen["errors"] = {
        "table of changes": refused(lambda: noop["customers"].start()),
        "option": refused(lambda: writing(unknown, "unknown").format("noop").start().awaitTermination(PATIENCE)),
        "collect": refused(lambda: every("events").collect()),
    }
    doomed = noop["doomed"].start()
    doomed.processAllAvailable()
    spark.sql(f"DROP TABLE {namespace}.doomed")
    seen["errors"]["dropped"] = refused(lambda: doomed.awaitTermination(PATIENCE))
    seen["exception"] = str(doomed.exception())
    print(json.dumps(seen))
    spark.stop()


if __name__ == "__main__":
    (main if len(sys.argv) == 4 else copy)(*sys.argv[1:])
