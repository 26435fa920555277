"""Streaming queries whose sources have names: tables may be added, left out and put in another order later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.streams import ParquetSink

CONFS = {
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    "spark.sql.streaming.offsetLog.formatVersion": "2",
}


@pytest.fixture
def named(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in which checkpoints have the names of sources."""
    session = spark.newSession()
    for key, value in CONFS.items():
        session.conf.set(key, value)
    yield session


def test_each_source_goes_on_under_its_name(named: SparkSession, scope: str, tmp_path: Path) -> None:
    def insert(table: str, *ids: int) -> None:
        values = ", ".join(f"({id}, '{table}')" for id in ids)
        named.sql(f"INSERT INTO pravega.`{scope}`.{table} VALUES {values}")

    def source(table: str) -> DataFrame:
        return named.readStream.name(table).table(f"pravega.`{scope}`.{table}")

    def by_options(stream: str) -> DataFrame:
        return (
            named.readStream.format("pravega")
            .option("scope", scope)
            .option("stream", stream)
            .name(stream)
            .load()
            .select("id", "place")
        )

    for table in ("halls", "roofs", "yards"):
        named.sql(f"CREATE TABLE pravega.`{scope}`.{table} (id INT, place STRING)")
    sink = ParquetSink(named, tmp_path)
    insert("halls", 1, 2)
    insert("roofs", 3)
    sink.take(source("halls").union(source("roofs")))
    insert("halls", 4)
    insert("roofs", 5)
    insert("yards", 6)
    # In another order, one by its options, and with one more.
    sink.take(source("yards").union(by_options("roofs")).union(source("halls")))
    insert("yards", 7)
    insert("roofs", 8)
    sink.take(source("yards").union(source("roofs")))
    with pytest.raises(StreamingQueryException, match="PRAVEGA_CHECKPOINT_MISMATCH"):
        renamed = named.readStream.name("yards").table(f"pravega.`{scope}`.halls")
        sink.take(renamed.union(source("roofs")))
    with pytest.raises(AnalysisException, match="(?i)name"):
        sink.take(named.readStream.table(f"pravega.`{scope}`.yards"))
    found = sorted((row.id, row.place) for row in sink.rows())
    assert found == [
        (1, "halls"), (2, "halls"), (3, "roofs"), (4, "halls"), (5, "roofs"), (6, "yards"), (7, "yards"), (8, "roofs"),
    ]  # fmt: skip
