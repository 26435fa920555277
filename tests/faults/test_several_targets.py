"""Micro-batches for several streams that end between two commits: each row is written once to its stream."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.datasource.insert.test_atomicity import open_transactions
from tests.faults.oracle import Feeder, Tables, check_order_of
from tests.faults.test_epochs import POINT, Harmed, harmed

__all__ = ["harmed"]
TARGETS = ("even", "odd")


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    return Tables(spark, scope, marked=False, others=TARGETS)


@pytest.fixture
def feeder(client_config: ClientConfig, tables: Tables) -> Feeder:
    return Feeder(client_config, tables, scale_every=0)


def start(tables: Tables, checkpoint: Path, catalog: str) -> StreamingQuery:
    """Write what there is to the streams of TARGETS, from where the checkpoint says, and end."""
    rows = tables.spark.readStream.table(tables.source).withColumn("into", expr("IF(seq % 2 = 0, 'even', 'odd')"))
    writer = rows.writeStream.option("stream-column", "into").option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).toTable(tables.target.replace("pravega", catalog, 1))


def count(tables: Tables, target: str) -> int:
    return tables.spark.table(tables.name(target)).count()


def check(tables: Tables, feeder: Feeder) -> None:
    """Compare the targets with what was written to the source."""
    for rest, target in enumerate(TARGETS):
        rows = tables.spark.sql(f"SELECT *, _segment, _offset FROM {tables.name(target)}").collect()
        assert sorted(row.seq for row in rows) == list(range(rest, feeder.written, 2))
        check_order_of(rows)
    assert count(tables, "target") == 0


@pytest.mark.parametrize(
    ("point", "passes"),
    [
        ("published", 0),
        *(
            pytest.param(*other, marks=pytest.mark.long)
            for other in (("committed", 0), ("claimed", 1), ("committed", 1))
        ),
    ],
)
def test_a_service_that_dies_between_two_commits(
    tables: Tables, feeder: Feeder, harmed: Harmed, pravega: Pravega, tmp_path: Path, point: str, passes: int
) -> None:
    """The next service brings them to their end."""
    feeder.feed(pravega)
    query = start(tables, tmp_path / "checkpoint", harmed.catalog)
    try:
        name, service = harmed.director.catch(POINT[point], lambda: query.isActive, passes)
        os.kill(service, signal.SIGKILL)
        harmed.director.release(name)
        assert query.awaitTermination(120)
    finally:
        query.stop()
    check(tables, feeder)


def test_a_query_that_ends_between_two_commits(
    tables: Tables, feeder: Feeder, harmed: Harmed, pravega: Pravega, tmp_path: Path
) -> None:
    """One stream has its rows, the transaction of the other is gone. The query says so, and continues when started."""
    feeder.feed(pravega)
    checkpoint = tmp_path / "checkpoint"
    query = start(tables, checkpoint, harmed.catalog)
    try:
        name, _ = harmed.director.catch(POINT["published"], lambda: query.isActive)
        odd = Stream(tables.scope, "odd")
        (transaction,) = open_transactions(pravega, odd)
        assert (count(tables, "even"), count(tables, "odd")) == (len(range(0, feeder.written, 2)), 0)
        pravega.controller.abort_transaction(odd, transaction)
        harmed.director.release(name)
        with pytest.raises(StreamingQueryException, match=r"(?s)\[PRAVEGA_TRANSACTION_NOT_OPEN\].*already: even"):
            query.awaitTermination(120)
    finally:
        query.stop()
    feeder.feed(pravega)
    again = start(tables, checkpoint, "pravega")
    try:
        assert again.awaitTermination(120)
    finally:
        again.stop()
    check(tables, feeder)
