"""A driver on a cluster: makes a table, inserts and reads it in tasks of all executors, and prints what it reads."""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

from pyspark_pravega import configure


def main(master: str, table: str, controller: str, registry: str, plug_in: str, log: str) -> None:
    """Log in by a plug-in that only `--py-files` brings: `plug_in` has the module `vault_login`."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--py-files {plug_in} pyspark-shell"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "512m")
    builder = builder.config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
    builder = builder.config("spark.executorEnv.ASKED", log)
    builder = builder.config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = configure(
        builder, controller_uri=controller, schema_registry_uri=registry, security_credentials="vault_login:Login"
    )
    spark = builder.getOrCreate()
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING pravega TBLPROPERTIES ('scaling.min-segments'='8')")
    spark.range(0, 800, 1, 8).writeTo(table).append()
    print(json.dumps(sorted(row.id for row in spark.sql(f"SELECT id FROM {table}").collect())))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
