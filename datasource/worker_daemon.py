"""The process from which Spark forks Python workers, with everything imported that a scan or an INSERT needs.

Spark's own daemon imports nothing, so that every worker spends a second on imports before its first task. Spark starts
this one instead if the conf `spark.python.daemon.module` names it, for all Python tasks of an application. Other tasks
find some modules loaded; nothing else changes for them.

Imports must leave a process that may be forked: no gRPC channel, no connection, no thread that matters to a child.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from contextlib import suppress
from typing import Any
from zipimport import zipimporter

import pyspark.worker  # noqa: F401
from pyspark import daemon

from pyspark_pravega.formats.core.format import FORMATS, find_format

from . import spark_functions  # noqa: F401
from .workers.spark_socket import answer_at_once

_serve = daemon.worker


class OwnProcesses:
    """Replaces the module `os` in Spark's daemon, and signals only children of this process.

    Spark tells the daemon to kill workers that were idle for a minute by their ids, even if they ended. The ids may
    be those of other processes or threads by then: a few busy JVMs use 32,768 ids, as in containers, up in a minute.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def kill(pid: int, number: int) -> None:
        """Send a signal to a child, or to the daemon's group (0). Raises ChildProcessError without such a child."""
        if pid != 0:
            os.waitpid(pid, os.WNOHANG)
        os.kill(pid, number)


_archives: dict[tuple[str, str], tuple[int, ...]] = {}
_read_again = zipimporter.invalidate_caches


def read_if_changed(importer: zipimporter) -> None:
    """Read an archive's directory again if the archive may have changed. Spark 4.1 asks before each task, for 60 ms."""
    with suppress(OSError):
        found, key = os.stat(importer.archive), (importer.archive, importer.prefix)
        now = found.st_mtime_ns, found.st_size, found.st_ino
        if _archives.get(key) == now:
            return
        _archives[key] = now
    _read_again(importer)


def serve(sock: socket.socket, authenticated: bool) -> int:
    """Run tasks as Spark's own function does, but without a traceback when Spark needs no more rows of a task.

    Spark cuts the connection then, for example after a filter and a LIMIT. The worker ends in either case.
    """
    answer_at_once(sock)
    known = len(sys.modules)
    try:
        ended = int(_serve(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):
        return 1
    if len(sys.modules) != known:  # those of a lake hold so many objects that Spark's collection takes 40 ms of a core
        gc.collect()
        gc.freeze()
    return ended


def main() -> None:
    """Import the rest and fork workers until Spark ends."""
    daemon.worker = serve
    zipimporter.invalidate_caches = read_if_changed  # type: ignore[assignment]
    daemon.os = OwnProcesses()  # type: ignore[assignment, attr-defined]
    for name in FORMATS:
        find_format(name)
    gc.freeze()  # a collection in a worker would copy the memory of all these modules
    daemon.manager()


if __name__ == "__main__":
    main()
