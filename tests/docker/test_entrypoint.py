"""The container's entrypoint, run without a container."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pyspark_pravega.commands.cli import main as cli
from pyspark_pravega.local.state import ClusterInfo
from tests.spark_servers import listens

STARTED_WITHIN = 600  # seconds; two JVMs on a machine that may be very busy
ENTRYPOINT = Path(__file__).resolve().parents[2] / "docker" / "entrypoint.sh"


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(ENTRYPOINT), *arguments],
        text=True,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "PATH": path, **environment},
    )


def test_any_program_can_be_run() -> None:
    done = run("sh", "-c", "echo $1; exit 3", "sh", "a b")
    assert (done.stdout, done.returncode) == ("a b\n", 3)


def test_commands_of_ours_need_no_prefix() -> None:
    assert run("jar").stdout.strip().endswith("pyspark-pravega-adapter.jar")
    assert "no controller" not in run("conf").stderr


def test_it_knows_each_command_and_the_version() -> None:
    known = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^  ([a-z |-]+)\)$", ENTRYPOINT.read_text(), re.MULTILINE))))
    shown = run("--help").stdout.partition("\nCommands:\n")[2]
    commands = set(re.findall(r"^  ([\w-]+) ", shown, re.MULTILINE))
    assert {"ui", "metrics", "run"} < commands <= known and set(cli.commands) <= commands
    assert run("--version").stdout.startswith("pyspark-pravega")


@pytest.mark.parametrize("arguments", [(), ("thriftserver",), ("--conf", "spark.ui.enabled=false")])
def test_the_default_is_the_jdbc_server(arguments: tuple[str, ...]) -> None:
    # There is no such port, which ends the server before it starts.
    assert "70000 is not in the range" in run(*arguments, THRIFT_PORT="70000").stderr


def test_the_demo_is_the_one_of_the_examples() -> None:
    done = run("demo", EXAMPLES_DIR="/nowhere", PYSPARK_PYTHON=sys.executable)
    assert "/nowhere/demo.py" in done.stderr


def test_a_health_check_sees_who_listens() -> None:
    """On the port itself, not one that has its digits, and not a client's."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert run("listens", str(port)).returncode == 1
        server.listen()
        assert run("listens", str(port)).returncode == 0
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert run("listens", str(client.getsockname()[1])).returncode == 1


def test_a_health_check_asks_for_an_answer(tmp_path: Path) -> None:
    """A server whose process is stopped still listens, and so do the ports of others."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        program = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
        server = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path, text=True)
        try:
            assert server.stdout is not None
            web = server.stdout.readline().split(" port ")[1].split()[0]
            assert run("answers", web).returncode == 0
            assert run("answers", str(port), web).returncode == 0
            server.send_signal(signal.SIGSTOP)
            assert run("listens", web).returncode == 0
            assert run("answers", web).returncode != 0
            server.send_signal(signal.SIGCONT)
            assert run("answers", web).returncode == 0
        finally:
            server.kill()
            server.communicate()
        assert run("answers", str(port), web).returncode == run("answers", web).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("listens",), "usage: listens PORT"),
        (("answers", "jdbc"), "usage: answers PORT"),
        (("driver",), "driver is for Spark on Kubernetes, which sets SPARK_DRIVER_BIND_ADDRESS. Use submit."),
        (("executor",), "executor is for Spark on Kubernetes, which sets SPARK_DRIVER_URL."),
        (
            ("notebook",),
            "This image has no Jupyter: build one with docker build -f docker/Dockerfile --target",
        ),
    ],
)
def test_what_is_missing_is_named(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2 and done.stderr.startswith(message) and done.stderr.count("\n") == 1


def test_a_container_that_can_write_nowhere() -> None:
    done = run("true", HOME="/nowhere", TMPDIR="/nowhere")
    assert done.stderr == "The container can write nowhere: with --read-only, add --tmpfs /tmp.\n"
    assert done.returncode == 2


def test_a_health_check_leaves_nothing_behind(tmp_path: Path) -> None:
    assert run("listens", "1", HOME="/nowhere", TMPDIR=str(tmp_path)).returncode == 1
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to become another user")
def test_a_server_uses_the_volume_in_a_home_that_is_read_only() -> None:
    """Where another user finds the directory of the notebooks writable, and nothing else of the home."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        root.chmod(0o755)
        for name, mode in (("home/notebooks", 0o777), ("examples/notebook", 0o755), ("bin", 0o755), ("tmp", 0o777)):
            (root / name).mkdir(parents=True)
            (root / name).chmod(mode)
        (root / "examples" / "notebook" / "tutorial.ipynb").write_text("{}")
        for name, text in (("entrypoint.sh", ENTRYPOINT.read_text()), ("bin/jupyter", "#!/bin/sh\npwd\n")):
            (root / name).write_text(text)
            (root / name).chmod(0o755)
        environment = {"HOME": f"{root}/home", "EXAMPLES_DIR": f"{root}/examples", "TMPDIR": f"{root}/tmp"}
        done = subprocess.run(
            ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", root / "entrypoint.sh", "notebook"],
            text=True,
            capture_output=True,
            cwd=root,
            env={**environment, "PATH": f"{root}/bin:{os.environ['PATH']}"},
        )
        assert done.stdout == f"{root}/home/notebooks\n", done.stderr
        assert (root / "home" / "notebooks" / "tutorial.ipynb").is_file()


def test_a_user_who_may_not_write_into_the_home_gets_one(tmp_path: Path) -> None:
    where = ("sh", "-c", 'echo "$PWD $HOME $SPARK_WORKER_DIR"; touch "$HOME/file"')
    # Kept where the container was told to start.
    current, home, work = run(*where, cwd=tmp_path, HOME="/nowhere", TMPDIR=str(tmp_path)).stdout.split()
    assert current == str(tmp_path) and Path(home, "file").is_file() and work == f"{home}/work"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_container_answers_over_jdbc(cluster: ClusterInfo, tmp_path: Path) -> None:
    """No arguments, the servers in the environment: what `docker run` and compose.yaml do."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [str(ENTRYPOINT)],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env={**os.environ, **servers, "PATH": path, "THRIFT_PORT": str(port)},
        )
    try:
        deadline = time.monotonic() + STARTED_WITHIN
        while not listens(port):
            assert server.poll() is None and time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.2)
        statement = "SHOW CATALOGS LIKE 'prav*'; SHOW NAMESPACES IN pravega; SELECT 'answered'"
        done = run("beeline", "-u", f"jdbc:hive2://localhost:{port}", "-e", statement, cwd=tmp_path)
        assert done.returncode == 0 and "answered" in done.stdout, done.stderr
    finally:
        server.terminate()
        server.wait()
