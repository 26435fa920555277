"""What is wrong before Spark starts is told before Spark starts: Java, PySpark, addresses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.foreign_servers import foreign_servers

PROGRAMS = ("sql", "pyspark", "thriftserver", "connect-server", "submit", "run")
NO_SERVERS = {name: text for name, text in os.environ.items() if not name.lower().startswith("pravega")}
ADDRESS = {"PRAVEGA_CONTROLLER_URI": "tcp://localhost:9090"}
INSTALL = "install a Java runtime 17, 21 or 25 and put it on PATH, or set JAVA_HOME to its directory.\n"
NO_ADDRESS = (
    "[PRAVEGA_INVALID_OPTION] The option 'controller-uri' is needed, but not set. Set it as a catalog conf at the "
    "driver's start, a read option or a write option, or by the environment variable PRAVEGA_CONTROLLER_URI. To try it "
    "without servers of your own: 'pyspark-pravega local start' runs a Pravega on this machine, and "
    "'eval \"$(pyspark-pravega local env)\"' sets its addresses.\n"
)


@pytest.fixture
def java(tmp_path: Path) -> Iterator[Path]:
    """The home of an old Java that notes how it is called; Spark would call it again."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\necho \'openjdk version "11.0.2" 2019-01-15\' >&2\n')
    program.chmod(0o755)
    yield program.parent.parent


def start(name: str, *arguments: str, script: str = "SELECT 1", at: Path, ends: Any = False, **environment: str) -> str:
    """What a program says that must not start, or that `ends` with a failure."""
    (at / "job.sql").write_text(script)
    program = [sys.executable, "-m", "pyspark_pravega", name, *arguments, *(["job.sql"] if name == "run" else [])]
    done = subprocess.run(
        program, env={**NO_SERVERS, **environment}, cwd=at, text=True, capture_output=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1 and (ends or done.stdout == ""), done.stdout
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_java(name: str, java: Path, tmp_path: Path) -> None:
    old = start(name, at=tmp_path, JAVA_HOME=str(java), **ADDRESS)
    assert old == (
        f"Error: [PRAVEGA_SETUP_FAILED] Java at {java}/bin/java (from JAVA_HOME) is version 11; Spark and the local "
        f"servers need 17 or newer: {INSTALL}"
    )
    assert (tmp_path / "calls").read_text() == "-version\n"
    assert start(name, at=tmp_path, PATH="/nowhere", JAVA_HOME="", **ADDRESS) == (
        f"Error: [PRAVEGA_SETUP_FAILED] No Java found: JAVA_HOME is not set and PATH has no java; {INSTALL}"
    )
    wrong = f"Error: [PRAVEGA_SETUP_FAILED] JAVA_HOME is {tmp_path}, but {tmp_path}/bin/java is not a program: "
    assert start(name, at=tmp_path, PATH="/nowhere", JAVA_HOME=str(tmp_path), **ADDRESS) == wrong + INSTALL
    assert start(name, at=tmp_path, PATH=f"{java}/bin", JAVA_HOME=str(tmp_path), **ADDRESS) == (
        f"{wrong}unset JAVA_HOME, which leaves {java}/bin/java, or set it to another Java's directory.\n"
    )


def test_a_java_that_sparks_own_file_chooses_is_left_to_it(java: Path, tmp_path: Path) -> None:
    (tmp_path / "spark-env.sh").write_text("echo 'as Spark does' >&2; exit 1\n")
    said = start("sql", at=tmp_path, JAVA_HOME=str(java), SPARK_CONF_DIR=str(tmp_path), **ADDRESS)
    assert "as Spark does" in said and "PRAVEGA" not in said


@pytest.mark.parametrize("name", ["sql", "pyspark", "thriftserver", "connect-server", "run"])
def test_addresses(name: str, tmp_path: Path) -> None:
    said = start(name, script="SHOW NAMESPACES IN pravega", at=tmp_path)
    assert said == (f"job.sql: {NO_ADDRESS}" if name == "run" else f"Error: {NO_ADDRESS}")


@pytest.mark.parametrize("way", ["option", "variable"])
def test_a_port_that_another_program_has(way: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        given = ["--port", port] if way == "option" else []
        environment = {**ADDRESS, **({} if given else {"HIVE_SERVER2_THRIFT_PORT": port})}
        assert start("thriftserver", *given, at=tmp_path, **environment) == (
            f"Error: [PRAVEGA_SETUP_FAILED] Cannot listen on 0.0.0.0 port {port}: address already in use. "
            "Choose another address or port with --host and --port.\n"
        )


def test_another_spark(tmp_path: Path) -> None:
    home = tmp_path / "spark"
    for file in ("bin/spark-submit", "jars/spark-core_2.13-4.0.1.jar"):
        (home / file).parent.mkdir(parents=True)
        (home / file).touch()
    said = start("run", at=tmp_path, SPARK_HOME=str(home))
    assert said == (
        "Error: [PRAVEGA_SETUP_FAILED] There is no adapter for Spark 4.0.1, only for Spark 4.1, 4.2 and 4.3. Unset "
        "SPARK_HOME, or set it to one of these.\n"
    )
    # The same without SPARK_HOME, as with a PySpark that is too old.
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("__version__ = '4.0.1'\n")
    (home / "jars").rename(tmp_path / "pyspark" / "jars")
    (home / "bin").rename(tmp_path / "pyspark" / "bin")
    said = start("run", at=tmp_path, PYTHONPATH=str(tmp_path))
    assert said == (
        "Error: [PRAVEGA_SETUP_FAILED] There is no adapter for Spark 4.0.1, only for Spark 4.1, 4.2 and 4.3. Run: "
        f'{sys.executable} -m pip install "pyspark>=4.1,<4.4".\n'
    )


def test_configure_checks_java_but_leaves_addresses_to_later_confs(java: Path, tmp_path: Path) -> None:
    program = (
        "from pyspark.sql import SparkSession\nfrom pyspark_pravega import configure\n"
        "from pyspark_pravega.errors import SetupError\n"
        "try:\n    print(configure(SparkSession.builder)._options['spark.sql.catalog.pravega'])\n"
        "except SetupError as error:\n    print(error.sentence)\n"
    )

    def said(**environment: str) -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env={**NO_SERVERS, **environment}, text=True, capture_output=True).stdout

    assert said() == "io.github.pysparkpravega.PravegaCatalog\n"
    assert said(JAVA_HOME=str(java)).startswith(f"Java at {java}/bin/java (from JAVA_HOME) is version 11; Spark")


def test_run_finds_that_nobody_or_somebody_else_is_at_the_controllers_address(tmp_path: Path) -> None:
    script = "CREATE NAMESPACE pravega.iot"
    with foreign_servers() as foreign:
        port = foreign.registry_uri.rpartition(":")[2]
        said = start("run", "--controller-uri", f"tcp://localhost:{port}", script=script, at=tmp_path)
    assert said == (
        f"job.sql: [PRAVEGA_SERVER_UNAVAILABLE] Cannot list the scopes: the server at localhost:{port} answers, but is "
        "not a controller; give the address of a Pravega controller, whose port is 9090 by default.\n"
    )
    confs = ("--conf", "spark.sql.catalog.pravega.retry-timeout=100ms")
    said = start("run", *confs, script=script, at=tmp_path, PRAVEGA_CONTROLLER_URI="tcp://localhost:1")
    assert said.startswith(
        "job.sql: [PRAVEGA_SERVER_UNAVAILABLE] Cannot list the scopes: the controller at localhost:1 cannot be reached "
        "(connection refused); check the address, and that the server runs"
    )


def test_a_select_of_a_stream_in_the_shell_names_the_ways_to_run_it(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (id INT) USING pravega")
    stream = f"SELECT * FROM STREAM pravega.`{scope}`.t"
    said = start("sql", "-e", f"EXPLAIN {stream}; {stream}", at=tmp_path, PRAVEGA_CONTROLLER_URI=cluster.controller_uri,
                 PRAVEGA_SCHEMA_REGISTRY_URI=str(cluster.registry_uri), ends=True)  # fmt: skip
    assert said.splitlines()[-1] == (
        f"[PRAVEGA_UNSUPPORTED_OPERATION] SELECT ... FROM STREAM is not possible on pravega.`{scope}`.t: its rows have "
        "no end, and a client of SQL waits for it. Leave STREAM out for the rows so far; or write INSERT INTO <table> "
        "SELECT "
        "... FROM STREAM in a script that `pyspark-pravega run job.sql` runs; or, in Python, "
        "spark.readStream.table('<table>').writeStream.format('console').start(). SQLSTATE: 0A000"
    )
    assert "Physical Plan" in said and "\tat " not in said
