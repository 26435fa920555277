"""Streaming queries of CALL start_query outlive the server that runs them, and run on one server at a time."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from pyspark_pravega.catalog.running.kept_query import KeptQueries, QueryState
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.local.state import ClusterInfo
from tests.processes import children, running
from tests.spark_servers import JDBC, free_port, listening
from tests.sql_clients import ShellClient
from tests.streams import PATIENCE

pytestmark = pytest.mark.timeout(900)  # several servers start one after the other
SERVICE = "pyspark_pravega.catalog.service"
LEASE = 6


class Servers:
    """Servers that run queries no other one runs. The session of the tests, which does not, watches them."""

    def __init__(self, spark: SparkSession, cluster: ClusterInfo, directory: Path, **more: str) -> None:
        self.spark, self._directory = spark, directory
        confs = {
            "spark.sql.catalog.pravega.queries.run": "true",
            "spark.sql.catalog.pravega.queries.lease": f"{LEASE}s",
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            **{f"spark.sql.catalog.pravega.{key}": text for key, text in more.items()},
        }
        self._environment = {
            "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
            "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
        }
        options = [part for key, text in confs.items() for part in ("--conf", f"{key}={text}")]
        self._arguments = ["--master", "local[2]", *options]

    def begin_shell(self, stack: ExitStack) -> ShellClient:
        """Start a spark-sql shell."""
        server = ShellClient(self._arguments, self._environment, self._new_directory() / "log")
        stack.callback(server.close)
        return server

    @contextmanager
    def thrift_server(self) -> Iterator[None]:
        """Run a Thrift server, which no client connects to."""
        port = free_port()
        hive = [f"hive.server2.thrift.port={port}", "hive.server2.thrift.bind.host=127.0.0.1"]
        command = ["thriftserver", *self._arguments, *(part for conf in hive for part in ("--hiveconf", conf))]
        with listening(port, command, self._environment, self._new_directory(), ready=f"{JDBC}{port}\n"):
            yield

    def _new_directory(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="server-", dir=self._directory))

    def shown(self, name: str) -> Row:
        [row] = self.spark.sql(f"SELECT * FROM pravega.system.queries WHERE name = '{name}'").collect()
        return row


@pytest.fixture
def servers(spark: SparkSession, cluster: ClusterInfo, tmp_path: Path) -> Servers:
    return Servers(spark, cluster, tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


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


@pytest.mark.parametrize("restarted", ["by its call", pytest.param("by a server", marks=pytest.mark.long)])
def test_servers_take_over_with_no_row_lost_or_doubled(
    servers: Servers, stack: ExitStack, scope: str, tmp_path: Path, restarted: str
) -> None:
    """A Thrift server from a shell that is killed; then this driver or a server from one that has ended."""
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

    start = (
        f"CALL pravega.system.start_query(name => '{name}', query => 'SELECT id FROM STREAM numbers', "
        f"into => '`{scope}`.copies', checkpoint => '{tmp_path}/checkpoint', trigger => '200 milliseconds')"
    )

    def stop() -> None:
        [stopped] = spark.sql(f"CALL pravega.system.stop_query(name => '{name}')").collect()
        assert stopped.stopped

    first = servers.begin_shell(stack)
    first.run(f"USE pravega.`{scope}`")
    first.run(start)
    insert()
    wait_for(lambda: written() == list(range(last)))
    stop()  # of another driver
    first.run(start)
    its_server = servers.shown(name).server
    with servers.thrift_server():
        began = servers.shown(name).updated_at
        wait_for(lambda: (servers.shown(name).updated_at - began).total_seconds() > 1.5 * LEASE)
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
    # Its service gives the lease back after the JVM has ended, so a new server need not wait for the lease to end.
    wait_for(lambda: servers.shown(name).state == "WAITING")
    insert()
    with ExitStack() as third:
        if restarted == "by a server":
            third.enter_context(servers.thrift_server())
        else:
            session = spark.newSession()
            session.sql(f"USE pravega.`{scope}`")
            [started] = session.sql(start).collect()
            assert started.state == "RUNNING"
        wait_for(lambda: len(written()) >= last)
        stop()
    insert()
    assert spark.sql(f"SELECT * FROM pravega.system.queries WHERE name = '{name}'").collect() == []
    assert written() == list(range(last - 100))


def plant_settings(queries: KeptQueries, scope: str, name: str, planted_name: str, checkpoint: str) -> None:
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
    planted = replace(kept, name=planted_name, definition=definition, status=status)
    queries.change(scope, planted_name, lambda found: planted)


@pytest.mark.long
def test_queries_that_no_server_runs_are_started_again_or_stopped(
    servers: Servers, stack: ExitStack, scope: str, tmp_path: Path, pravega: Pravega
) -> None:
    spark, numbers = servers.spark, f"pravega.`{scope}`.numbers"
    spark.sql(f"CREATE TABLE {numbers} (id BIGINT) USING pravega")
    starts = {}
    for name in ("again", "stopped"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.{name} (id BIGINT) USING pravega")
        starts[name] = (
            f"CALL pravega.system.start_query(name => '{name}-{scope}', query => 'SELECT id FROM STREAM {numbers}', "
            f"into => '`{scope}`.{name}', checkpoint => '{tmp_path}/{name}')"
        )
    server = servers.begin_shell(stack)
    for start in starts.values():
        server.run(start)
    spark.sql(f"INSERT INTO {numbers} VALUES (1)")
    wait_for(lambda: all(spark.table(f"pravega.`{scope}`.{name}").count() == 1 for name in starts))
    planted = f"planted-{scope}"
    plant_settings(KeptQueries(Catalog({}, pravega)), scope, f"again-{scope}", planted, f"{tmp_path}/planted")
    wait_for(lambda: spark.table(f"pravega.`{scope}`.again").count() == 2)  # it has a checkpoint of its own
    spark.sql(f"CALL pravega.system.stop_query(name => '{planted}')")
    kill_with_its_service(server.pid)
    again = spark.sql(starts["again"]).first()
    assert again is not None and again.state == "RUNNING"
    spark.sql(f"INSERT INTO {numbers} VALUES (2)")
    wait_for(lambda: spark.table(f"pravega.`{scope}`.again").count() == 3)
    for name in starts:
        [stopped] = spark.sql(f"CALL pravega.system.stop_query(name => '{name}-{scope}')").collect()
        assert stopped.stopped
        assert spark.sql(f"SELECT * FROM pravega.system.queries WHERE name = '{name}-{scope}'").collect() == []
    assert spark.table(f"pravega.`{scope}`.stopped").count() == 1
