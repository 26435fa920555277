"""The processes of a driver and of the servers: processor time, memory, threads by name."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.latency_and_memory import list_children
from tests.processes import ask_jvm

TICKS = os.sysconf("SC_CLK_TCK")


class Processes:
    """The processes of a driver, of Pravega and of the clients."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm

    def find(self) -> dict[str, list[int]]:
        """Return the ids of the processes by kind."""
        kinds: dict[str, list[int]] = {
            "JVM": [self._jvm],
            "service": [],
            "workers": [],
            "Pravega": [],
            "clients": [os.getpid()],
        }
        for pid in list_children(self._jvm):
            command = _read(Path(f"/proc/{pid}/cmdline"))
            if b"catalog.service" in command:
                kinds["service"].append(pid)
            elif b"daemon" in command:
                kinds["workers"] += [pid, *list_children(pid)]
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            pid = int(path.parent.name)
            if b"LocalPravegaEmulator" in _read(path) and _read_status(pid).get("PPid") == str(os.getpid()):
                kinds["Pravega"].append(pid)
        return kinds

    def measure_time(self) -> dict[str, float]:
        """Return the seconds that each kind has used. Children that have ended count for the daemon of the workers."""
        times = {}
        for kind, pids in self.find().items():
            fields = [_read(Path(f"/proc/{pid}/stat")).decode().rpartition(")")[2].split() for pid in pids]
            last = 15 if kind == "workers" else 13
            times[kind] = sum(sum(map(int, each[11:last])) for each in fields if each) / TICKS
        return times

    def measure_sizes(self) -> dict[str, tuple[int, int]]:
        """Return the resident MiB and the threads of the JVM and of the service."""
        found = self.find()
        statuses = {kind: _read_status(found[kind][0]) for kind in ("JVM", "service") if found[kind]}
        return {
            kind: (int(status["VmRSS"].split()[0]) // 1024, int(status["Threads"])) for kind, status in statuses.items()
        }

    def measure_heap(self) -> int:
        """Return the MiB of the JVM's heap that are in use after garbage was collected."""
        self._ask("GC.run")
        match = re.search(r"used (\d+)K", self._ask("GC.heap_info"))
        return int(match[1]) // 1024

    def count_threads(self) -> Counter[str]:
        """Return the threads of the JVM by name, with N for numbers."""
        return Counter(shorten_name(name) for name in self.list_threads())

    def list_threads(self) -> list[str]:
        """Return the names of the JVM's threads."""
        return re.findall(r'^"(.*?)" ', self._ask("Thread.print"), re.M)

    def count_tasks(self) -> int:
        """Return how many tasks run: Spark names a thread after the task in it."""
        return sum(" for task " in name for name in self.list_threads())

    def count_objects(self) -> dict[str, tuple[int, int]]:
        """Return how many objects of each class are alive, and their bytes."""
        found = re.findall(r"^ *\d+: +(\d+) +(\d+) +(\S+)", self._ask("GC.class_histogram"), re.M)
        return {name: (int(count), int(size)) for count, size, name in found}

    def _ask(self, command: str) -> str:
        return ask_jvm(self._jvm, command)


def shorten_name(name: str) -> str:
    """Return a thread's name without what only it has."""
    name = re.sub(r"\(TID.*|[0-9a-f]{8}-[0-9a-f-]+|/\S+|\S+@\S+", "", name)
    return re.sub(r"\d+(\.\d+)*", "N", name)


def show_costs(before: Mapping[str, float], after: Mapping[str, float], statements: int) -> str:
    """Return the milliseconds of a core that a statement cost each kind of process."""
    return " | ".join(f"{(after[kind] - before[kind]) / statements * 1000:.0f}" for kind in before)


def _read_status(pid: int) -> dict[str, str]:
    lines = _read(Path(f"/proc/{pid}/status")).decode().splitlines()
    return {key: text.strip() for key, _, text in (line.partition(":") for line in lines)}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
