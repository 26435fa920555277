"""A driver without the adapter's jar: the Python source writes and reads a table, and refuses streams."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def use_source(spark: SparkSession, name: str, options: dict[str, str], directory: str) -> dict[str, object]:
    """Write four rows and read them; return them, with the messages of what is refused."""
    rows = spark.range(0, 4, 1, 2).selectExpr("CAST(id AS INT) AS id", "id / 2 AS temp")
    rows.write.format(name).mode("append").options(**options).save()
    reader = spark.read.format(name).options(**options)
    found: dict[str, object] = {"rows": sorted(list(row) for row in reader.load().select("id", "temp").collect())}
    stream = spark.readStream.format(name).options(**options).load()
    out = stream.writeStream.format("noop").option("checkpointLocation", f"{directory}/out")
    rate = spark.readStream.format("rate").load()
    into = rate.writeStream.format(name).options(**options).option("checkpointLocation", f"{directory}/into")
    refused: dict[str, Callable[[], object]] = {
        "readStream": lambda: out.start().awaitTermination(),
        "writeStream": lambda: into.start().awaitTermination(),
        "catalog": lambda: reader.option("catalog", "pravega").load(),
    }
    for what, use in refused.items():
        try:
            use()
        except PySparkException as error:
            found[what] = str(error)
    return found


def main(options_json: str, directory: str) -> None:
    """Use the source in a session of its own, and print the result as JSON."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    print(json.dumps(use_source(spark, "pravega", json.loads(options_json), directory)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
