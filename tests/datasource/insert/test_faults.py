"""What else can happen during an INSERT: the service dies, tokens run out."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from pyspark_pravega import configure
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Access, Stream, StreamConfiguration
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.local.state import ClusterInfo
from tests.client.conftest import MintedTokens
from tests.datasource.insert.test_atomicity import check_order_by_key, table, values, wait_until
from tests.datasource.scans import keyed_table, scan
from tests.datasource.transactions import SETTINGS
from tests.processes import descendants, running

__all__ = ["table"]


def services(spark: SparkSession) -> list[int]:
    """The catalog services of the session's driver."""
    jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
    return [pid for pid in descendants(jvm) if "pyspark_pravega.catalog.service" in running(pid)]


def test_the_service_killed_in_the_middle_of_an_insert(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """Another one takes the transaction over, which the tasks have kept alive, and commits it."""
    at, go_on = str(tmp_path / "at"), str(tmp_path / "go-on")

    @udf(returnType=LongType(), useArrow=False)
    def wait(value: int) -> int:
        if value == 1500:
            Path(at).touch()
            while not os.path.exists(go_on):
                time.sleep(0.02)
        return value

    killed: list[int] = []

    def kill() -> None:
        wait_until(lambda: os.path.exists(at), "the middle of the INSERT")
        for pid in services(spark):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        Path(go_on).touch()

    killer = threading.Thread(target=kill)
    killer.start()
    rows = spark.range(0, 2000, 1, 2).selectExpr("CAST(id % 10 AS INT) AS k", "id AS v").withColumn("v", wait("v"))
    rows.writeTo(table).append()
    killer.join()
    assert killed and not set(killed) & set(services(spark))
    assert values(spark, table) == list(range(2000))
    check_order_by_key(spark, table)


DIES_AFTER_ITS_COMMITS = """
import os, sys
from pathlib import Path
if "pyspark_pravega.catalog.service" in sys.orig_argv:
    from pyspark_pravega.client.transaction import Transaction
    deaths, commit = Path(os.environ["DEATHS"]), Transaction.commit

    def die_after_commit(self, *arguments):
        commit(self, *arguments)
        left = int(deaths.read_text())
        if left:
            deaths.write_text(str(left - 1))
            os._exit(9)

    Transaction.commit = die_after_commit
"""


@pytest.fixture
def mortal(spark: SparkSession, cluster: ClusterInfo, tmp_path: Path) -> Callable[[int], str]:
    """A function that makes so many services of a new catalog die after the server took their commit."""
    python = tmp_path / "python"
    (tmp_path / "sitecustomize.py").write_text(DIES_AFTER_ITS_COMMITS)
    paths = f'"{tmp_path}:$PYTHONPATH"'
    python.write_text(f'#!/bin/sh\nDEATHS={tmp_path}/deaths PYTHONPATH={paths} exec {sys.executable} "$@"\n')
    python.chmod(0o700)

    def make(deaths: int) -> str:
        (tmp_path / "deaths").write_text(str(deaths))
        name = f"mortal{deaths}"
        configure(
            SparkSession.builder,
            catalog=name,
            controller_uri=cluster.controller_uri,
            schema_registry_uri=cluster.registry_uri,
            python=str(python),
        ).getOrCreate()
        return name

    return make


def test_services_that_die_after_the_commit_was_taken(
    spark: SparkSession, table: str, mortal: Callable[[int], str], scope: str, pravega: Pravega
) -> None:
    """The third one finds out that all is there."""
    spark.sql(f"INSERT INTO {mortal(2)}.`{scope}`.numbers SELECT CAST(id % 10 AS INT), id FROM range(100)")
    assert values(spark, table) == list(range(100))
    head = CommitLog(pravega, Stream(scope, "numbers")).head()
    assert head is not None
    assert (head.version, head.committing) == (1, ())


def test_an_outcome_that_nobody_knows_is_called_that(
    spark: SparkSession, table: str, mortal: Callable[[int], str], scope: str
) -> None:
    """Every service dies. The error is Spark's own about neither the job nor the abort."""
    with pytest.raises(PySparkException) as caught:
        spark.sql(f"INSERT INTO {mortal(99)}.`{scope}`.numbers SELECT CAST(id % 10 AS INT), id FROM range(100)")
    first = str(caught.value).splitlines()[0]
    assert first.startswith(
        "[PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN] It is not known whether the rows of this INSERT into "
    )
    assert "check the table before you run the statement again" in first
    assert values(spark, table) == list(range(100))


@pytest.fixture
def secured(secure_client_config: Callable[..., ClientConfig]) -> Iterator[Pravega]:
    with connect(secure_client_config()) as pravega:
        yield pravega


def test_tasks_that_outlive_their_token(secured: Pravega, secure_scope: str) -> None:
    """The tokens that planning hands out run out while the tasks read and write; servers check them all the time."""
    stream = Stream(secure_scope, "stream")
    secured.controller.create_stream(stream, StreamConfiguration())
    table, life = keyed_table(stream), 2.0
    minted = MintedTokens(life)

    def slowly() -> Iterator[pa.RecordBatch]:
        for number in range(3):
            keys, numbers = pa.array([number] * 20_000, pa.int32()), pa.array([number] * 20_000, pa.int64())
            yield pa.record_batch([keys, numbers], names=["k", "v"])
            time.sleep(1)

    insert = Insert.begin(secured, table, SETTINGS)
    spec = replace(insert.spec(table.schema), token=minted.delegation_token(stream, Access.READ_WRITE))
    report = InsertWriter(spec).write(slowly())
    assert isinstance(report, InsertMessage)
    assert insert.commit([report]) == 60_000

    planned = scan(secured, table, ["v"], read_window="64k")
    [partition] = planned.reader.partitions()
    partition.token = minted.delegation_token(stream, Access.READ)  # type: ignore[attr-defined]
    found: list[int] = []
    for batch in planned.reader.read(partition):
        if not found:
            time.sleep(life + 1)
        found += batch.column(0).to_pylist()
    assert found == [0] * 20_000 + [1] * 20_000 + [2] * 20_000
