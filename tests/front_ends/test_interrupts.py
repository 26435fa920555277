"""Ctrl-C in commands, at several moments: one line, exit code 130, and no process that is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_pravega.interrupts import EXIT_CODE
from pyspark_pravega.local.state import ClusterInfo
from tests.processes import descendants, running

PATIENCE = 180


class Program:
    """A command in a process group of its own, as a shell starts it, and what it has said."""

    def __init__(self, log: Path, *arguments: str, python: tuple[str, ...] = (), **environment: str) -> None:
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, *python, "-m", "pyspark_pravega", *arguments],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=log.parent,
            )

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, happened: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not happened():
            assert self.process.poll() is None and time.monotonic() - began < PATIENCE, self.said
            time.sleep(0.02)

    def starts(self, word: str) -> None:
        """Wait until it has started a process with this word in its command line."""
        self.wait_for(lambda: any(word in running(pid) for pid in descendants(self.process.pid)))

    def interrupted(self, within: float) -> str:
        """Send Ctrl-C, as a terminal does, and return what was said; nothing of it may run on."""
        processes = descendants(self.process.pid)
        began = time.monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(PATIENCE)
        took = time.monotonic() - began
        assert code == EXIT_CODE and took < within, (code, took, self.said)
        while left := [found for pid in processes if (found := running(pid))]:
            assert time.monotonic() - began < PATIENCE, left
            time.sleep(0.05)
        assert "Traceback" not in self.said and "KeyboardInterrupt" not in self.said, self.said
        return self.said


@contextmanager
def start_command(log: Path, *arguments: str, python: tuple[str, ...] = (), **environment: str) -> Iterator[Program]:
    program = Program(log, *arguments, python=python, **environment)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            os.killpg(program.process.pid, signal.SIGKILL)
            program.process.wait()


@pytest.mark.parametrize("command", [("show", "tables"), ("doctor",), ("translate", "-"), ("run", "job.sql")])
def test_while_modules_are_loaded(tmp_path: Path, command: tuple[str, ...]) -> None:
    # Python tells of each module when it is loaded; click is the first one of others.
    with start_command(tmp_path / "log", *command, python=("-X", "importtime")) as program:
        program.wait_for(lambda: "click" in program.said)
        assert "\nInterrupted.\n" in program.interrupted(5.0)


def test_while_a_server_is_not_reached(tmp_path: Path) -> None:
    with socket.socket() as taken:  # a port on which nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with start_command(tmp_path / "log", "show", "tables", "--controller-uri", f"tcp://{address}") as program:
            program.wait_for(lambda: "trying for" in program.said)
            said = program.interrupted(2.0)
    assert re.fullmatch(
        rf"cannot reach the controller at {address} \(refused\), trying for \d s more\nInterrupted.\n", said
    )


def test_while_the_session_of_a_script_starts(cluster: ClusterInfo, tmp_path: Path) -> None:
    (tmp_path / "job.sql").write_text("SELECT 1")
    servers = ("--controller-uri", cluster.controller_uri)
    with start_command(tmp_path / "log", "run", "--master", "local[1]", "job.sql", *servers) as program:
        program.starts("org.apache.spark.deploy.SparkSubmit")
        assert "job.sql: stopped by SIGINT while Spark started\n" in program.interrupted(15.0)


def test_while_local_servers_start(tmp_path: Path) -> None:
    directory = tmp_path / "pravega"
    with start_command(tmp_path / "log", "local", "start", "--dir", str(directory), "--heap", "256m") as program:
        program.starts("pravega.properties")
        assert program.interrupted(30.0).endswith("Interrupted.\n")
    assert not (directory / "state.json").exists() and not (directory / "run").exists()
