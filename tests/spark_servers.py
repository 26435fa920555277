"""Spark's servers, started by the command line: the Thrift server, Spark Connect."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.sql_clients import COMMAND

JDBC, CONNECT = "ready: jdbc:hive2://127.0.0.1:", "Spark Connect server started at: "
"""What the servers say when clients can connect."""
STARTED_BY = 600  # seconds until a server must listen


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening(
    port: int,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    *,
    ready: str,
    quiet: bool = True,
) -> Iterator[int]:
    """Run a server in a directory of its own for the length of a `with` block, which begins when it says `ready`.

    Yields its process, which is that of the JVM. On a busy machine, Spark says more than a `quiet` server may.
    """
    log = directory / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**os.environ, **environment},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + STARTED_BY
        while ready not in log.read_text():
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.2)
        assert listens(port), "it says that it is ready before it is"
        assert not quiet or len(log.read_text().splitlines()) <= 5, "it says more than anybody waits for"
        yield server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


def listens(port: int) -> bool:
    """Whether a server of this machine takes connections on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
