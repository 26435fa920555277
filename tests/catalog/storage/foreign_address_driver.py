"""A driver with a login in its environment, whose statements name servers of somebody else.

Prints the names of its attempts, and for each a line with the error that it ended with.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable

from pyspark.sql import SparkSession

from pyspark_pravega import configure

Options = dict[str, str]


def main(scope: str, controller: str, registry: str, jar: str) -> None:
    """Try all ways with each address alone, and with both."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    if jar == "with":
        builder = configure(builder)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    general = {"scope": scope, "stream": "s", "retry-timeout": "1s", "request-timeout": "2s", "format": "avro"}

    def view(options: Options) -> object:
        given = ", ".join(f"'{key}'='{text}'" for key, text in options.items())
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING pravega OPTIONS ({given})")
        return spark.table("v").collect()

    def write_stream(options: Options) -> object:
        rate = spark.readStream.format("rate").load().selectExpr("value AS id")
        written = rate.writeStream.format("pravega").options(**options).trigger(once=True)
        query = written.option("checkpointLocation", tempfile.mkdtemp(dir=".")).start()
        return query.awaitTermination()

    ways: dict[str, Callable[[Options], object]] = {
        "view": view,
        "read": lambda options: spark.read.format("pravega").options(**options).load().collect(),
        "write": lambda options: spark.range(3).write.format("pravega").options(**options).mode("append").save(),
    }
    if jar == "with":
        ways["readStream"] = lambda options: spark.readStream.format("pravega").options(**options).load()
        ways["writeStream"] = write_stream
        ways["changes"] = lambda options: (
            spark.read.format("pravega").options(**options).option("changes", "true").load().collect()
        )
    addresses = {
        "-controller": {"controller-uri": controller},
        "-registry": {"schemaRegistryUri": registry},
        "-controller-both": {"controller-uri": controller, "schema-registry-uri": registry},
    }
    print(",".join(way + which for way in ways for which in addresses))
    for way, run in ways.items():
        for which, address in addresses.items():
            try:
                run({**general, **address})
                print(f"{way}{which}: no error")
            except Exception as error:
                print(f"{way}{which}: {' '.join(str(error).split())}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
