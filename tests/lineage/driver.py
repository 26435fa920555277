"""A program with OpenLineage's agent, which writes its events to a file.

    python -m tests.lineage.driver JAR FILE DIRECTORY SCOPE

The servers are those of the environment.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega import configure


def main(jar: str, events: Path, directory: Path, scope: str) -> None:
    """Write a table by an INSERT, by a stream, and by options, all from the same one."""
    confs: dict[str, bool | float | int | str | None] = {
        "spark.jars": jar,
        "spark.ui.enabled": "false",
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "file",
        "spark.openlineage.transport.location": str(events),
        "spark.openlineage.namespace": "tests",
    }
    builder = SparkSession.builder.master("local[2]").config(map=confs)
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    namespace = f"pravega.`{scope}`"
    written = ("inserted", "optional", "combined", "streamed", "optioned", "batched")
    for name in ("readings", "others", *written):
        spark.sql(f"CREATE TABLE {namespace}.{name} (id INT, note STRING) TBLPROPERTIES ('format'='avro')")
    spark.sql(f"INSERT INTO {namespace}.readings VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {namespace}.others VALUES (3, 'c'), (4, 'd')")
    spark.sql(f"INSERT INTO {namespace}.inserted SELECT id + 1, upper(note) FROM {namespace}.readings WHERE id > 0")
    stream = spark.readStream.table(f"{namespace}.readings").selectExpr("id", "concat(note, '!') AS note")
    writer = stream.writeStream.option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).toTable(f"{namespace}.streamed").awaitTermination()
    options = {"scope": scope, "checkpointLocation": str(directory / "by-options")}
    source = spark.readStream.format("pravega").options(scope=scope, stream="readings").load().select("id", "note")
    writer = source.writeStream.format("pravega").options(**options, stream="optioned").trigger(availableNow=True)
    writer.start().awaitTermination()

    def append(batch: DataFrame, number: int) -> None:
        batch.writeTo(f"{namespace}.batched").append()

    writer = stream.writeStream.option("checkpointLocation", str(directory / "by-batches")).foreachBatch(append)
    writer.trigger(availableNow=True).start().awaitTermination()
    both = f"SELECT id, note FROM {namespace}.others UNION ALL SELECT id, 'b' FROM {namespace}.readings"
    spark.sql(f"INSERT INTO {namespace}.combined {both}")
    by_options = spark.read.format("pravega").options(scope=scope, stream="readings").load().select("id", "note")
    by_options.write.format("pravega").options(scope=scope, stream="optional").mode("append").save()
    keyed = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    spark.sql(f"CREATE TABLE {namespace}.changed (id INT, note STRING) USING pravega {keyed}")
    spark.sql(f"INSERT INTO {namespace}.changed VALUES (1, 'x')")
    spark.sql(f"UPDATE {namespace}.changed SET note = 'y' WHERE id IN (SELECT id FROM {namespace}.readings)")
    shown = spark.sql(f"SHOW TBLPROPERTIES {namespace}.readings").collect()
    created = spark.sql(f"SHOW CREATE TABLE {namespace}.readings").first()[0]
    counts = {name: spark.table(f"{namespace}.{name}").count() for name in written}
    spark.stop()
    print(json.dumps({"properties": [key for key, _ in shown], "created": created, "counts": counts}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
