"""Streaming queries in tests: each with a checkpoint of its own, and always stopped."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

PATIENCE = 120
"""Seconds until a query that should end must have ended."""


@contextmanager
def running(writer: DataStreamWriter, checkpoint: Path) -> Iterator[StreamingQuery]:
    """Run a query that goes on where the checkpoint says; it is stopped after the body, and must not have failed.

    In the body, `query.processAllAvailable()` waits until what there is has been taken.
    """
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        yield query
    finally:
        query.stop()
    assert query.exception() is None


def run_available(writer: DataStreamWriter, checkpoint: Path) -> list[dict[str, Any]]:
    """Take what there is from where the checkpoint says on, and end; return the progress of batches with rows.

    Raises the StreamingQueryException of a query that fails.
    """
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(PATIENCE), f"the query did not end: {query.status}"
    finally:
        query.stop()
    return [each for each in query.recentProgress if each["numInputRows"]]


@contextmanager
def into_memory(rows: DataFrame, checkpoint: Path) -> Iterator[MemorySink]:
    """Run a query whose rows a test looks at while it runs."""
    name = f"seen_{uuid.uuid4().hex}"
    with running(rows.writeStream.format("memory").queryName(name), checkpoint) as query:
        yield MemorySink(rows.sparkSession, query, name)


class MemorySink:
    """The rows that a running query has taken so far."""

    def __init__(self, spark: SparkSession, query: StreamingQuery, name: str) -> None:
        self._spark, self.query, self._name = spark, query, name

    def rows(self) -> list[Row]:
        """Wait until all that there is has been taken, and return all rows."""
        self.query.processAllAvailable()
        return self._spark.table(self._name).collect()


class ParquetSink:
    """Files that take each batch once, with the checkpoint beside them: what a query leaves for the next one."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self.checkpoint = directory / "checkpoint"
        self._rows = directory / "rows"

    def take(self, rows: DataFrame) -> list[dict[str, Any]]:
        """Take what there is, as `run_available` does."""
        return run_available(rows.writeStream.format("parquet").option("path", str(self._rows)), self.checkpoint)

    def rows(self) -> list[Row]:
        """Return all rows taken so far."""
        return self._spark.read.parquet(str(self._rows)).collect()
