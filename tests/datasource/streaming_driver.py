"""A driver on a cluster: a stream of changes batch by batch, with a look at which executor keeps which segments."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega import configure

ROWS, BATCHES = 100, 6


def main(master: str, table: str, controller: str, registry: str, log: str) -> None:
    """Update all rows before each batch; in the middle one executor loses what it knows.

    Prints for each batch the number of changes, and the names of the states by executor.
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
        directories = sorted(Path(log).parent.glob("local/**/pyspark-pravega-row-states-*"))
        states = {str(each): sorted(path.name for path in each.iterdir()) for each in directories}
        print(json.dumps({"changes": sum(each.numInputRows for each in query.recentProgress), "states": states}))
        if number == BATCHES // 2:
            shutil.rmtree(directories[0])
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
