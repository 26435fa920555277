"""The dbt project of the examples, over the Thrift server: `make dbt`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.spark_servers import JDBC, free_port, listening

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "dbt"
DBT = ROOT / "build" / "dbt" / "bin" / "dbt"


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """What dbt makes its tables in. Its driver begins in the namespace `default`, so there must be one."""
    name = f"dbt{uuid.uuid4().hex[:8]}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS pravega.default")
    yield name
    spark.sql(f"DROP NAMESPACE IF EXISTS pravega.{name} CASCADE")
    spark.sql("DROP NAMESPACE pravega.default")


@pytest.fixture
def port(cluster: ClusterInfo, tmp_path: Path) -> Iterator[int]:
    """The port of a Thrift server with the catalog."""
    port = free_port()
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    confs = ["--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"]
    command = ["thriftserver", "--master", "local[2]", "--host", "127.0.0.1", "--port", str(port), *confs]
    with listening(port, command, servers, tmp_path, ready=JDBC):
        yield port


@pytest.mark.dbt
@pytest.mark.short
@pytest.mark.timeout(600)
def test_the_example_runs_and_goes_on(spark: SparkSession, namespace: str, port: int, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    settings = {"THRIFT_HOST": "127.0.0.1", "THRIFT_PORT": str(port), "DBT_SCHEMA": namespace}
    environment = {**os.environ, **settings, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}

    def dbt(*arguments: str, fails: bool = False) -> str:
        command = [str(DBT), "--no-use-colors", *arguments]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout

    def rows(table: str, columns: str) -> list[tuple[object, ...]]:
        query = f"SELECT {columns} FROM pravega.{namespace}.{table} ORDER BY ALL"
        return [tuple(row) for row in spark.sql(query).collect()]

    dbt("seed")
    dbt("run")
    assert rows("room_temperatures", "room, temp, readings") == [("cellar", 18.0, 1), ("hall", 21.0, 2)]
    assert rows("warm_readings", "sensor_id, temp") == [(1, 20.5), (1, 21.5)]
    assert rows("hottest_rooms", "room, temp") == [("hall", 21.5)]
    assert [row.viewName for row in spark.sql(f"SHOW VIEWS IN pravega.{namespace}").collect()] == ["hottest_rooms"]
    spark.sql(f"INSERT INTO pravega.{namespace}.readings VALUES (2, TIMESTAMP '2026-11-01 12:00:00', 24.0)")
    dbt("run")
    assert rows("room_temperatures", "room, temp, readings") == [("cellar", 21.0, 2), ("hall", 21.0, 2)]
    assert rows("warm_readings", "sensor_id, temp") == [(1, 20.5), (1, 21.5), (2, 24.0)]
    described = spark.sql(f"DESCRIBE EXTENDED pravega.{namespace}.room_temperatures").collect()
    shown = {row.col_name: row.data_type for row in described}
    assert shown["Comment"] == "Mean temperature of each room" and "format=json" in shown["Table Properties"]
    assert rows("hottest_rooms", "room, temp") == [("cellar", 24.0), ("hall", 21.5)]
    assert "PASS=5 " in dbt("test")
    dbt("docs", "generate")
    documented = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
    columns = documented["model.shop.warm_readings"]["columns"]
    assert {name: column["type"] for name, column in columns.items()} == {
        "sensor_id": "integer",
        "taken": "timestamp",
        "temp": "double",
    }
    view = documented["model.shop.hottest_rooms"]
    assert view["metadata"]["type"] == "view" and list(view["columns"]) == ["room", "temp"]
    view_model = project / "models" / "hottest_rooms.sql"
    query = view_model.read_text()
    for materialized, views in (("table", 0), ("view", 1)):
        view_model.write_text("{{ config(materialized='" + materialized + "') }}\n" + query)
        dbt("run", "--select", "hottest_rooms")
        assert spark.sql(f"SHOW VIEWS IN pravega.{namespace}").count() == views
        assert rows("hottest_rooms", "count(*)") == [(2,)]
    dbt("run", "--full-refresh", "--select", "warm_readings")
    model = project / "models" / "warm_readings.sql"
    model.write_text(model.read_text().replace("'append'", "'insert_overwrite'"))
    refused = dbt("run", "--select", "warm_readings", fails=True)
    assert "[PRAVEGA_UNSUPPORTED_OPERATION] INSERT OVERWRITE is not possible" in refused
    assert rows("warm_readings", "count(*)") == [(3,)]
