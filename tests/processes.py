"""Processes of this machine, by Linux' /proc."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from pyspark_pravega.local.java import find_java


def running(pid: int) -> str:
    """The command line of a process, "" when it does not run (or has ended and only waits to be reaped)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "" if state == "Z" else Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid: int) -> list[int]:
    """The processes that one has started and that have not been reaped."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return found  # it has ended
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += [int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    """All processes that descend from one, parents before children."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def running_with(*words: str) -> list[int]:
    """The processes whose command lines have all of these words."""
    every = [int(each.name) for each in Path("/proc").glob("[0-9]*")]
    return [pid for pid in every if all(word in running(pid) for word in words)]


def processor_seconds(pid: int) -> float:
    """How long a process has computed."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def worker_daemons(jvm: int) -> list[int]:
    """The Python processes of a JVM that fork those which run tasks."""
    return [pid for pid in children(jvm) if _serves_tasks(pid)]


def task_workers(jvm: int) -> list[int]:
    """The Python processes of a JVM that run tasks, or wait for some: what its daemons have forked."""
    return [pid for daemon in worker_daemons(jvm) for pid in descendants(daemon) if _serves_tasks(pid)]


def _serves_tasks(pid: int) -> bool:
    """Spark has more daemons, such as those that look up and plan Python data sources; they run other modules."""
    return running(pid).split()[-1:] == ["pyspark.worker"]


def ask_jvm(pid: int, command: str) -> str:
    """What jcmd answers about a process of Java."""
    jcmd = find_java().executable.resolve().with_name("jcmd")
    return subprocess.run([jcmd, str(pid), command], capture_output=True, text=True, check=True).stdout
