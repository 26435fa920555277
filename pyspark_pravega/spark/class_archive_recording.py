"""Records the archive of Spark's classes: a session does what many do, and Java keeps what it loaded.

    python -m pyspark_pravega.spark.class_archive_recording [SECONDS]

waits so long first. The session runs SQL with joins and aggregates, files, Python workers, Python data sources, and a
streaming query. It needs no Pravega.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from pyspark_pravega import configure
from pyspark_pravega.errors import PravegaError, SetupError, describe_os_error
from pyspark_pravega.local.server_class_archive import ClassArchive, list_recording_options
from pyspark_pravega.spark.arguments import JAVA_OPTIONS_CONF
from pyspark_pravega.spark.class_archive import check_class_path, check_path, find_archive, find_attempt
from pyspark_pravega.spark.home import find_spark_home

_TIMEOUT_S = 600
# Variables that would send the session elsewhere, or let it write to the user's file system and metastore.
_WITHOUT = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE",
    "PYSPARK_GATEWAY_PORT",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "HIVE_CONF_DIR",
)
_OF_PRAVEGA = "pravega_"
"""What the environment's variables for servers and logins begin with. The session asks no server."""
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
_CLASSES = ("org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver", "jline.console.ConsoleReader")


class _Numbers(DataSource):
    """Numbers with names, in Arrow batches from Python workers, as Pravega tables come."""

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _NumbersReader()


class _NumbersReader(DataSourceReader):
    def read(self, partition: Any) -> Iterator[Any]:
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
    counts = spark.readStream.schema(_SCHEMA).json(f"{folder}/json").groupBy("name").count()
    query = counts.writeStream.foreachBatch(_take).outputMode("complete")
    query.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    try:
        spark.sql("SELECT nothing FROM t")
    except AnalysisException as error:
        str(error)


def _take(batch: DataFrame, _: int) -> None:
    batch.collect()


def _run_session(folder: str, recording: Path) -> None:
    """Run the session whose classes Java writes to `recording` when its driver ends."""
    confs: dict[str, str | int | float | bool | None] = {
        JAVA_OPTIONS_CONF: " ".join(list_recording_options(recording, "error")),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    # Nothing listens there, and no statement connects: this is for the confs.
    builder = SparkSession.builder.master("local[2]").config(map=confs).enableHiveSupport()
    spark = configure(builder, controller_uri="tcp://localhost:1").getOrCreate()
    driver = SparkContext._gateway.proc  # type: ignore[union-attr]
    _use(spark, folder)
    spark.stop()
    driver.stdin.close()
    if (code := driver.wait()) or not recording.exists():
        raise SetupError(
            f"Spark's driver ended with {code}, and Java wrote {'an' if recording.exists() else 'no'} archive."
        )


def record() -> ClassArchive:
    """Record the archive for the Spark and Java of this environment, in about a minute, and return it.

    An existing archive is replaced; programs that start from it meanwhile are not disturbed. Raises SetupError if there
    is no Java, Spark has a directory of confs with files, or there is nothing to keep.
    """
    spark_home = find_spark_home(os.environ)
    archive = find_archive(spark_home, os.environ)
    check_class_path(spark_home, os.environ)
    for name in [*os.environ]:
        if name in _WITHOUT or name.lower().startswith(_OF_PRAVEGA):
            del os.environ[name]
    try:
        archive.file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pyspark-pravega-classes-") as folder:
            check_path(Path(folder), "TMPDIR")
            os.chdir(folder)  # Hive writes its metastore there
            os.environ |= {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": folder}
            recording = Path(folder, "spark.jsa")
            _run_session(folder, recording)
            archive.keep(recording)
    except OSError as error:
        raise SetupError(f"The archive {archive.file} cannot be written: {describe_os_error(error)}") from error
    return archive


def main() -> None:
    """Record the archive: at once, or after some seconds at the lowest priority."""
    if sys.argv[1:]:
        os.nice(19)
        time.sleep(float(sys.argv[1]))
    signal.alarm(_TIMEOUT_S)
    try:
        archive = record()
    except (PravegaError, PySparkException) as error:
        sys.exit(f"Spark's classes were not archived. {error}")
    find_attempt(archive).unlink(missing_ok=True)
    print(f"Wrote {archive.file} ({archive.file.stat().st_size // 1_000_000} MB).")


if __name__ == "__main__":
    main()
