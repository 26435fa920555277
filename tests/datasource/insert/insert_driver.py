"""A driver to be killed: inserts 100 rows and makes the file `ready` when the moment to kill it has come."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from pyspark_pravega import configure


def main(moment: str, table: str, controller: str, registry: str) -> None:
    """Insert, and wait to be killed in the task (`before` the commit) or when the statement has returned (`after`)."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = configure(builder, controller_uri=controller, schema_registry_uri=registry).getOrCreate()
    ready = str(Path("ready").absolute())

    @udf(returnType=LongType(), useArrow=False)
    def tell(value: int) -> int:
        if moment == "before" and value == 99:
            Path(ready).touch()
            time.sleep(600)
        return value

    rows = spark.range(0, 100, 1, 2).selectExpr("CAST(id % 3 AS INT) AS k", "id AS v")
    rows.withColumn("v", tell("v")).writeTo(table).append()
    Path(ready).touch()
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
