"""The process from which Spark forks Python workers, with everything imported that a scan or an INSERT needs.

Spark's own daemon imports nothing, so that every worker spends a second on imports before its first task. Spark starts
this one instead where the conf `spark.python.daemon.module` names it, for all Python tasks of an application. Tasks
that are not ours find some modules loaded, and nothing else changes for them.

Imports must leave a process that may be forked: no gRPC channel, no connection, no thread that matters to a child.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import Any

import pyspark.worker  # noqa: F401
from pyspark import daemon

from pyspark_pravega.formats.core.format import FORMATS, find_format

from . import spark_functions  # noqa: F401

_serve = daemon.worker


class OwnProcesses:
    """Stands for the module `os` where Spark's daemon uses it, and signals no process but this one's children.

    Spark tells the daemon to kill the workers that nothing has used for a minute, by their ids, and does not look
    whether they have ended before. The ids may be those of other processes, or of their threads, by then: with 32,768
    ids, as in many containers, a few busy JVMs use all of them up in a minute.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def kill(pid: int, number: int) -> None:
        """Send a signal to a child, or to the daemon's group (0). Raises ChildProcessError where there is no child."""
        if pid != 0:
            os.waitpid(pid, os.WNOHANG)
        os.kill(pid, number)


def serve(sock: socket.socket, authenticated: bool) -> int:
    """Run tasks as Spark's own function does, which prints a traceback when Spark needs no more of a task's rows.

    Spark cuts the connection then, as it does behind a filter and a LIMIT. The worker ends in either case.
    """
    answer_at_once(sock)
    try:
        return int(_serve(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1


def answer_at_once(sock: socket.socket) -> None:
    """Let neither side wait for acknowledgements.

    Spark sends a task in several small pieces, each of which waits until the one before it is acknowledged. Linux takes
    40 ms for that on a connection on which answers were sent, unless it is told otherwise before each task.
    """
    if sys.platform == "linux" and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def main() -> None:
    """Import the rest and fork workers until Spark ends."""
    daemon.worker = serve
    daemon.os = OwnProcesses()  # type: ignore[assignment, attr-defined]
    for name in FORMATS:
        find_format(name)
    gc.freeze()  # a collection in a worker would copy the memory of all these modules
    daemon.manager()


if __name__ == "__main__":
    main()
