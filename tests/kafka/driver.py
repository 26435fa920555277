"""A program that copies a topic of Avro records into a table and the table into another topic, as streams.

    python -m tests.kafka.driver JARS DIRECTORY SCOPE BROKER

It prints what it found as a line of JSON. Pravega's servers are those of the environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import struct

from pyspark_pravega import configure

SCHEMA = """{"type": "record", "name": "Reading", "fields":
    [{"name": "id", "type": "int"}, {"name": "temp", "type": ["null", "double"], "default": null}]}"""


def main(jars: str, directory: Path, scope: str, broker: str) -> dict[str, Any]:
    """Copy twice what is there, with new records in between, and return the rows of both ends."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    kafka, table = {"kafka.bootstrap.servers": broker}, f"pravega.`{scope}`.readings"
    spark.sql(
        f"CREATE TABLE {table} (id INT NOT NULL, temp DOUBLE) TBLPROPERTIES ('format'='avro', 'routing-key'='id')"
    )

    def produce(*rows: tuple[int, float | None]) -> None:
        frame = spark.createDataFrame(list(rows), "id INT NOT NULL, temp DOUBLE")
        record = to_avro(struct("id", "temp"), SCHEMA).alias("value")
        frame.select(record).write.format("kafka").options(**kafka, topic="in").save()

    def run(rows: DataFrame, checkpoint: str, topic: str | None = None) -> None:
        writer = rows.writeStream.trigger(availableNow=True).option("checkpointLocation", str(directory / checkpoint))
        query = writer.toTable(table) if topic is None else writer.format("kafka").options(**kafka, topic=topic).start()
        query.awaitTermination()

    for rows in (((1, 20.5), (2, None)), ((3, -1.0),)):
        produce(*rows)
        consumed = spark.readStream.format("kafka").options(**kafka, subscribe="in", startingOffsets="earliest").load()
        run(consumed.select(from_avro("value", SCHEMA).alias("r")).select("r.*"), "to-pravega")
        run(spark.readStream.table(table).selectExpr("to_json(struct(id, temp)) AS value"), "to-kafka", topic="out")
    out = spark.read.format("kafka").options(**kafka, subscribe="out").load().selectExpr("CAST(value AS STRING)")
    return {
        "spark": spark.version,
        "table": [list(row) for row in spark.table(table).orderBy("id").collect()],
        "topic": sorted(row.value for row in out.collect()),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
