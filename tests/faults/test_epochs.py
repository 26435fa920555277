"""Micro-batches whose commit goes wrong in one certain way: each ends without loss or double, or with a named error."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType

from pyspark_pravega import configure
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.insert.test_atomicity import open_transactions, wait_until
from tests.faults.director import Director, Network, network_of
from tests.faults.oracle import Feeder, Tables, check_order_of
from tests.faults.points import POINTS
from tests.scopes import new_scope

LONG = pytest.param(20, marks=pytest.mark.faults)
LONGER_THAN_LEASE = 12
TABLE_COMMANDS = frozenset((wire._UPDATE_TABLE_ENTRIES, wire._READ_TABLE, wire._READ_TABLE_ENTRIES))
POINT = {point.name: point for point in POINTS}


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    return Tables(spark, scope, marked=False)


@pytest.fixture
def feeder(client_config: ClientConfig, tables: Tables) -> Feeder:
    return Feeder(client_config, tables, scale_every=0)


@dataclass
class Harmed:
    """A catalog of the tests' session whose service is under a director; its tables are those of `pravega`."""

    catalog: str
    director: Director
    network: Network


@pytest.fixture(scope="module")
def harmed(
    spark: SparkSession,
    pravega: Pravega,
    client_config: ClientConfig,
    cluster: ClusterInfo,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Harmed]:
    directory = tmp_path_factory.mktemp("harmed")
    catalog = directory.name  # the session keeps the catalog of another module, whose proxies are gone
    control, python = directory / "control", directory / "python"
    control.mkdir()
    with new_scope(client_config) as scope:
        stream = Stream(scope, "any")
        pravega.controller.create_stream(stream, StreamConfiguration())
        with network_of(client_config, cluster, stream) as network:
            director = Director(control, network, random.Random(0))
            environment = director.environment() | network.environment(cluster)
            settings = " ".join(f"{name}='{value}'" for name, value in environment.items() if name != "PYTHONPATH")
            paths = f'PYTHONPATH="{environment["PYTHONPATH"]}:$PYTHONPATH"'
            python.write_text(f'#!/bin/sh\n{settings} {paths} exec {sys.executable} "$@"\n')
            python.chmod(0o700)
            configure(
                SparkSession.builder,
                catalog=catalog,
                controller_uri=environment["FAULT_CONTROLLER"],
                schema_registry_uri=cluster.registry_uri,
                python=str(python),
                retry_timeout="4s",
            ).getOrCreate()
            with closing(director):
                yield Harmed(catalog, director, network)


def start(
    tables: Tables, checkpoint: Path, catalog: str = "pravega", *, source: str = "pravega", **options: str
) -> StreamingQuery:
    """Copy what there is, from where the checkpoint says, and end. Both tables are given with their catalogs."""
    read = tables.spark.readStream.table(tables.source.replace("pravega", source, 1))
    rows = read.writeStream.options(**options)
    rows = rows.option("checkpointLocation", str(checkpoint))
    return rows.trigger(availableNow=True).toTable(tables.target.replace("pravega", catalog, 1))


def copy(tables: Tables, checkpoint: Path) -> None:
    """Copy what there is, and wait until that is done."""
    query = start(tables, checkpoint)
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def check(tables: Tables, feeder: Feeder) -> None:
    """Compare the target with what was written to the source."""
    rows = tables.spark.sql(f"SELECT *, _segment, _offset FROM {tables.target}").collect()
    assert sorted(row.seq for row in rows) == list(range(feeder.written))
    check_order_of(rows)


def uncommit(checkpoint: Path, batch: int) -> None:
    """Delete what says that a micro-batch is done, so that the query does it again."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


@pytest.mark.usefixtures("long_micro_batch")
@pytest.mark.parametrize("batches", [3, LONG])
def test_every_batch_is_replayed(
    tables: Tables, feeder: Feeder, pravega: Pravega, tmp_path: Path, batches: int
) -> None:
    """Each run does the last micro-batch again, whose `commits/N` was deleted, and one more."""
    for batch in range(batches):
        feeder.feed(pravega)
        copy(tables, tmp_path)
        assert max(int(each.name) for each in (tmp_path / "commits").glob("[0-9]*")) == batch
        uncommit(tmp_path, batch)
    copy(tables, tmp_path)
    check(tables, feeder)
    assert len(CommitLog(pravega, tables.streams[1]).versions()) == batches


ABORTED = ("sealed", "claimed")
RAN_OUT = [pytest.param(point, True, marks=pytest.mark.faults) for point in ("sealed", "claimed", "commit")]


@pytest.mark.parametrize(
    ("point", "frozen"),
    [
        ("begun", False),
        ("commit", False),
        *(pytest.param(point, False, marks=pytest.mark.long) for point in ABORTED),
        *RAN_OUT,
    ],
)
def test_a_transaction_that_ended_before_its_commit(
    tables: Tables, feeder: Feeder, harmed: Harmed, pravega: Pravega, tmp_path: Path, point: str, frozen: bool
) -> None:
    """Its lease has run out because the service was `frozen`, or it was aborted: the query fails by name, goes on."""
    feeder.feed(pravega)
    checkpoint, stream = tmp_path / "checkpoint", tables.streams[1]
    query = start(tables, checkpoint, harmed.catalog, **{"transaction.lease": "10s"})
    try:
        name, service = harmed.director.catch(POINT[point], lambda: query.isActive)
        (transaction,) = open_transactions(pravega, stream)
        if frozen:
            os.kill(service, signal.SIGSTOP)
            ended = (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
            wait_until(lambda: pravega.controller.transaction_status(stream, transaction) in ended, "the lease's end")
            os.kill(service, signal.SIGCONT)
        else:
            pravega.controller.abort_transaction(stream, transaction)
        harmed.director.release(name)
        with pytest.raises(StreamingQueryException, match=r"\[PRAVEGA_TRANSACTION_NOT_OPEN\]"):
            query.awaitTermination(120)
    finally:
        query.stop()
    feeder.feed(pravega)
    copy(tables, checkpoint)
    check(tables, feeder)


@pytest.mark.parametrize(
    "point", [*(pytest.param(point, marks=pytest.mark.long) for point in ("look", "plan")), "begun"]
)
def test_a_service_that_dies_before_anything_is_recorded(
    tables: Tables, feeder: Feeder, harmed: Harmed, pravega: Pravega, tmp_path: Path, point: str
) -> None:
    """The query goes on with the next service, without a failure."""
    feeder.feed(pravega)
    query = start(tables, tmp_path / "checkpoint", harmed.catalog, source=harmed.catalog)
    try:
        name, service = harmed.director.catch(POINT[point], lambda: query.isActive)
        os.kill(service, signal.SIGKILL)
        harmed.director.release(name)
        assert query.awaitTermination(120)
    finally:
        query.stop()
    check(tables, feeder)


@pytest.fixture(scope="module")
def long_micro_batch(
    spark: SparkSession, client_config: ClientConfig, pravega: Pravega, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tables, Feeder, StreamingQuery]]:
    """A query that takes longer than its lease while other tests run."""
    with new_scope(client_config) as scope:
        tables = Tables(spark, scope, marked=False)
        feeder = Feeder(client_config, tables, scale_every=0)
        feeder.feed(pravega)
        query = start_slowly(tables, feeder, tmp_path_factory.mktemp("long"), LONGER_THAN_LEASE)
        try:
            yield tables, feeder, query
        finally:
            query.stop()


def test_a_micro_batch_longer_than_the_lease(long_micro_batch: tuple[Tables, Feeder, StreamingQuery]) -> None:
    tables, feeder, query = long_micro_batch
    check_it_was_slow(query, LONGER_THAN_LEASE)
    check(tables, feeder)


@pytest.mark.faults
def test_micro_batches_longer_than_the_lease(tables: Tables, feeder: Feeder, pravega: Pravega, tmp_path: Path) -> None:
    seconds = 30
    for _ in range(3):
        feeder.feed(pravega)
        query = start_slowly(tables, feeder, tmp_path, seconds)
        try:
            check_it_was_slow(query, seconds)
        finally:
            query.stop()
    check(tables, feeder)


def start_slowly(tables: Tables, feeder: Feeder, checkpoint: Path, seconds: int) -> StreamingQuery:
    """Copy with a lease of 10 s, the shortest that the server takes; a task needs longer in each micro-batch."""
    each = feeder.events

    @udf(returnType=LongType(), useArrow=False)
    def slowly(number: int) -> int:
        if number % each == 0:
            time.sleep(seconds)
        return number

    rows = tables.spark.readStream.table(tables.source).withColumn("seq", slowly("seq"))
    writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).option("transaction.lease", "10s")
    return writer.trigger(availableNow=True).toTable(tables.target)


def check_it_was_slow(query: StreamingQuery, seconds: int) -> None:
    assert query.awaitTermination(seconds + 120)
    [took] = [one["durationMs"]["addBatch"] for one in query.recentProgress if one["numInputRows"]]
    assert took > seconds * 1000


@pytest.mark.parametrize("point", ["sealed", "commit"])
def test_the_commit_table_out_of_reach(
    tables: Tables, feeder: Feeder, harmed: Harmed, pravega: Pravega, tmp_path: Path, point: str
) -> None:
    """Requests to key-value tables do not come through; all others do."""
    feeder.feed(pravega)
    checkpoint, store = tmp_path / "checkpoint", harmed.network.store
    query = start(tables, checkpoint, harmed.catalog)
    try:
        name, _ = harmed.director.catch(POINT[point], lambda: query.isActive)
        store.refused = TABLE_COMMANDS
        harmed.director.release(name)
        if point == "commit":
            # The ledger has the micro-batch already: its rows become visible, and the next commit adds the version.
            assert query.awaitTermination(120)
        else:
            with pytest.raises(StreamingQueryException, match=r"\[PRAVEGA_SERVER_UNAVAILABLE\]"):
                query.awaitTermination(120)
    finally:
        store.refused = frozenset()
        query.stop()
    feeder.feed(pravega)
    copy(tables, checkpoint)
    check(tables, feeder)
    assert len(CommitLog(pravega, tables.streams[1]).versions()) == 2


def test_two_queries_into_one_table(tables: Tables, feeder: Feeder, pravega: Pravega, tmp_path: Path) -> None:
    """Each writes all events once, even where both commit at the same time."""
    rows = tables.spark.readStream.table(tables.source).writeStream
    queries = []
    try:
        for name in ("a", "b"):
            queries.append(rows.option("checkpointLocation", str(tmp_path / name)).toTable(tables.target))
        for _ in range(4):
            feeder.feed(pravega)
            for query in queries:
                query.processAllAvailable()
    finally:
        for query in queries:
            query.stop()
    assert all(query.exception() is None for query in queries)
    found = sorted(row.seq for row in tables.spark.table(tables.target).collect())
    assert found == sorted([*range(feeder.written), *range(feeder.written)])


def test_a_copied_checkpoint(tables: Tables, feeder: Feeder, pravega: Pravega, tmp_path: Path) -> None:
    """Two queries with one id: the second is fenced by name, and the first one's rows are there once."""
    first, second = tmp_path / "first", tmp_path / "second"
    feeder.feed(pravega)
    copy(tables, first)
    shutil.copytree(first, second)
    for checkpoint in (first, first):
        feeder.feed(pravega)
        copy(tables, checkpoint)
    feeder.feed(pravega)
    with pytest.raises(StreamingQueryException, match=r"\[PRAVEGA_QUERY_FENCED\]"):
        copy(tables, second)
    copy(tables, first)
    check(tables, feeder)
