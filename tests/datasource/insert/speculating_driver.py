"""A driver on a cluster that runs slow tasks twice: writes 4000 rows, one task's first attempt hanging."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit, repeat, udf
from pyspark.sql.types import LongType

from pyspark_pravega import configure


def main(master: str, table: str, controller: str, registry: str, log: str, padding: str) -> None:
    """Insert with speculation; a file in the directory `log` tells of each attempt that wrote the last row.

    Each row has a text of `padding` characters. Without a number, UPDATE adds 1 to all values of the table.
    """
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m")
    for key, value in {"": "true", ".interval": "100ms", ".multiplier": "1.1", ".quantile": "0.5"}.items():
        builder = builder.config(f"spark.speculation{key}", value)
    spark = configure(builder, controller_uri=controller, schema_registry_uri=registry).getOrCreate()

    @udf(returnType=LongType(), useArrow=False)
    def hang_at_first(value: int) -> int:
        if value == 3999:
            context = TaskContext.get()
            assert context is not None
            Path(log, f"attempt-{context.attemptNumber()}").touch()
            # The first attempt goes on when the second has come as far: both append and report.
            while not Path(log, "attempt-1").exists():
                time.sleep(0.05)
        return value

    if not padding:
        spark.udf.register("hang_at_first", hang_at_first)
        spark.sql(f"UPDATE {table} SET v = hang_at_first(v) + 1")
        spark.stop()
        return
    rows = spark.range(0, 4000, 1, 4).selectExpr("CAST(id % 10 AS INT) AS k", "id AS v")
    rows = rows.withColumn("v", hang_at_first("v")).withColumn("padding", repeat(lit("x"), int(padding)))
    rows.writeTo(table).option("spool.memory", "1m").append()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
