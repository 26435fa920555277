"""One INSERT is all or nothing, whatever fails: tasks, Python workers, the driver, the transaction itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit, udf
from pyspark.sql.types import LongType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.errors import StreamExistsError
from pyspark_pravega.local.state import ClusterInfo
from tests.processes import descendants, running, task_workers
from tests.scopes import Sweeper

DRIVER = Path(__file__).with_name("insert_driver.py")


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    """A table of numbers with a key, over three segments."""
    return new_table(spark, scope)


def new_table(spark: SparkSession, scope: str) -> str:
    name = f"pravega.`{scope}`.numbers"
    spark.sql(
        f"CREATE TABLE {name} (k INT NOT NULL, v BIGINT NOT NULL) USING pravega "
        "TBLPROPERTIES ('routing-key'='k', 'scaling.min-segments'='3')"
    )
    return name


def values(spark: SparkSession, table: str) -> list[int]:
    """All values, sorted: the table's multiset."""
    return sorted(row.v for row in spark.sql(f"SELECT v FROM {table}").collect())


def check_order_by_key(spark: SparkSession, table: str) -> None:
    """Values of one key grow in the order of their positions, as each task wrote them."""
    rows = spark.sql(f"SELECT k, v, _segment, _offset FROM {table}").collect()
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for row in sorted(rows, key=lambda row: (row._segment, row._offset)):
        key = (row.k, row.v // 1000)  # the task that wrote it: ranges of 1000 values
        assert last.get(key, (-1, -1))[1] < row.v, f"key {row.k}: {row.v} after {last[key]}"
        last[key] = (row._offset, row.v)


def open_transactions(pravega: Pravega, stream: Stream) -> list[uuid.UUID]:
    """Ids of open transactions.

    An id is the epoch and a number that the whole cluster counts up. A transaction on another stream tells how far it
    has come, and those before it can be tried.
    """
    probe = Stream(stream.scope, "probe")
    with contextlib.suppress(StreamExistsError):
        pravega.controller.create_stream(probe, StreamConfiguration())
    newest = pravega.controller.create_transaction(probe, 10_000).id
    pravega.controller.abort_transaction(probe, newest)
    found = []
    for epoch in range(2):
        for counter in range(max(0, newest.int - 64), newest.int):
            candidate = uuid.UUID(int=epoch << 96 | counter)
            if pravega.controller.transaction_status(stream, candidate) is TransactionStatus.OPEN:
                found.append(candidate)
    return found


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def test_a_job_that_fails_in_its_last_task_leaves_nothing(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} SELECT 0, 7")
    source = "SELECT CAST(id % 10 AS INT), IF(id = 3999, raise_error('last row'), id) FROM range(0, 4000, 1, 4)"
    with pytest.raises(PySparkException, match="last row"):
        spark.sql(f"INSERT INTO {table} {source}")
    assert values(spark, table) == [7]
    spark.sql(f"INSERT INTO {table} SELECT 0, 8")
    assert values(spark, table) == [7, 8]


def test_a_task_that_fails_once_is_retried_without_loss_or_double(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    marker = str(tmp_path / "failed-once")

    @udf(returnType=LongType(), useArrow=False)
    def fail_once(value: int) -> int:
        if value == 2500 and not os.path.exists(marker):
            Path(marker).touch()
            raise RuntimeError("first attempt")
        return value

    rows = spark.range(0, 4000, 1, 4)
    rows.selectExpr("CAST(id % 10 AS INT) AS k", "id AS v").withColumn("v", fail_once("v")).writeTo(table).append()
    assert os.path.exists(marker)
    assert values(spark, table) == list(range(4000))
    check_order_by_key(spark, table)


def test_a_worker_killed_in_the_middle_of_appending(spark: SparkSession, scope: str, pravega: Pravega) -> None:
    rows, size = 10_000, 4_000

    @udf(returnType=LongType(), useArrow=False)
    def slowly(value: int) -> int:
        if value % 500 == 0:
            time.sleep(0.1)
        return value

    for attempt in range(5):
        name, stream = f"pravega.`{scope}`.big{attempt}", Stream(scope, f"big{attempt}")
        spark.sql(f"CREATE TABLE {name} (v BIGINT, filler STRING) USING pravega")
        frame = spark.range(0, rows, 1, 2).select(slowly("id").alias("v"), lit("x" * size).alias("filler"))
        with ThreadPoolExecutor(1) as pool:
            inserted = pool.submit(frame.writeTo(name).append)
            hit = kill_in_the_middle(spark, pravega, stream, rows * size, inserted)
            inserted.result(timeout=120)
        assert values(spark, name) == list(range(rows))
        if hit:
            return
    pytest.fail("no worker was killed in the middle of its appends")


def kill_in_the_middle(
    spark: SparkSession, pravega: Pravega, stream: Stream, all_bytes: int, inserted: Future[None]
) -> bool:
    """Kill the workers when the first bytes are there; False when they had appended all by then."""
    jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
    transaction: list[uuid.UUID] = []

    def begun() -> bool:
        transaction.extend(open_transactions(pravega, stream))
        return bool(transaction) or inserted.done()

    wait_until(begun, "a transaction", 120)
    if not transaction:
        return False
    segment = pravega.controller.current_segments(stream)[0].segment_id
    workers: list[int] = []

    def length() -> int:
        infos = pravega.segments.segment_infos(stream, [segment], transaction[0])
        return infos[segment].write_offset if segment in infos else all_bytes  # it was merged

    def appending() -> bool:
        workers[:] = task_workers(jvm)
        return length() > 0

    wait_until(appending, "the first appended block")
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return length() < all_bytes


@pytest.fixture(scope="module")
def long_statement(
    spark: SparkSession,
    pravega: Pravega,
    client_config: ClientConfig,
    _sweeper: Sweeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Future[None]]]:
    """A table, and a statement that ends when the server has aborted another transaction.

    That one is begun later with the same lease.
    """
    go_on = str(tmp_path_factory.mktemp("long") / "go-on")

    @udf(returnType=LongType(), useArrow=False)
    def wait(value: int) -> int:
        while not os.path.exists(go_on):
            time.sleep(0.05)
        return value

    def outlive() -> None:
        try:
            wait_until(lambda: bool(open_transactions(pravega, stream)), "a transaction")
            other = pravega.controller.create_transaction(stream, 10_000).id
            ended = (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
            wait_until(lambda: pravega.controller.transaction_status(stream, other) in ended, "the end of a lease")
        finally:
            Path(go_on).touch()

    def insert(table: str) -> None:
        with ThreadPoolExecutor(1) as pool:
            outlived = pool.submit(outlive)
            rows = spark.range(0, 1, 1, 2).selectExpr("1 AS k", "id AS v").withColumn("v", wait("v"))
            rows.writeTo(table).option("transaction.lease", "10s").append()
            outlived.result()

    for scope in _sweeper.scope(client_config):
        stream = Stream(scope, "numbers")
        table = new_table(spark, scope)
        with ThreadPoolExecutor(1) as pool:
            yield table, pool.submit(insert, table)


@pytest.mark.usefixtures("long_statement")
def test_a_transaction_aborted_by_force_fails_the_statement_by_name(
    spark: SparkSession, table: str, scope: str, pravega: Pravega, tmp_path: Path
) -> None:
    stream = Stream(scope, "numbers")
    go_on = str(tmp_path / "go-on")

    @udf(returnType=LongType(), useArrow=False)
    def wait(value: int) -> int:
        while not os.path.exists(go_on):
            time.sleep(0.05)
        return value

    def abort() -> None:
        wait_until(lambda: bool(open_transactions(pravega, stream)), "a transaction")
        pravega.controller.abort_transaction(stream, open_transactions(pravega, stream)[0])
        Path(go_on).touch()

    aborter = threading.Thread(target=abort)
    aborter.start()
    with pytest.raises(PySparkException, match=r"^\[PRAVEGA_TRANSACTION_NOT_OPEN\] .* SQLSTATE: 25000"):
        spark.range(0, 1, 1, 2).selectExpr("1 AS k", "id AS v").withColumn("v", wait("v")).writeTo(table).append()
    aborter.join()
    assert values(spark, table) == []


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.faults), "after"])
def test_the_driver_killed(
    spark: SparkSession, table: str, scope: str, cluster: ClusterInfo, pravega: Pravega, moment: str, tmp_path: Path
) -> None:
    """Killed before the commit: nothing; after it: all. No process of the driver is left either way."""
    command = [sys.executable, str(DRIVER), moment, table, cluster.controller_uri, str(cluster.registry_uri)]
    with (tmp_path / "log").open("w") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        ready = tmp_path / "ready"
        wait_until(lambda: ready.exists() or driver.poll() is not None, "the moment to kill the driver", 270)
        assert driver.poll() is None, (tmp_path / "log").read_text()[-3000:]
        family = descendants(driver.pid)
        jvm = next(pid for pid in family if "java" in running(pid))
        os.kill(jvm, signal.SIGKILL)
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait(timeout=30)
    wait_until(lambda: not any(running(pid) for pid in family), f"the end of {family}", 30)
    wait_until(lambda: not open_transactions(pravega, Stream(scope, "numbers")), "the abort of the transaction", 30)
    assert values(spark, table) == (list(range(100)) if moment == "after" else [])


def test_a_statement_longer_than_its_lease_commits(
    spark: SparkSession, long_statement: tuple[str, Future[None]]
) -> None:
    """It has run while others were tested."""
    table, inserted = long_statement
    inserted.result(timeout=200)
    assert values(spark, table) == [0]
