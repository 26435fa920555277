"""The session whose classes are archived: a separate program, so that its driver ends with all it has loaded.

    python -m pyspark_pravega.spark.class_archive_training KEY=VALUE

KEY=VALUE is a Spark conf. The session does what many sessions do: SQL with joins and aggregates, files, Python
workers, Python data sources, a streaming query. It needs no Pravega.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from pyspark_pravega import configure

_END_S = 300.0
_SCHEMA = "id BIGINT, name STRING"
_STATEMENTS = (
    "SELECT name, count(*), max(id), avg(id), sum(CAST(id AS DOUBLE)) FROM t GROUP BY name ORDER BY name",
    "SELECT count(DISTINCT name), count(*) FROM t WHERE id > 3 AND name LIKE 'n%'",
    "SELECT a.id, b.name FROM t AS a JOIN t AS b ON a.id = b.id ORDER BY a.id LIMIT 5",
    "SELECT /*+ MERGE(b) */ a.id, b.name FROM t AS a LEFT JOIN t AS b ON a.name = b.name ORDER BY a.id LIMIT 5",
    "SELECT id, row_number() OVER (PARTITION BY name ORDER BY id) AS place FROM t",
    "WITH x AS (SELECT from_json(to_json(named_struct('a', id)), 'a INT') AS j FROM t) SELECT j.a + 1 FROM x",
    "SELECT name, CASE WHEN id IN (1, 2) THEN 1 END, CAST(id AS DECIMAL(20, 2)), timestamp_millis(id) FROM t",
    "SELECT * FROM VALUES (1, array(1), map('a', 1)) AS v(a, b, c) UNION ALL SELECT 2, array(2), map('b', 2)",
    "EXPLAIN SELECT count(*) FROM t",
    "SHOW NAMESPACES",
    "SHOW TABLES",
    "DESCRIBE TABLE t",
    "SHOW CATALOGS",
    "SET spark.sql.ansi.enabled",
    # Of Hive's metastore, which the SQL shell starts.
    "CREATE TABLE kept (id BIGINT) USING parquet",
    "INSERT INTO kept VALUES (1)",
    "SELECT * FROM kept",
)
_CLASSES = (
    "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver",
    "jline.console.ConsoleReader",
)


class _Numbers(DataSource):
    """Numbers with names, in Arrow batches from Python workers, as Pravega tables come."""

    def schema(self) -> str:
        """Name the columns."""
        return _SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of the numbers."""
        return _NumbersReader()


class _NumbersReader(DataSourceReader):
    def read(self, partition: Any) -> Iterator[Any]:
        """Yield one batch."""
        yield pa.RecordBatch.from_pydict({"id": list(range(20)), "name": [f"n{i % 3}" for i in range(20)]})


def _use(spark: SparkSession, folder: str) -> None:
    for name in _CLASSES:
        SparkContext._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
    spark.dataSource.register(_Numbers)
    numbers = spark.read.format("_Numbers").load()
    numbers.createOrReplaceTempView("t")
    for statement in _STATEMENTS:
        spark.sql(statement).collect()
    numbers.show()
    numbers.cache().count()
    numbers.unpersist()
    for kind in ("parquet", "json"):
        numbers.repartition(2, "name").write.format(kind).save(f"{folder}/{kind}")
        spark.read.format(kind).schema(_SCHEMA).load(f"{folder}/{kind}").where("id = 1").collect()
    spark.createDataFrame([(1, "a")], _SCHEMA).rdd.map(tuple).collect()
    spark.createDataFrame([(1, "a")], _SCHEMA).toArrow()
    query = (
        _make_stream(spark, folder).writeStream.foreachBatch(_take).option("checkpointLocation", f"{folder}/checkpoint")
    )
    query.outputMode("complete").trigger(availableNow=True).start().awaitTermination()
    try:
        spark.sql("SELECT nothing FROM t")
    except AnalysisException as error:
        str(error)


def _make_stream(spark: SparkSession, folder: str) -> DataFrame:
    return spark.readStream.schema(_SCHEMA).json(f"{folder}/json").groupBy("name").count()


def _take(batch: DataFrame, _: int) -> None:
    batch.collect()


def main() -> None:
    """Start a session, use it, and wait until its driver has ended."""
    key, _, text = sys.argv[1].partition("=")
    builder = SparkSession.builder.master("local[2]").config(key, text).config("spark.ui.enabled", "false")
    confs: dict[str, str | int | float | bool | None] = {
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": f"{os.getcwd()}/warehouse",
    }
    # Nothing listens there, and no statement connects: this is for the confs.
    builder = configure(builder.config(map=confs).enableHiveSupport(), controller_uri="tcp://localhost:1")
    spark = builder.getOrCreate()
    driver = SparkContext._gateway.proc  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        _use(spark, folder)
        spark.stop()
    driver.stdin.close()
    if code := driver.wait(_END_S):
        sys.exit(f"Spark's driver ended with {code}")


if __name__ == "__main__":
    main()
