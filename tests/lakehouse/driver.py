"""A program with three catalogs in one session: Spark's own, Pravega's, and `lake`, of Iceberg or Delta.

    python -m tests.lakehouse.driver iceberg|delta JARS DIRECTORY SCOPE

It prints what it found as a line of JSON. The servers are those of the environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.tables.test_changes import change
from tests.catalog.tables.test_debezium import write

CONFS = {
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
}
CUSTOMERS = (
    (change("c", 10, None, {"id": 1, "name": "Ann"}), change("c", 20, None, {"id": 2, "name": "Bob"})),
    (
        change("u", 30, {"id": 1, "name": "Ann"}, {"id": 1, "name": "Anne"}),
        change("d", 40, {"id": 2, "name": "Bob"}, None),
        change("c", 50, None, {"id": 3, "name": "Cy"}),
        change("c", 60, None, {"id": 4, "name": "Dan"}),
        change("d", 70, {"id": 4, "name": "Dan"}, None),
    ),
    (change("u", 80, {"id": 3, "name": "Cy"}, {"id": 3, "name": None}),),
)
"""Changes as Debezium writes them, for each run of the query that merges them."""
LAKE = {"iceberg": "lake.shop", "delta": "spark_catalog.shop"}
FOREIGN = {
    "iceberg": (
        "ALTER TABLE {} CREATE TAG x",
        "ALTER TABLE {} WRITE ORDERED BY id",
        "ALTER TABLE {} ADD PARTITION FIELD id",
    ),
    "delta": ("OPTIMIZE {}", "DESCRIBE HISTORY {}", "VACUUM {}"),
}
"""Statements that the format's extension parses, for tables of its own."""


def main(lakehouse: str, jars: str, directory: Path, scope: str) -> dict[str, Any]:
    """Run everything that a user of both would, and return the rows of each step."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse"))
    builder = builder.config("spark.sql.catalog.lake.warehouse", str(directory / "lake"))
    for key, text in CONFS[lakehouse].items():
        builder = builder.config(key, text)
    spark = configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lake, events = LAKE[lakehouse], f"pravega.`{scope}`.events"

    def rows(query: str | DataFrame) -> list[list[Any]]:
        return [list(row) for row in (spark.sql(query) if isinstance(query, str) else query).collect()]

    found: dict[str, Any] = {"spark": spark.version}
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake}")
    spark.sql(f"CREATE TABLE {events} (id INT, v STRING) TBLPROPERTIES ('format'='avro')")
    spark.sql(f"INSERT INTO {events} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"CREATE TABLE {lake}.copy (id INT, v STRING) USING {lakehouse}")
    spark.sql(f"INSERT INTO {lake}.copy SELECT * FROM {events}")
    spark.sql(f"INSERT INTO {events} SELECT id + 10, v FROM {lake}.copy")
    found["both ways"] = rows(f"SELECT * FROM {events} ORDER BY id")
    spark.sql(f"CALL pravega.system.create_tag(table => '{scope}.events', tag => 'first', version => '1')")
    spark.sql(f"ALTER TABLE {events} ADD COLUMN more INT")
    spark.sql(f"INSERT INTO {events} VALUES (3, 'c', 30)")
    found["tag"] = rows(f"SELECT id FROM {events} VERSION AS OF 'first' ORDER BY id")
    found["added column"] = rows(f"SELECT id, more FROM {events} WHERE id <= 3 ORDER BY id")
    found["joined"] = rows(f"SELECT e.id FROM {events} e JOIN {lake}.copy c USING (id) ORDER BY 1")

    spark.sql(f"CREATE TABLE {lake}.streamed (id INT, v STRING, more INT) USING {lakehouse}")
    for number in (4, 5):
        stream(spark.readStream.table(events), f"{lake}.streamed", directory / "to-lake", lakehouse)
        stream(spark.readStream.table(events), f"pravega.`{scope}`.streamed", directory / "to-pravega", "pravega")
        spark.sql(f"INSERT INTO {events} VALUES ({number}, 'd', 0)")
    found["streamed into the lake"] = rows(f"SELECT id FROM {lake}.streamed ORDER BY id")
    found["streamed into pravega"] = rows(f"SELECT id FROM pravega.`{scope}`.streamed ORDER BY id")

    customers = f"pravega.`{scope}`.customers"
    spark.sql(
        f"CREATE TABLE {customers} (id INT, name STRING) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    )
    spark.sql(f"CREATE TABLE {lake}.customers (id INT, name STRING) USING {lakehouse}")
    for events_of_batch in CUSTOMERS:
        with connect(ClientConfig(os.environ["PRAVEGA_CONTROLLER_URI"])) as pravega:
            write(pravega, Stream(scope, "customers"), events_of_batch)
        merge_changes(spark, scope, f"{lake}.customers", directory / "merged")
    # Iceberg's catalog keeps a table for 30 seconds, and a query has catalogs of its own.
    spark.sql(f"REFRESH TABLE {lake}.customers")
    found["merged"] = rows(f"SELECT * FROM {lake}.customers ORDER BY id")
    found["refused"] = {statement: refused(spark, statement.format(events)) for statement in FOREIGN[lakehouse]}
    if lakehouse == "delta":  # Spark has it from 4.2 on
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {events} BY NAME SELECT 9 AS id, 'bolt' AS kind")
        found["evolved"] = rows(f"SELECT id, kind FROM {events} WHERE id = 9")
    return found


def refused(spark: SparkSession, statement: str) -> str:
    """Return the error of a statement."""
    try:
        spark.sql(statement)
    except Exception as error:
        return str(error)
    return "it ran"


def stream(rows: DataFrame, table: str, checkpoint: Path, lakehouse: str) -> None:
    """Write all that is new into a table."""
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if lakehouse != "pravega":
        writer = writer.format(lakehouse)
    writer.toTable(table).awaitTermination()


def merge_changes(spark: SparkSession, scope: str, target: str, checkpoint: Path) -> None:
    """Merge the changes of a table of Debezium's events into a table of the lake, each micro-batch once."""

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("changes_of_batch")
        batch.sparkSession.sql(
            f"""MERGE INTO {target} t
            USING (
              SELECT id, max_by(struct(name, _change_type), struct(_commit_version, _change_type <> 'delete')) AS last
              FROM changes_of_batch WHERE _change_type <> 'update_preimage' GROUP BY id
            ) s ON t.id = s.id
            WHEN MATCHED AND s.last._change_type = 'delete' THEN DELETE
            WHEN MATCHED THEN UPDATE SET name = s.last.name
            WHEN NOT MATCHED AND s.last._change_type <> 'delete' THEN INSERT (id, name) VALUES (s.id, s.last.name)"""
        )

    changes = spark.readStream.format("pravega").options(scope=scope, stream="customers", changes="true").load()

    def merge_twice(batch: DataFrame, number: int) -> None:
        """As when a micro-batch is repeated."""
        for _ in range(2):
            merge(batch, number)

    writer = changes.writeStream.foreachBatch(merge_twice).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])))
