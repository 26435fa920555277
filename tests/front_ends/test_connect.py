"""Streaming queries of a thin client: Spark Connect's server has the catalog, the client has not even this package."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.local.accounts import DEFAULT_ACCOUNTS
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.insert.test_atomicity import wait_until
from tests.datasource.transactions import begin_insert, list_committing
from tests.processes import running_with, worker_daemons
from tests.servers import shared_cluster
from tests.spark_servers import CONNECT, free_port, listening
from tests.sql_clients import ConnectClient, SqlError

COPIES = ("read", "table", "foreachBatch", "INSERT")
"""What the client does that copies."""
INTERRUPTING = """
import sys, threading
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
threading.Thread(target=lambda: (sys.stdin.readline(), spark.interruptAll()), daemon=True).start()
try:
    spark.sql(sys.argv[2])
except Exception as error:
    print(error)
"""
"""Runs a statement, which it interrupts when a line comes in."""
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


@pytest.mark.pipelines
@pytest.mark.short
@pytest.mark.timeout(600)
def test_sessions_share_python_workers(namespace: str, url: str, tmp_path: Path) -> None:
    """Each daemon would stay until the server ends, though a session without files needs none of its own."""
    (server,) = running_with("SparkConnectServer", f"spark.connect.grpc.binding.port={url.rpartition(':')[2]}")
    for number in range(3):
        client = ConnectClient(url, tmp_path / f"{number}.log")
        try:
            assert client.run(f"SELECT id FROM {namespace}.events ORDER BY id") == [("1",), ("2",), ("3",)]
        finally:
            client.close()
        assert len(worker_daemons(server)) == 1


@pytest.mark.pipelines
@pytest.mark.short
@pytest.mark.timeout(600)
def test_an_insert_that_is_interrupted_while_it_waits_for_another_commit(
    spark: SparkSession, namespace: str, url: str, client_config: ClientConfig
) -> None:
    with connect(client_config) as pravega:
        log = CommitLog(pravega, Stream(namespace.removeprefix("pravega."), "other"))
        before, _ = begin_insert(pravega, log._stream, [b"{}"])
        assert log.enter(before.transaction.id, rows=1, operation="INSERT")
        command = [sys.executable, "-c", INTERRUPTING, url, f"INSERT INTO {namespace}.other VALUES (1, 'a')"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            wait_until(lambda: len(list_committing(log)) == 2, "the INSERT in the queue", 120)
            said, _ = client.communicate("\n", timeout=120)
        assert "OPERATION_CANCELED" in said
        wait_until(lambda: list_committing(log) == (before.transaction.id,), "its end")
        log.withdraw(before.transaction.id)
        before.abort()
    assert spark.table(f"{namespace}.other").collect() == []


def prepare_copies(namespace: str) -> list[str]:
    """Return the statements that make what the client copies, and what it copies into."""
    tables = [f"CREATE TABLE {namespace}.{table} (id INT, name STRING)" for table in ("events", "copy", "other")]
    rows = f"INSERT INTO {namespace}.events VALUES (1, 'a'), (2, 'b'), (3, 'c')"
    return [f"CREATE NAMESPACE {namespace}", *tables, rows]


@contextmanager
def serve_users(cluster: ClusterInfo, directory: Path) -> Iterator[str]:
    """Start a server whose login is the admin's; its sessions have that of the user whom their client names."""
    logins, prefix, port = directory / "logins.json", "spark.sql.catalog.pravega", free_port()
    logins.touch(mode=0o600)
    logins.write_text(json.dumps({user: cluster.users[user] for user in ("admin", "reader", "nobody")}))
    confs = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        f"{prefix}.controller-uri": cluster.controller_uri,
        f"{prefix}.schema-registry-uri": cluster.registry_uri,
        f"{prefix}.security.trust-store": cluster.ca_file,
        f"{prefix}.security.username": "admin",
        f"{prefix}.security.password": "${env:TEST_PASSWORD}",
        f"{prefix}.security.user-logins": logins,
    }
    options = [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]
    server = ["connect-server", "--master", "local[2]", *options]
    with listening(port, server, {"TEST_PASSWORD": cluster.users["admin"]}, directory, ready=CONNECT):
        yield f"sc://127.0.0.1:{port}"


def copy(url: str, user: str, namespace: str, directory: Path, seconds: float = 0) -> dict[str, str | None]:
    """Run the client that copies, as a user; return its errors."""
    arguments = [f"{url}/;user_id={user}", namespace, str(directory / user), str(seconds)]
    done = subprocess.run([*CLIENT, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.pipelines
@pytest.mark.short
@pytest.mark.timeout(600)
def test_each_user_has_their_own_login(secure_cluster: ClusterInfo, tmp_path: Path) -> None:
    """In statements, streams and foreachBatch."""
    namespace = f"pravega.connect{uuid.uuid4().hex[:8]}"
    table, denied = f"{namespace}.events", "PRAVEGA_PERMISSION_DENIED"
    no_login = "User 'stranger' has no login in 'security.user-logins'"
    with serve_users(secure_cluster, tmp_path) as url, ExitStack() as ends:
        clients = {}
        for user in ("admin", "reader", "nobody", "stranger"):
            clients[user] = ConnectClient(f"{url}/;user_id={user}", tmp_path / f"{user}.log")
            ends.callback(clients[user].close)
        for statement in prepare_copies(namespace):
            clients["admin"].run(statement)
        for user, statement, answer in (
            ("admin", f"SELECT sum(id) FROM {table}", [("6",)]),
            ("nobody", f"SELECT sum(id) FROM {table}", denied),
            ("reader", f"SELECT sum(id) FROM {table}", [("6",)]),
            ("reader", f"INSERT INTO {table} VALUES (4, 'd')", denied),
            ("stranger", f"SELECT sum(id) FROM {table}", no_login),
            ("nobody", "SET `spark.sql.catalog.pravega.security.username` = admin", None),
            ("nobody", f"SELECT sum(id) FROM {table}", denied),
        ):
            if isinstance(answer, str):
                with pytest.raises(SqlError, match=answer):
                    clients[user].run(statement)
            else:
                found = clients[user].run(statement)
                assert answer is None or found == answer, (user, statement)
        assert copy(url, "admin", namespace, tmp_path) == dict.fromkeys(COPIES)
        of_reader = copy(url, "reader", namespace, tmp_path)
        assert of_reader.pop("read") is None
        assert all(denied in str(error) for error in of_reader.values()), of_reader
        for user, message in (("nobody", denied), ("stranger", no_login)):
            refused = copy(url, user, namespace, tmp_path)
            assert all(message in str(error) for error in refused.values()), refused
        assert clients["admin"].run(f"SELECT count(*) FROM {namespace}.copy") == [("6",)]
        assert clients["admin"].run(f"SELECT count(*) FROM {namespace}.other") == [("3",)]
        clients["admin"].run(f"DROP NAMESPACE {namespace} CASCADE")


@pytest.mark.pipelines
@pytest.mark.long
@pytest.mark.timeout(900)
def test_tokens_that_expire_under_a_users_login(tmp_path: Path) -> None:
    """In the middle of a scan, an INSERT, a stream and foreachBatch, whose tasks last longer than a token."""
    properties = {"controller.security.auth.delegationToken.ttl.seconds": "10"}
    cluster = shared_cluster(
        "expiring", tls=True, accounts=DEFAULT_ACCOUNTS, properties=properties, few=True, timeout=240
    )
    namespace = f"pravega.connect{uuid.uuid4().hex[:8]}"
    with serve_users(cluster, tmp_path) as url:
        client = ConnectClient(f"{url}/;user_id=admin", tmp_path / "admin.log")
        try:
            for statement in prepare_copies(namespace):
                client.run(statement)
            assert copy(url, "admin", namespace, tmp_path, seconds=8) == dict.fromkeys(COPIES)
            for table, count in (("copy", "6"), ("other", "3")):
                assert client.run(f"SELECT count(*) FROM {namespace}.{table}") == [(count,)]
        finally:
            client.close()
