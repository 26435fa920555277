"""Streaming queries of a thin client: Spark Connect's server has the catalog, the client has not even this package."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.spark_servers import CONNECT, free_port, listening

CLIENT = [sys.executable, str(Path(__file__).with_name("connect_client.py"))]


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """A namespace with the tables that the client reads."""
    name = f"pravega.connect{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE {name}")
    for table in ("events", "doomed", "other"):
        spark.sql(f"CREATE TABLE {name}.{table} (id INT, name STRING)")
    changes = "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')"
    spark.sql(f"CREATE TABLE {name}.customers (id INT, name STRING) {changes}")
    for table in ("events", "customers"):
        spark.sql(f"INSERT INTO {name}.{table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    yield name
    spark.sql(f"DROP NAMESPACE {name} CASCADE")


@pytest.fixture
def url(cluster: ClusterInfo, tmp_path: Path) -> Iterator[str]:
    """The address of a server of Spark Connect with the catalog."""
    port = free_port()
    confs = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    options = [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]
    with listening(port, ["connect-server", "--master", "local[2]", *options], servers, tmp_path, ready=CONNECT):
        yield f"sc://127.0.0.1:{port}"


@pytest.mark.pipelines
@pytest.mark.short
@pytest.mark.timeout(600)
def test_streaming_queries_of_a_client(spark: SparkSession, namespace: str, url: str, tmp_path: Path) -> None:
    done = subprocess.run([*CLIENT, url, namespace, str(tmp_path / "checkpoints")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    errors = seen.pop("errors")
    exception = seen.pop("exception")
    rows = [[1, "a"], [2, "b"], [3, "c"], [4, "d"]]
    assert seen == {
        "batches": [2, 1],
        "active": ["copying"],
        "running after stop": False,
        "copy": rows,
        "SQL": [[3], [4]],
        "changes": [[id, name, "insert"] for id, name in rows[:3]],
        "options": 4,
        "foreachBatch": 8,
    }
    assert sorted(tuple(row) for row in spark.table(f"{namespace}.copy").collect()) == [tuple(row) for row in rows]
    assert "[PRAVEGA_UNSUPPORTED_OPERATION]" in errors["table of changes"]
    assert "readStream.changes" in errors["table of changes"]
    assert "[PRAVEGA_INVALID_OPTION]" in errors["option"] and "leave the option out" in errors["option"]
    assert "writeStream.start()" in errors["collect"]
    for text in (errors["dropped"], exception):
        assert "[PRAVEGA_STREAM_NOT_FOUND]" in text
