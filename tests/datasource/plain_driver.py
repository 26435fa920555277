"""A driver without the adapter's jar: the Python source writes and reads a table, and refuses streams."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(options_json: str, directory: str) -> None:
    """Write four rows and read them; print them as JSON, with the messages of what is refused."""
    options = json.loads(options_json)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    rows = spark.range(0, 4, 1, 2).selectExpr("CAST(id AS INT) AS id", "id / 2 AS temp")
    rows.write.format("pravega").mode("append").options(**options).save()
    reader = spark.read.format("pravega").options(**options)
    found: dict[str, object] = {"rows": sorted(list(row) for row in reader.load().select("id", "temp").collect())}
    stream = spark.readStream.format("pravega").options(**options).load()
    out = stream.writeStream.format("noop").option("checkpointLocation", f"{directory}/out")
    rate = spark.readStream.format("rate").load()
    into = rate.writeStream.format("pravega").options(**options).option("checkpointLocation", f"{directory}/into")
    refused: dict[str, Callable[[], object]] = {
        "readStream": lambda: out.start().awaitTermination(),
        "writeStream": lambda: into.start().awaitTermination(),
        "catalog": lambda: reader.option("catalog", "pravega").load(),
    }
    for name, use in refused.items():
        try:
            use()
        except PySparkException as error:
            found[name] = str(error)
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
