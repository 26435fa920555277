"""A driver to be harmed: a query from one table to another, begun again from its checkpoint whenever it fails.

    driver.py <directory> <name> <master> <source> <target>

It prepares a session, makes the file `<name>.ready`, waits for `<name>.go`, and streams until there is `<name>.stop`.
Then it brings the query up to date and ends. Each failure of the query is a line of `<name>.failures`; one ends the
driver where there is `<name>.once`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType

from pyspark_pravega import configure

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def session(master: str) -> SparkSession:
    """Start Spark; the environment names the cluster."""
    confs = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.sql.codegen.wholeStage": "false",
        # Executors are killed again and again, which the small cluster inside of the driver takes for a broken program.
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "4",
    }
    builder = SparkSession.builder.master(master)
    for key, value in confs.items():
        builder = builder.config(key, value)
    return configure(
        builder,
        controller_uri=os.environ["FAULT_CONTROLLER"],
        schema_registry_uri=os.environ["FAULT_REGISTRY"],
        retry_timeout=os.environ.get("FAULT_RETRY_TIMEOUT"),
    ).getOrCreate()


@udf(returnType=LongType(), useArrow=False)
def epoch(value: int) -> int:
    """Mark a row with the micro-batch that writes it."""
    return int(TaskContext.get().getLocalProperty("streaming.sql.batchId"))


def marked(events: DataFrame) -> DataFrame:
    """Transform a batch of the source into rows of the target."""
    return events.select("k", "seq").withColumn("epoch", epoch("seq"))


def start(spark: SparkSession, directory: Path, source: str, target: str) -> StreamingQuery:
    """Start the query from where its checkpoint says."""
    # At times the query is behind what it may read at once.
    rows = marked(spark.readStream.option("maxRowsPerTrigger", "300").table(source)).writeStream
    return rows.option("checkpointLocation", str(directory / "checkpoint")).toTable(target)


def stream(spark: SparkSession, directory: Path, name: str, source: str, target: str) -> None:
    """Keep the query running until it is to stop and has no failure since."""
    stop, once, failures = (directory / f"{name}.{kind}" for kind in ("stop", "once", "failures"))
    while True:
        query = None
        try:
            query = start(spark, directory, source, target)
            while not stop.exists() and query.isActive:
                time.sleep(0.05)
            if query.isActive:
                query.processAllAvailable()
                query.stop()
                return
            query.awaitTermination()
        except PySparkException as error:
            with failures.open("a") as lines:
                lines.write(" ".join(str(error).split()) + "\n")
            if query is not None:
                query.stop()
            if once.exists():
                return
            time.sleep(0.1)


def main(directory: str, name: str, master: str, source: str, target: str) -> None:
    """Prepare, wait, and stream."""
    place = Path(directory)
    spark = session(master)
    spark.table(target).limit(1).collect()
    (place / f"{name}.ready").touch()
    while not (place / f"{name}.go").exists():
        time.sleep(0.02)
    stream(spark, place, name, source, target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
