"""One SQL client of each kind for the whole run, each with a plain and a secured catalog."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.behaviours.groups import is_at_length
from tests.spark_servers import CONNECT, JDBC, free_port, listening
from tests.sql_clients import BeelineClient, ConnectClient, PySparkClient, ShellClient, SqlClient
from tests.temperatures import CSV

CLIENTS = ("pyspark", "spark-sql", "jdbc", pytest.param("connect", marks=pytest.mark.pipelines))
CATALOGS = ("pravega", "secure")
SET_UPS = {("pyspark", "pravega"), ("spark-sql", "pravega"), ("jdbc", "secure"), ("connect", "pravega")}
"""Each front end and each catalog; the other pairs would show nothing new."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run only the SET_UPS of front end and catalog, and in brief what other front ends show of a behaviour."""
    for item in items:
        params = _params(item)
        if {"sql", "behaviour"} <= params.keys() and is_at_length(params["sql"], params["behaviour"]):
            item.add_marker("long")
    out = [item for item in items if not _is_run(_params(item))]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _is_run(params: dict[str, Any]) -> bool:
    return not {"sql", "catalog_name"} <= params.keys() or (params["sql"], params["catalog_name"]) in SET_UPS


@pytest.fixture
def fresh_name() -> str:
    """A namespace that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=CATALOGS)
def catalog_name(request: pytest.FixtureRequest) -> str:
    """A catalog: `pravega` on plain servers, `secure` on servers with TLS and authentication."""
    return str(request.param)


def _arguments(cluster: ClusterInfo, lake: Path) -> tuple[list[str], dict[str, str]]:
    """Return Spark arguments and environment for the catalog `pravega` on plain servers, with lakes in a directory."""
    confs = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
    }
    environment = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
        "PRAVEGA_LAKE": json.dumps({"type": "sql", "uri": f"sqlite:///{lake}/lake.db", "warehouse": f"file://{lake}"}),
    }
    return _as_options(confs), environment


def _secure_arguments(secure: ClusterInfo) -> tuple[list[str], dict[str, str]]:
    """Return what adds the catalog `secure`; the password goes by the environment."""
    confs = {
        "spark.sql.catalog.secure": "io.github.pysparkpravega.PravegaCatalog",
        "spark.sql.catalog.secure.controller-uri": secure.controller_uri,
        "spark.sql.catalog.secure.schema-registry-uri": str(secure.registry_uri),
        "spark.sql.catalog.secure.security.trust-store": str(secure.ca_file),
        "spark.sql.catalog.secure.security.username": "admin",
        "spark.sql.catalog.secure.security.password": "${env:TEST_PASSWORD}",
    }
    return _as_options(confs), {"TEST_PASSWORD": secure.users["admin"]}


def _as_options(confs: dict[str, str]) -> list[str]:
    return [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]


@pytest.fixture(scope="session")
def thrift_url(
    cluster: ClusterInfo, secure_cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The JDBC address of a Thrift server with both catalogs."""
    arguments, environment = _arguments(cluster, tmp_path_factory.mktemp("lake"))
    more_arguments, more_environment = _secure_arguments(secure_cluster)
    port = free_port()
    hive = ["--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1"]
    command = ["thriftserver", "--master", "local[2]", *arguments, *more_arguments, *hive]
    environment, directory = {**environment, **more_environment}, tmp_path_factory.mktemp("thrift")
    with listening(port, command, environment, directory, ready=f"{JDBC}{port}\n"):
        yield f"jdbc:hive2://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def connect_url(cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect with the catalog `pravega`."""
    arguments, environment = _arguments(cluster, tmp_path_factory.mktemp("lake"))
    port = free_port()
    binding = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    command = ["connect-server", "--master", "local[2]", *arguments, *_as_options(binding)]
    with listening(port, command, environment, tmp_path_factory.mktemp("connect"), ready=CONNECT):
        yield f"sc://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def _clients() -> Iterator[dict[str, SqlClient]]:
    started: dict[str, SqlClient] = {}
    yield started
    for client in started.values():
        client.close()


@pytest.fixture(params=CLIENTS)
def sql(
    request: pytest.FixtureRequest, _clients: dict[str, SqlClient], tmp_path_factory: pytest.TempPathFactory
) -> SqlClient:
    """A front end; started when a test first needs it and kept for the rest of the run."""
    kind = str(request.param)
    if kind not in _clients:
        log = tmp_path_factory.mktemp(kind) / "log"
        _clients[kind] = _start(kind, request, log)
    return _clients[kind]


def _start(kind: str, request: pytest.FixtureRequest, log: Path) -> SqlClient:
    if kind == "pyspark":
        return PySparkClient(request.getfixturevalue("spark"))
    if kind == "jdbc":
        return BeelineClient(request.getfixturevalue("thrift_url"), {}, log)
    if kind == "connect":
        return ConnectClient(request.getfixturevalue("connect_url"), log)
    arguments, environment = _arguments(request.getfixturevalue("cluster"), log.parent)
    return ShellClient(["--master", "local[2]", *arguments], environment, log)


@pytest.fixture
def temperatures_view(sql: SqlClient) -> str:
    """A temporary view over the CSV file."""
    sql.run(
        "CREATE OR REPLACE TEMPORARY VIEW temperatures "
        "(timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE) "
        f"USING csv OPTIONS (path '{CSV}', header 'true')"
    )
    return "temperatures"
