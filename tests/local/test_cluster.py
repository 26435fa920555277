"""Real servers: started, looked at, stopped, and found again after all that can go wrong in between."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.catalog import load_catalog

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.controller.controller import Controller
from pyspark_pravega.client.credentials import BasicCredentials
from pyspark_pravega.errors import AuthenticationError, InvalidOptionError, PermissionDeniedError, SetupError
from pyspark_pravega.local import cluster as cluster_module
from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.local.command import local
from pyspark_pravega.local.directories import STORE_PASSWORD
from pyspark_pravega.local.ports import Ports, find_free_ports
from pyspark_pravega.local.processes import ServerProcess
from pyspark_pravega.local.state import ClusterInfo, ClusterState
from tests import tutorial

_PATIENCE_S = 120.0


def _local(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `pyspark-pravega local`: to start servers as a program of its own, which they outlive, else in this one."""
    command = [arguments[0], "--dir", str(directory), *arguments[1:]]
    if arguments[0] == "start":
        program = [sys.executable, "-m", "pyspark_pravega.local", *command]
        return subprocess.run(program, capture_output=True, text=True, check=False)
    done = CliRunner().invoke(local, command)
    return subprocess.CompletedProcess(command, done.exit_code, done.stdout, done.stderr)


def _first_words(lines: list[str]) -> list[str]:
    return [re.sub(r"\W.*", "", line) for line in lines]


def _processes(directory: Path) -> dict[str, ServerProcess]:
    state = ClusterState.read(directory / "state.json")
    return {} if state is None else dict(state.processes)


def _wait_until_ended(processes: dict[str, ServerProcess]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while any(process.is_alive() for process in processes.values()):
        assert time.monotonic() < deadline, f"still alive: {processes}"
        time.sleep(0.05)


def _scopes(info: ClusterInfo, user: str | None = None, password: str | None = None) -> list[str]:
    credentials = None if user is None else BasicCredentials(user, password or info.users[user])
    config = ClientConfig(info.controller_uri, credentials=credentials, trust_store=info.ca_file)
    with Controller(config) as controller:
        return controller.list_scopes()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A cluster directory; whatever still runs in it is stopped at the end."""
    path = tmp_path / "cluster"
    yield path
    found = LocalCluster.find(path)
    if found is not None:
        found.stop()


@pytest.fixture
def dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment as behind a company's proxy, which knows nothing of this machine's ports."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for spelling in (name, name.upper()):
            monkeypatch.setenv(spelling, "http://localhost:1")
    for spelling in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(spelling, raising=False)


@pytest.mark.usefixtures("dead_proxy")
def test_life_of_a_cluster(directory: Path, cluster: ClusterInfo) -> None:
    """By the commands, beside another cluster that runs all the time."""
    for command in ("status", "env"):
        result = _local(directory, command)
        assert result.returncode == 3
        assert "not running" in result.stdout + result.stderr
    result = _local(directory, "stop")
    assert (result.returncode, result.stdout) == (0, f"not running in {directory}\n")

    result = _local(directory, "start", "--heap", "512m")
    assert result.returncode == 0, result.stderr
    assert "starting pravega" in result.stderr
    shown = next(step for step in tutorial.commands() if "local start" in step.code)
    assert _first_words(result.stderr.splitlines()[:2] + result.stdout.splitlines()) == _first_words(
        shown.output.splitlines()[:-2]
    )
    started = _processes(directory)
    assert set(started) == {"pravega", "registry"}
    assert (directory / "state.json").stat().st_mode & 0o777 == 0o600

    result = _local(directory, "env")
    values = dict(line.removeprefix("export ").split("=", 1) for line in result.stdout.splitlines())
    assert set(values) == {"PRAVEGA_CONTROLLER_URI", "PRAVEGA_SCHEMA_REGISTRY_URI"}
    info = ClusterInfo(values["PRAVEGA_CONTROLLER_URI"], values["PRAVEGA_SCHEMA_REGISTRY_URI"])
    assert info.controller_uri != cluster.controller_uri
    assert "_schemaregistry" in _scopes(info)
    assert "_system" in _scopes(cluster)
    with connect(ClientConfig(info.controller_uri, registry_uri=info.registry_uri)) as pravega:
        assert pravega.registry().groups() == {}

    result = _local(directory, "status")
    assert result.returncode == 0
    assert info.controller_uri in result.stdout

    result = _local(directory, "start")
    assert result.returncode == 0
    assert "already running" in result.stderr
    assert info.controller_uri in result.stdout
    assert _processes(directory) == started
    result = _local(directory, "start", "--lake")
    assert (result.returncode, _processes(directory)) == (0, started)
    assert f"lakes            {directory}/run/lake\n" in result.stdout
    values = dict(line.removeprefix("export ").split("=", 1) for line in _local(directory, "env").stdout.splitlines())
    [settings] = shlex.split(values["PRAVEGA_LAKE"])
    assert load_catalog("lake", **json.loads(settings)).list_namespaces() == []
    result = _local(directory, "start", "--tls")
    assert result.returncode == 1
    assert "without TLS and without users already runs" in result.stderr

    result = _local(directory, "stop")
    assert result.returncode == 0, result.stderr
    assert not any(process.is_alive() for process in started.values())
    assert {path.name for path in directory.iterdir()} == {"lock", "logs"}
    assert _local(directory, "status").returncode == 3


_START = """
import json, sys
from pyspark_pravega.local.accounts import Account
from pyspark_pravega.local.cluster import LocalCluster
settings = json.loads(sys.argv[2])
if accounts := settings.pop("accounts", None):
    settings["accounts"] = {name: Account(tuple(rights), *password) for name, (rights, *password) in accounts.items()}
LocalCluster.start(sys.argv[1], report=lambda line: print(line, flush=True), **settings)
print("ready", flush=True)
sys.stdin.read()
"""


def _start_command(directory: Path, **settings: Any) -> list[str]:
    """A program that starts a cluster and says when it is ready; accounts are lists of rights and of a password."""
    return [sys.executable, "-c", _START, str(directory), json.dumps(settings)]


@pytest.mark.usefixtures("dead_proxy")
def test_tls_and_users_of_a_cluster_that_ends_with_its_parent(directory: Path) -> None:
    accounts = {
        "root": [["prn::*,READ_UPDATE"]],
        "ünal": [["prn::/,READ", "prn::/scope:_system,READ"], "pä:ss wörd"],
        "nobody": [[]],
    }
    command = _start_command(directory, tls=True, accounts=accounts, end_with_parent=True)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert "ready\n" in parent.stdout
        running = LocalCluster.find(directory)
        assert running is not None
        started = _processes(directory)
        assert set(started) == {"pravega", "registry"} and all(process.is_alive() for process in started.values())
        info = running.info
        assert info.controller_uri.startswith("tls://")
        assert info.registry_uri is not None
        assert info.registry_uri.startswith("https://")
        assert set(info.users) == set(accounts)
        assert "_schemaregistry" in _scopes(info, "root")
        assert _scopes(info, "ünal") == ["_system"]
        with pytest.raises(PermissionDeniedError):
            _scopes(info, "nobody")
        with pytest.raises(AuthenticationError):
            _scopes(info, "root", "wrong")
        with pytest.raises(AuthenticationError):
            _scopes(info)

        secrets = {*info.users.values(), STORE_PASSWORD}
        processes = running.state.processes.values()
        commands = [Path(f"/proc/{process.pid}/cmdline").read_text("utf-8") for process in processes]
        for text in [*commands, repr(running.state), repr(info)]:
            assert not any(secret in text for secret in secrets)
        readable = [
            path
            for path in [*directory.rglob("*")]
            if path.is_file() and path.stat().st_mode & 0o077 and path.suffix not in (".xml", ".crt")
        ]
        assert readable == []

        result = _local(directory, "env", "--user", "ünal")
        values = dict(line.removeprefix("export ").split("=", 1) for line in result.stdout.splitlines())
        assert values["PRAVEGA_TRUST_STORE"] == info.ca_file
        assert values["pravega_client_auth_method"] == "Basic"
        assert BasicCredentials("ünal", "pä:ss wörd").authorization() == f"Basic {values['pravega_client_auth_token']}"
        result = _local(directory, "env", "--user", "someone")
        assert result.returncode == 1
        assert "no user 'someone'" in result.stderr
        parent.kill()
    _wait_until_ended(started)
    for log in (directory / "logs").iterdir():
        text = log.read_text("utf-8")
        assert not any(secret in text for secret in secrets), log


@pytest.mark.faults
def test_ports_taken_by_other_programs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each between the choice of the ports and their use."""
    # Pravega exits, Pravega does not notice, the registry exits.
    losses = ["zookeeper", "segment_store", "registry"]
    choices: list[Ports] = []
    with ExitStack() as others:

        def choose() -> Ports:
            choices.append(find_free_ports())
            if len(choices) <= len(losses):
                other = others.enter_context(socket.socket())
                other.bind(("127.0.0.1", getattr(choices[-1], losses[len(choices) - 1])))
                other.listen()
            return choices[-1]

        monkeypatch.setattr(cluster_module, "find_free_ports", choose)
        reports: list[str] = []
        with LocalCluster.start(directory, timeout=240, report=reports.append) as running:
            assert running.state.ports == choices[-1]
            assert _scopes(running.info)
    assert sum("another program took a port" in report for report in reports) == len(losses)


@pytest.mark.faults
def test_after_a_crash(directory: Path) -> None:
    first = LocalCluster.start(directory, storage=directory / "storage")
    (storage,) = (directory / "storage").iterdir()
    left = dict(first.state.processes)
    os.kill(left["pravega"].pid, signal.SIGKILL)
    _wait_until_ended({"pravega": left["pravega"]})
    result = _local(directory, "status")
    assert result.returncode == 3
    assert "failed: pravega ended by itself" in result.stdout
    assert _local(directory, "env").returncode == 3

    result = _local(directory, "start")
    assert result.returncode == 0, result.stderr
    assert "cleaning up after an earlier cluster" in result.stderr
    assert not left["registry"].is_alive()
    assert not storage.exists()
    # The later cluster is not the first one's to stop.
    first.stop()
    assert _local(directory, "status").returncode == 0
    again = _processes(directory)
    assert _local(directory, "stop").returncode == 0
    assert not any(process.is_alive() for process in again.values())


def test_start_that_is_killed(directory: Path) -> None:
    with subprocess.Popen(_start_command(directory), stdout=subprocess.PIPE) as starting:
        deadline = time.monotonic() + _PATIENCE_S
        while not (started := _processes(directory)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        starting.kill()
    assert started["pravega"].is_alive()
    result = _local(directory, "status")
    assert result.returncode == 3
    assert "not ready" in result.stdout
    assert _local(directory, "stop").returncode == 0
    assert not started["pravega"].is_alive()


def test_server_that_does_not_start(directory: Path) -> None:
    with pytest.raises(SetupError, match=r"(?s)pravega ended with exit code 1.*pravega\.out.*heap"):
        LocalCluster.start(directory, heap="1k")
    assert LocalCluster.find(directory) is None
    assert not (directory / "run").exists()


def test_start_that_takes_too_long(directory: Path) -> None:
    with pytest.raises(SetupError, match=r"(?s)pravega did not answer in time.*pravega\.log"):
        LocalCluster.start(directory, timeout=0)
    assert LocalCluster.find(directory) is None


def test_heap_of_the_wrong_form(directory: Path) -> None:
    with pytest.raises(InvalidOptionError, match="heap 'lots'"):
        LocalCluster.start(directory, heap="lots")
    assert not directory.exists()


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"version": 0}', b"\xff"])
def test_damaged_state_file(directory: Path, content: bytes) -> None:
    directory.mkdir()
    (directory / "state.json").write_bytes(content)
    result = _local(directory, "status")
    (directory / "state.json").unlink()
    assert result.returncode == 1
    assert "state.json cannot be used" in result.stderr
    assert "Delete it" in result.stderr
