"""Python workers: forked with everything imported, and used again by the next query."""

from __future__ import annotations

import gc
import importlib
import io
import os
import socket
import struct
import subprocess
import sys
import time
import uuid
import zipfile
import zipimport
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import Row, SparkSession

from pyspark_pravega.datasource import worker_daemon
from pyspark_pravega.datasource.workers.spark_socket import acknowledge, answer_at_once
from tests.processes import running, task_workers, worker_daemons


@pytest.fixture
def jvm(spark: SparkSession) -> int:
    return int(spark.sparkContext._jvm.ProcessHandle.current().pid())


@pytest.fixture
def table(spark: SparkSession, scope: str) -> str:
    """One segment with far more rows than are asked for."""
    name = f"pravega.`{scope}`.numbers"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, text STRING) USING pravega")
    spark.range(0, 50_000, 1, 1).selectExpr("id", "repeat('x', 20) AS text").writeTo(name).append()
    return name


@pytest.mark.parametrize("compiled", ["true", "false"])
def test_a_worker_that_served_a_limit_serves_the_next_query(
    spark: SparkSession, table: str, jvm: int, compiled: str
) -> None:
    usual = spark.conf.get("spark.sql.codegen.wholeStage")
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    try:
        assert spark.sql(f"SELECT id FROM {table} LIMIT 3").collect() == [Row(id=0), Row(id=1), Row(id=2)]
        before = set(task_workers(jvm))
        for _ in range(5):
            assert len(spark.sql(f"SELECT * FROM {table} LIMIT 10").collect()) == 10
            with redirect_stdout(io.StringIO()) as shown:
                spark.table(table).show()
            assert "only showing top 20 rows" in shown.getvalue()
            now = set(task_workers(jvm))
            assert now and now <= before
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", str(usual))


def test_workers_are_forked_with_our_imports_done(spark: SparkSession, table: str, jvm: int) -> None:
    """A thread would be lost by forking: there is none but that of pyarrow's allocator, which knows of forks."""
    assert spark.table(table).count() == 50_000
    daemons = worker_daemons(jvm)
    assert daemons
    for daemon in daemons:
        assert "-m pyspark_pravega.datasource.worker_daemon" in running(daemon)
        names = [name.read_text().strip() for name in Path(f"/proc/{daemon}/task").glob("*/comm")]
        assert len([name for name in names if name != "jemalloc_bg_thd"]) == 1, names
        assert "cygrpc" in Path(f"/proc/{daemon}/maps").read_text()


def test_modules_that_a_task_imports_are_left_out_of_collections(spark: SparkSession, tmp_path: Path) -> None:
    """Spark collects garbage after each task: with pyiceberg that took 40 ms."""
    module, directory = f"held_{uuid.uuid4().hex}", str(tmp_path)
    Path(directory, f"{module}.py").write_text("HELD = [[] for _ in range(20_000)]\n")

    def look(_: int) -> tuple[int, int]:
        if module not in sys.modules:
            sys.path.append(directory)
            importlib.import_module(module)
        return os.getpid(), gc.get_freeze_count()

    at_import: dict[int, int] = {}
    for _ in range(20):
        [(worker, frozen)] = spark.sparkContext.parallelize([0], 1).map(look).collect()
        if worker in at_import:
            assert frozen > at_import[worker] + 20_000
            return
        at_import[worker] = frozen
    raise AssertionError("no worker ran a second task")


def test_archives_are_read_again_if_they_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark 4.1 forgets all directories before each task, those of its own archives with thousands of names too."""
    read, really_read = list[str](), worker_daemon._read_again

    def note(importer: zipimport.zipimporter) -> None:
        read.append(importer.archive)
        really_read(importer)

    monkeypatch.setattr(worker_daemon, "_read_again", note)
    archive = tmp_path / "modules.zip"

    def put(mode: Literal["w", "a"], name: str) -> None:
        with zipfile.ZipFile(archive, mode) as opened:
            opened.writestr(f"{name}.py", "")

    put("w", "one")
    importer = zipimport.zipimporter(str(archive))
    put("a", "two")  # before anybody has asked for the first time
    for _ in range(3):
        worker_daemon.read_if_changed(importer)
    assert importer.find_spec("two") is not None and read == [str(archive)]
    put("a", "three")
    for _ in range(3):
        worker_daemon.read_if_changed(importer)
    assert importer.find_spec("three") is not None and read == [str(archive)] * 2
    changed = archive.stat().st_mtime_ns
    put("w", "four")
    os.utime(archive, ns=(changed, changed))
    worker_daemon.read_if_changed(importer)
    assert importer.find_spec("four") is not None and importer.find_spec("one") is None
    archive.unlink()
    worker_daemon.read_if_changed(importer)
    assert importer.find_spec("four") is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such option")
def test_workers_acknowledge_at_once() -> None:
    """Option 0 is what Linux sets on a connection that was answered on: it delays acknowledgements by 40 ms then."""
    with socket.create_server(("localhost", 0)) as server, socket.create_connection(server.getsockname()) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        answer_at_once(client)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        acknowledge()
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    left, right = socket.socketpair()
    with left, right:
        answer_at_once(left)  # Spark's Unix sockets know neither option, and need none


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[bytes]]:
    """A daemon as Spark starts it."""
    command = [sys.executable, "-m", "pyspark_pravega.datasource.worker_daemon"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


def test_no_process_is_killed_that_has_the_id_of_an_ended_worker(daemon: subprocess.Popen[bytes]) -> None:
    """Spark names the workers that it needs no more by their ids, including those that have long ended."""
    assert daemon.stdin is not None and daemon.stdout is not None
    (port,) = struct.unpack("!i", daemon.stdout.read(4))
    with socket.create_connection(("127.0.0.1", port)) as connection, subprocess.Popen(["sleep", "600"]) as other:
        (worker,) = struct.unpack("!i", connection.recv(4))
        for pid in (other.pid, worker):
            daemon.stdin.write(struct.pack("!i", pid))
            daemon.stdin.flush()
        deadline = time.monotonic() + 60
        while running(worker):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert other.poll() is None
        other.terminate()
