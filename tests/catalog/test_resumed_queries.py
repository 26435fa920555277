"""Streaming queries of CALL start_query outlive the server that runs them, and run on one server at a time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog.running.kept_query import LEASE, KeptQueries, QueryState
from pyspark_pravega.catalog.storage.connections import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.local.state import ClusterInfo
from tests.processes import children, running
from tests.sql_clients import ShellClient
from tests.streams import PATIENCE

pytestmark = pytest.mark.timeout(900)  # several servers start one after the other
SERVICE = "pyspark_pravega.catalog.service"


class Servers:
    """Servers that run queries no other one runs: spark-sql shells. The session of the tests watches them."""

    def __init__(self, spark: SparkSession, cluster: ClusterInfo, directory: Path, stack: ExitStack) -> None:
        self.spark, self._cluster, self._directory, self._stack = spark, cluster, directory, stack
        self._number = 0

    def begin(self) -> ShellClient:
        self._number += 1
        directory = self._directory / f"server-{self._number}"
        directory.mkdir()
        confs = {
            "spark.sql.catalog.pravega.queries.run": "true",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
        }
        environment = {
            "PRAVEGA_CONTROLLER_URI": self._cluster.controller_uri,
            "PRAVEGA_SCHEMA_REGISTRY_URI": str(self._cluster.registry_uri),
        }
        options = [part for key, text in confs.items() for part in ("--conf", f"{key}={text}")]
        server = ShellClient(["--master", "local[2]", *options], environment, directory / "log")
        self._stack.callback(server.close)
        return server

    def shown(self, name: str) -> Row:
        [row] = self.spark.sql(f"SELECT * FROM pravega.system.queries WHERE name = '{name}'").collect()
        return row


@pytest.fixture
def servers(spark: SparkSession, cluster: ClusterInfo, tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(spark, cluster, tmp_path, stack)


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.2)


def kill_with_its_service(pid: int) -> None:
    """Kill a JVM and its catalog service, as a machine that loses its power does: no lease is given back."""
    os.kill(pid, signal.SIGSTOP)
    for child in children(pid):
        if SERVICE in running(child):
            os.kill(child, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def test_another_server_takes_over_with_no_row_lost_or_doubled(servers: Servers, scope: str, tmp_path: Path) -> None:
    spark, name = servers.spark, f"copied-{scope}"
    spark.sql(f"CREATE TABLE pravega.`{scope}`.numbers (id BIGINT) USING pravega")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.copies (id BIGINT) USING pravega")
    last = 0

    def insert() -> None:
        nonlocal last
        spark.sql(f"INSERT INTO pravega.`{scope}`.numbers SELECT id FROM range({last}, {last + 100})")
        last += 100

    def written() -> list[int]:
        return sorted(row.id for row in spark.table(f"pravega.`{scope}`.copies").collect())

    first = servers.begin()
    first.run(f"USE pravega.`{scope}`")
    first.run(
        f"CALL pravega.system.start_query(name => '{name}', query => 'SELECT id FROM STREAM numbers', "
        f"into => '`{scope}`.copies', checkpoint => '{tmp_path}/checkpoint', trigger => '200 milliseconds')"
    )
    insert()
    wait_for(lambda: written() == list(range(last)))
    its_server = servers.shown(name).server
    second = servers.begin()
    began = servers.shown(name).updated_at
    wait_for(lambda: (servers.shown(name).updated_at - began).total_seconds() > 2 * LEASE)
    assert servers.shown(name).server == its_server  # the second one has looked several times
    for _ in range(3):
        insert()
    kill_with_its_service(first.pid)
    insert()
    wait_for(lambda: servers.shown(name).server not in (None, its_server))
    insert()
    wait_for(lambda: len(written()) >= last)
    assert written() == list(range(last))
    wait_for(lambda: servers.shown(name).state == "RUNNING")
    second.close()  # it gives the lease back, and a new server need not wait for its end
    assert servers.shown(name).state == "WAITING"
    insert()
    servers.begin()
    wait_for(lambda: len(written()) >= last)
    [stopped] = spark.sql(f"CALL pravega.system.stop_query(name => '{name}')").collect()  # of another driver
    assert stopped.stopped
    insert()
    assert spark.sql(f"SELECT * FROM pravega.system.queries WHERE name = '{name}'").collect() == []
    assert written() == list(range(last - 100))


def plant_settings(queries: KeptQueries, scope: str, name: str, checkpoint: str) -> None:
    """Keep a copy of a query that waits for a server, with settings that no session may have."""
    kept = queries.read(scope, name)
    assert kept is not None
    settings = {
        **kept.definition.settings,
        "spark.sql.catalog.pravega.controller-uri": "tcp://127.0.0.1:1",
        "spark.sql.catalog.other": "io.github.pysparkpravega.PravegaCatalog",
        "spark.sql.warehouse.dir": "/nowhere",
        "spark.submit.deployMode": "cluster",
    }
    definition = replace(kept.definition, settings=settings, checkpoint=checkpoint)
    status = kept.status.now(state=QueryState.WAITING, server=None)
    planted = replace(kept, name="planted", definition=definition, status=status)
    queries.change(scope, "planted", lambda found: planted)


def test_a_query_that_no_server_runs_is_started_again_or_stopped(
    servers: Servers, scope: str, tmp_path: Path, pravega: Pravega
) -> None:
    spark, name = servers.spark, f"copied-{scope}"
    spark.sql(f"CREATE TABLE pravega.`{scope}`.numbers (id BIGINT) USING pravega")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.copies (id BIGINT) USING pravega")
    query, into = f"SELECT id FROM STREAM pravega.`{scope}`.numbers", f"`{scope}`.copies"
    given = f"name => '{name}', query => '{query}', into => '{into}', checkpoint => '{tmp_path}/checkpoint'"
    start = f"CALL pravega.system.start_query({given})"
    server = servers.begin()
    server.run(start)
    spark.sql(f"INSERT INTO pravega.`{scope}`.numbers VALUES (1)")
    wait_for(lambda: spark.table(f"pravega.`{scope}`.copies").count() == 1)
    kill_with_its_service(server.pid)
    again = spark.sql(start).first()
    assert again is not None and again.state == "RUNNING"
    spark.sql(f"INSERT INTO pravega.`{scope}`.numbers VALUES (2)")
    wait_for(lambda: spark.table(f"pravega.`{scope}`.copies").count() == 2)
    [stopped] = spark.sql(f"CALL pravega.system.stop_query(name => '{name}')").collect()
    assert stopped.stopped
    server = servers.begin()
    server.run(start)
    plant_settings(KeptQueries(Catalog({}, pravega)), scope, name, f"{tmp_path}/planted")
    wait_for(lambda: servers.shown("planted").state == "RUNNING")
    wait_for(lambda: spark.table(f"pravega.`{scope}`.copies").count() == 4)  # it has a checkpoint of its own
    spark.sql("CALL pravega.system.stop_query(name => 'planted')")
    kill_with_its_service(server.pid)
    [stopped] = spark.sql(f"CALL pravega.system.stop_query(name => '{name}')").collect()
    assert stopped.stopped
    assert spark.sql(f"SELECT * FROM pravega.system.queries WHERE name = '{name}'").collect() == []
