"""The front ends whose clients run statements: PySpark, a Thrift server and Spark Connect, on a cluster's catalog."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyspark
from pyspark.sql import SparkSession

from bench.latency_and_memory import find_driver
from bench.servers import open_session
from pyspark_pravega.client.config import ClientConfig
from tests.spark_servers import CONNECT, JDBC, free_port, listening, listens

ROOT = Path(__file__).resolve().parents[2]
OF_THRIFT = ROOT / "build" / "dbt" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
OF_CONNECT = ROOT / "build" / "pipelines"


class Client(Protocol):
    """One client with a session of the server."""

    def run(self, statement: str) -> list[Any]:
        """Run a statement, and return its rows."""
        ...

    def list_tables(self, namespace: str) -> None:
        """List the tables of a namespace of the catalog by the front end's own call."""
        ...

    def cancel(self, statement: str, after: float) -> float:
        """Begin a statement, cancel it after some seconds, and return how long it then took to end."""
        ...

    def lose(self, statement: str, after: float) -> None:
        """Begin a statement, and close the socket after some seconds. The next statement connects again."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


@dataclass(frozen=True)
class FrontEnd:
    """A front end that runs, the process of its driver, how a client connects, and a directory for files."""

    name: str
    jvm: int
    connect: Callable[[], Client]
    directory: Path


class _Aside(threading.Thread):
    """Work in a thread of its own, which may be made to fail."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self._work = work
        self.start()

    def run(self) -> None:
        with suppress(Exception):
            self._work()


class SessionClient:
    """A thread of this driver's session, or a client of Spark Connect with a session of its own."""

    def __init__(self, make: Callable[[], Any], *, remote: bool) -> None:
        self._make = make
        self._remote = remote
        self._spark = make()

    def run(self, statement: str) -> list[Any]:
        return list(self._spark.sql(statement).collect())

    def list_tables(self, namespace: str) -> None:
        self._spark.catalog.listTables(namespace)

    def cancel(self, statement: str, after: float) -> float:
        group = f"crowd-{id(self)}"

        def run() -> None:
            if self._remote:
                self._spark.addTag(group)
            else:
                self._spark.sparkContext.setJobGroup(group, statement)
            self.run(statement)

        running = _Aside(run)
        time.sleep(after)
        began = time.perf_counter()
        if self._remote:
            self._spark.interruptTag(group)
        else:
            self._spark.sparkContext.cancelJobGroup(group)
        running.join()
        return time.perf_counter() - began

    def lose(self, statement: str, after: float) -> None:
        assert self._remote, "threads of this driver have no connection"
        running = _Aside(lambda: self.run(statement))
        time.sleep(after)
        self._spark.client._channel.close()
        running.join()
        self._spark = self._make()

    def close(self) -> None:
        if self._remote:
            self._spark.stop()


class ThriftClient:
    """PyHive, which polls the state of each statement as Hive's JDBC driver does."""

    def __init__(self, port: int) -> None:
        if str(OF_THRIFT) not in sys.path:
            sys.path.append(str(OF_THRIFT))
        self._port = port
        self._hive = importlib.import_module("pyhive.hive")
        self._types = importlib.import_module("TCLIService.ttypes")
        self._connect()

    def _connect(self) -> None:
        self._connection = self._hive.Connection(host="127.0.0.1", port=self._port, username="crowd")

    def _wait(self, cursor: Any) -> bool:
        """Wait for the end of a statement; return whether it has finished."""
        states = self._types.TOperationState
        while (status := cursor.poll(False)).operationState in (
            states.INITIALIZED_STATE,
            states.PENDING_STATE,
            states.RUNNING_STATE,
        ):
            pass
        if status.operationState == states.ERROR_STATE:
            raise RuntimeError(status.errorMessage)
        return bool(status.operationState == states.FINISHED_STATE)

    def run(self, statement: str) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, async_=True)
            assert self._wait(cursor), statement
            return list(cursor.fetchall())

    def list_tables(self, namespace: str) -> None:
        client, types = self._connection.client, self._types
        schema = namespace.rpartition(".")[2]
        asked = types.TGetTablesReq(self._connection.sessionHandle, schemaName=schema, tableName="%")
        handle, found = client.GetTables(asked).operationHandle, 0
        while (
            names := client.FetchResults(types.TFetchResultsReq(handle, types.TFetchOrientation.FETCH_NEXT, 10_000))
            .results.columns[2]
            .stringVal.values
        ):
            found += len(names)
        client.CloseOperation(types.TCloseOperationReq(handle))
        assert found, f"no table in {schema}"

    def cancel(self, statement: str, after: float) -> float:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, async_=True)
            time.sleep(after)
            began = time.perf_counter()
            cursor.cancel()
            self._wait(cursor)
            return time.perf_counter() - began

    def lose(self, statement: str, after: float) -> None:
        self._connection.cursor().execute(statement, async_=True)
        time.sleep(after)
        self._connection._transport.close()
        self._connect()

    def close(self) -> None:
        self._connection.close()


@contextmanager
def open_front_end(name: str, config: ClientConfig, cores: int, directory: Path) -> Iterator[FrontEnd]:
    """Start a front end in a directory of its own."""
    if str(OF_CONNECT) not in sys.path:
        sys.path.append(str(OF_CONNECT))  # before PySpark looks for what its client needs, which it does once
    confs = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        # When Spark Connect notices that a client is gone: after two minutes, five and half a minute if it is not set.
        "spark.connect.execute.reattachable.senderMaxStreamDuration": "5s",
        "spark.connect.execute.manager.detachedTimeout": "5s",
        "spark.connect.execute.manager.maintenanceInterval": "5s",
    }
    if name == "pyspark":
        with open_session(config, cores, confs) as (spark, _):
            yield FrontEnd(name, find_driver(spark), lambda: SessionClient(lambda: spark, remote=False), directory)
        return
    servers = {
        "PRAVEGA_CONTROLLER_URI": config.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(config.registry_uri),
    }
    port = free_port()
    if name == "connect":
        confs |= {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    options = [part for key, text in confs.items() for part in ("--conf", f"{key}={text}")]
    if name == "connect":
        command = ["connect-server", "--master", f"local[{cores}]", *options]
        url = f"sc://127.0.0.1:{port}"

        def open_remote() -> Any:
            return SparkSession.builder.remote(url).create()

        with listening(port, command, servers, directory, ready=CONNECT, quiet=False) as jvm:
            yield FrontEnd(name, jvm, lambda: SessionClient(open_remote, remote=True), directory)
        return
    command = ["thriftserver", "--master", f"local[{cores}]", *options, "--host", "127.0.0.1", "--port", str(port)]
    with listening(port, command, servers, directory, ready=JDBC, quiet=False) as jvm:
        yield FrontEnd(name, jvm, lambda: ThriftClient(port), directory)


@contextmanager
def open_plain_thrift_server(cores: int, directory: Path) -> Iterator[FrontEnd]:
    """Start Spark's own Thrift server, which has nothing of this project."""
    port = free_port()
    confs = {"spark.ui.enabled": "false", "spark.sql.warehouse.dir": str(directory / "warehouse")}
    options = [part for key, text in confs.items() for part in ("--conf", f"{key}={text}")]
    hive = ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    kind = ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "--master", f"local[{cores}]"]
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), *kind, *options, "spark-internal", *hive]
    environment = {**os.environ, "SPARK_HOME": str(home)}
    with (directory / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        while not listens(port):
            assert server.poll() is None, (directory / "server.log").read_text()[-3000:]
            time.sleep(0.2)
        yield FrontEnd("plain", server.pid, lambda: ThriftClient(port), directory)
    finally:
        server.terminate()
        server.wait(timeout=60)
