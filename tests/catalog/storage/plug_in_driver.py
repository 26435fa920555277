"""A driver whose catalog logs in by a plug-in: makes a table, inserts in several tasks, and prints what it reads."""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from pyspark_pravega import configure


def main(plug_in: str, namespace: str, controller: str, registry: str, trust_store: str) -> None:
    """Insert 40 rows in two tasks, of which one is slow, and print them sorted as JSON."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.codegen.wholeStage", "false")
    for name in ("pravega", "other"):  # two catalogs with one login share a connection
        builder = configure(
            builder,
            catalog=name,
            controller_uri=controller,
            schema_registry_uri=registry,
            security_trust_store=trust_store,
            security_credentials=plug_in,
            transaction_lease="10s",
        )
    spark = builder.getOrCreate()
    table = f"`{namespace}`.t"
    spark.sql(f"CREATE TABLE pravega.{table} (id BIGINT) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")

    @udf(returnType=LongType(), useArrow=False)
    def slow(value: int) -> int:
        if value == 0:
            time.sleep(4)  # its task says that the transaction is alive, every third of the lease
        return value

    spark.range(0, 40, 1, 2).select(slow("id").alias("id")).writeTo(f"pravega.{table}").append()
    print(json.dumps(sorted(row.id for row in spark.sql(f"SELECT id FROM other.{table}").collect())))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
