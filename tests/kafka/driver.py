"""The recipe of docs/recipes.md that copies a topic into a table and the table into another topic, as a program.

    python -m tests.kafka.driver JARS DIRECTORY SCOPE BROKER

It prints what it found as a line of JSON. Pravega's servers are those of the environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.functions import col, struct

from pyspark_pravega import configure
from tests.recipes import recipe, run_python, run_sql


def main(jars: str, directory: Path, scope: str, broker: str) -> dict[str, Any]:
    """Copy twice what is there, with new records in between, and return the rows of both ends in their order."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    table, *copies = recipe(
        "Kafka into Pravega, and back", namespace=f"`{scope}`", directory=directory, others={"broker:9092": broker}
    )
    run_sql(spark, table)
    names: dict[str, Any] = {"spark": spark}
    kafka = {"kafka.bootstrap.servers": broker}
    schema = """{"type": "record", "name": "Reading", "fields":
        [{"name": "id", "type": "int"}, {"name": "temp", "type": ["null", "double"], "default": null}]}"""
    for rows in (((1, 20.5), (2, None), (1, 21.5)), ((3, -1.0), (1, 22.5))):
        frame = spark.createDataFrame(list(rows), "id INT NOT NULL, temp DOUBLE").coalesce(1)
        record = to_avro(struct("id", "temp"), schema).alias("value")
        keyed = frame.select(col("id").cast("string").alias("key"), record)
        keyed.write.format("kafka").options(**kafka, topic="readings").save()
        for copy in copies:
            run_python(copy, names)
    options = {**kafka, "subscribe": "readings-of-pravega", "includeHeaders": "true"}
    out = spark.read.format("kafka").options(**options).load().orderBy("partition", "offset")
    records = out.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "CAST(headers[0].value AS STRING) p")
    stored = spark.table(f"pravega.`{scope}`.readings").orderBy("_segment", "_offset")
    return {
        "spark": spark.version,
        "partitions": out.select("partition").distinct().count(),
        "table": [list(row) for row in stored.select("id", "temp").collect()],
        "topic": [list(row)[:2] for row in records.collect()],
        "pointers": sorted(row.p for row in records.collect()),
        "stored": sorted(row[0] for row in stored.select("_event_pointer").collect()),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
