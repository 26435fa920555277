"""MERGE on a table of changes, harmed at every point: its rows are those before it or after it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.insert.test_atomicity import open_transactions, wait_until
from tests.datasource.insert.test_long_faults import SPECULATING
from tests.faults import counts
from tests.faults.campaign import Campaign, report
from tests.faults.director import OUTLIVED, Director, Driver, Network
from tests.faults.oracle import Feeder, Tables
from tests.faults.points import POINTS, POINTS_OF_STATEMENTS, Point
from tests.faults.test_epochs import Harmed, harmed
from tests.spark_cluster import standalone_cluster

__all__ = ["harmed"]

OF_A_MERGE = (*(point for point in POINTS if point.name != "ledger"), *POINTS_OF_STATEMENTS)
POINT = {point.name: point for point in OF_A_MERGE}
OFTEN = {"executor": 2, "service": 19, "worker": 9, "connection": 8, "server": 8, "lost commit": 4}
OVERTAKEN = (*OUTLIVED, "PRAVEGA_CONCURRENT_CHANGE", "PRAVEGA_TRANSACTION_NOT_OPEN")


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    tables = Tables(spark, scope)
    counts.create(tables)
    return tables


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_every_point_and_kind(
    client_config: ClientConfig, cluster: ClusterInfo, tables: Tables, network: Network, tmp_path: Path, seed: int
) -> None:
    """A MERGE for each micro-batch, in drivers that are killed, or frozen and woken when another has gone on."""
    chance = random.Random(seed)
    campaign = Campaign.planned(chance, OFTEN, 4, OF_A_MERGE)
    director = Director(tmp_path, network, chance, outlived=OVERTAKEN)
    environment = {**director.environment(), **network.environment(cluster)}
    feeder, reader = Feeder(client_config, tables), counts.CountsReader(tables)
    started: list[Driver] = []
    with ExitStack() as ending:
        ending.enter_context(closing(director))

        def new_driver() -> Driver:
            name, master = f"driver{len(started)}", "local[2,4]" if started else "local-cluster[2,1,512]"
            made = Driver(tmp_path, name, master, tables.scope, environment, (counts.NAME,))
            started.append(ending.enter_context(made))
            return made

        ending.enter_context(feeder)
        ending.enter_context(reader)
        driver = campaign.carry_out(director, new_driver)
        feeder.end()
        driver.finish()
        reader.end()
        counts.check(tables, feeder.written, reader)
    report(director, started, feeder, reader)
    campaign.check_done(director)
    assert {fault.point for fault in director.done} == {point.name for point in OF_A_MERGE}


@dataclass
class Statements:
    """MERGEs on a table, each of which deletes the row that the last one made, changes another and makes one."""

    spark: SparkSession
    scope: str
    harmed: Harmed
    done: int = 0

    def rows(self) -> dict[int, int]:
        return {row.k: row.n for row in self.spark.table(f"pravega.`{self.scope}`.t").collect()}

    def run(self, catalog: str) -> None:
        """Run the next one by a catalog."""
        self.spark.sql(
            f"MERGE INTO {catalog}.`{self.scope}`.t t USING (SELECT * FROM VALUES ({self.done + 1}, true), (0, false), "
            f"({self.done + 2}, false) AS s(k, gone)) s ON t.k = s.k WHEN MATCHED AND gone THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 0)"
        )

    def begin(self, threads: ThreadPoolExecutor, point: Point) -> tuple[Future[None], str, int]:
        """Let the harmed catalog run it to a point; return the fault's name and the process that waits there."""
        late = threads.submit(self.run, self.harmed.catalog)
        return late, *self.harmed.director.catch(point, lambda: not late.done() or late.result() is not None)

    def check(self, late: Future[None]) -> str | None:
        """Wait for it, and run it again if it has done nothing; return the condition of its error."""
        before, after = ({0: self.done + more, self.done + more + 1: 0} for more in (0, 1))
        error = late.exception()
        assert error is None or isinstance(error, PySparkException)
        found = self.rows()
        assert found == after or (error is not None and found == before), (error, found)
        if found == before:
            self.run("pravega")
            assert self.rows() == after
        self.done += 1
        history = self.spark.sql(f"SELECT operation, rows FROM pravega.`{self.scope}`.t.history").collect()
        assert [tuple(row) for row in history[1:]] == [("MERGE", 3)] * self.done
        return None if error is None else error.getCondition()


@pytest.fixture
def statements(spark: SparkSession, scope: str, harmed: Harmed) -> Statements:
    table = f"pravega.`{scope}`.t"
    properties = "'format'='debezium-json', 'primary-key'='k', 'scaling.min-segments'='2'"
    spark.sql(f"CREATE TABLE {table} (k INT, n INT) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} VALUES (0, 0), (1, 0)")
    return Statements(spark, scope, harmed)


SHORT = [
    ("begun", "service"),
    ("sealed", "server"),
    ("claimed", "connection"),
    ("checked", "service"),
    ("commit", "lost commit"),
    ("committed", "service"),
]
EVERY = [
    (name, kind)
    for name, point in POINT.items()
    if point.process == "service" and name not in ("look", "plan")
    for kind in ("service", "server", "connection", "lost commit")
]


@pytest.mark.parametrize(
    "harms", [pytest.param(SHORT, id="short"), pytest.param(EVERY, id="every", marks=pytest.mark.faults)]
)
@pytest.mark.timeout(900)
def test_a_statement_is_done_or_not(statements: Statements, harms: list[tuple[str, str]]) -> None:
    """A statement that has failed has done all or nothing, and can be run again. Its workers are not harmed here."""
    director = statements.harmed.director
    for point, kind in harms:
        with ThreadPoolExecutor() as threads:
            late, name, process = statements.begin(threads, POINT[point])
            end = None
            if kind in director.harms:
                end = director.harms[kind]()
            else:
                os.kill(process, signal.SIGKILL)
            director.release(name)
            if end is not None:
                end()
            print(point, kind, statements.check(late))


@pytest.mark.faults
def test_a_task_that_runs_twice_at_the_same_time(
    spark: SparkSession, cluster: ClusterInfo, scope: str, tmp_path: Path
) -> None:
    """Speculative execution on a cluster: the changes of one attempt count."""
    table, log = f"pravega.`{scope}`.t", tmp_path / "attempts"
    properties = "'format'='debezium-json', 'primary-key'='id', 'scaling.min-segments'='3'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v BIGINT) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} SELECT id, id FROM range(4000)")
    log.mkdir()
    servers = [cluster.controller_uri, str(cluster.registry_uri)]
    with standalone_cluster(tmp_path) as url:
        command = [sys.executable, str(SPECULATING), url, table, *servers, str(log), ""]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(path.name for path in log.iterdir()) == ["attempt-0", "attempt-1"]
    found = spark.sql(f"SELECT count(*), count(DISTINCT id), min(v - id), max(v - id) FROM {table}").first()
    assert found is not None and tuple(found) == (4000, 4000, 1, 1)
    history = spark.sql(f"SELECT operation, rows FROM {table}.history ORDER BY version").collect()
    assert [tuple(row) for row in history] == [("INSERT", 4000), ("UPDATE", 4000)]


RAN_OUT = [pytest.param(point, True, marks=pytest.mark.faults) for point in ("begun", "checked", "commit")]


@pytest.mark.parametrize(("point", "frozen"), [("checked", False), *RAN_OUT])
def test_a_transaction_that_ended_before_its_commit(
    statements: Statements, pravega: Pravega, point: str, frozen: bool
) -> None:
    """Its lease has run out because the service was `frozen`, or it was aborted: the statement fails by name."""
    spark, harmed, stream = statements.spark, statements.harmed, Stream(statements.scope, "t")
    lease = f"spark.sql.catalog.{harmed.catalog}.transaction.lease"
    spark.conf.set(lease, "10s")
    try:
        with ThreadPoolExecutor() as threads:
            late, name, service = statements.begin(threads, POINT[point])
            (transaction,) = open_transactions(pravega, stream)
            try:
                if frozen:
                    os.kill(service, signal.SIGSTOP)
                    ended = (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
                    # The first lease, of 87 s, counts if the ping for the wanted one, which nobody waits for, is late.
                    wait_until(
                        lambda: pravega.controller.transaction_status(stream, transaction) in ended, "its end", 120
                    )
                else:
                    pravega.controller.abort_transaction(stream, transaction)
            finally:
                os.kill(service, signal.SIGCONT)
                harmed.director.release(name)
            assert statements.check(late) == "PRAVEGA_TRANSACTION_NOT_OPEN"
    finally:
        spark.conf.unset(lease)
