"""A driver that says all it can, with a password that stands literally in a conf of its catalog."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.spark.home import CATALOG_CLASS

PREFIX = "spark.sql.catalog.literal"
# PySpark lets warnings only through to the console, so the log goes to a file.
LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.all.ref = all
appender.all.type = File
appender.all.name = all
appender.all.fileName = {log}
appender.all.layout.type = PatternLayout
appender.all.layout.pattern = %p %c{{1}}: %m%n%ex
"""


def main(namespace: str, controller: str, registry: str, trust_store: str) -> None:
    """Run statements that describe, read, write and fail; print their rows and errors.

    In the working directory: the log of driver, scheduler and tasks in `spark.log`, Spark's events in `events/`.
    """
    Path("events").mkdir()
    settings = Path("log4j2.properties")
    settings.write_text(LOGGING.format(log=Path("spark.log").absolute()))
    builder = SparkSession.builder.master("local[2,2]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={settings.absolute()}",
        "spark.logConf": "true",
        "spark.sql.shuffle.partitions": "2",
        # What Spark's web interface shows comes from these events.
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": Path("events").absolute().as_uri(),
        PREFIX: CATALOG_CLASS,
        f"{PREFIX}.controller-uri": controller,
        f"{PREFIX}.schema-registry-uri": registry,
        f"{PREFIX}.security.trust-store": trust_store,
        f"{PREFIX}.security.username": "admin",
        f"{PREFIX}.security.password": os.environ.pop("TEST_PASSWORD"),
    }.items():
        builder = builder.config(key, value)
    spark = configure(builder).getOrCreate()
    table = f"literal.`{namespace}`.t"
    for statement in (
        f"CREATE TABLE {table} (a INT NOT NULL, b STRING) USING pravega TBLPROPERTIES ('routing-key'='a')",
        f"INSERT INTO {table} VALUES (1, 'one'), (2, 'two')",
        f"INSERT INTO {table} SELECT CAST(id AS INT), CAST(id AS STRING) FROM range(0, 50, 1, 3)",
        f"SELECT count(*), max(a) FROM {table}",
        f"SELECT b, _segment, _offset, _event_pointer FROM {table} WHERE a = 1",
        f"EXPLAIN EXTENDED SELECT * FROM {table} WHERE a > 1",
        f"EXPLAIN FORMATTED SELECT * FROM {table} LIMIT 1",
        f"EXPLAIN CODEGEN SELECT a + 1 FROM {table}",
        f"EXPLAIN EXTENDED INSERT INTO {table} VALUES (3, 'three')",
        f"SHOW CREATE TABLE {table}",
        f"DESCRIBE TABLE EXTENDED {table}",
        f"SHOW TBLPROPERTIES {table}",
        f"INSERT INTO {table} SELECT CAST(raise_error('on purpose') AS INT), 'x'",
        f"INSERT INTO {table} SELECT 1, repeat('x', 9000000)",
        f"SELECT nothing FROM {table}",
        f"SELECT * FROM {table} WITH (`start-stream-cut` = 'wrong')",
        f"DELETE FROM {table} WHERE a = 1",
        f"CREATE TABLE literal.`{namespace}`.u (a INT) USING pravega TBLPROPERTIES ('security.password'='{namespace}')",
        f"SELECT * FROM literal.`{namespace}`.missing",
        f"REFRESH TABLE {table}",
        "SELECT FROM",
        "SET",
    ):
        print(f"--- {statement[:300]}")
        try:
            for row in spark.sql(statement).collect():
                print(*row, sep="\n")
        except PySparkException as error:
            print(f"failed: {error}")
    frame = spark.table(table)
    print(frame._jdf.queryExecution().toString(), frame._jdf.queryExecution().executedPlan().toJSON())
    print(frame.rdd.toDebugString())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
