"""Measure seconds of statements, and the most memory that each process of a session had in the meantime."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.latency_and_memory import find_driver, find_workers, list_children

ENOUGH_SECONDS = 10.0
"""Seconds of runs after which nothing is repeated."""
QUIET = {"spark.ui.showConsoleProgress": "false"}
"""Confs of the sessions that are measured."""
_PAUSE = 0.05


def time_runs(work: Callable[[], object], *, runs: int = 5) -> list[float]:
    """Run something up to `runs` times, until `ENOUGH_SECONDS` are over; return the seconds of each run."""
    found: list[float] = []
    while len(found) < runs and sum(found) < ENOUGH_SECONDS:
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return found


def prepare_statement(spark: SparkSession, text: str) -> Callable[[], object]:
    """Return a function that runs a statement and fetches its rows."""
    return lambda: spark.sql(text).collect()


def measure_warm(work: Callable[[], object], *, runs: int = 5) -> dict[str, float]:
    """Run something once to warm up, if that takes less than `ENOUGH_SECONDS`; then return the median and the best."""
    first = time_runs(work, runs=1)
    found = first if first[0] > ENOUGH_SECONDS else time_runs(work, runs=runs)
    return {"seconds": statistics.median(found), "best": min(found)}


class Memory:
    """Watches the resident sizes of a session's processes; `peak` has the most of each kind, in MiB."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = find_driver(spark)
        self.peak: dict[str, float] = {}

    @contextmanager
    def watched(self) -> Iterator[dict[str, float]]:
        """Watch while the body runs; yields the peaks, which are complete at its end."""
        peak: dict[str, float] = {}
        done = threading.Event()

        def watch() -> None:
            while True:
                for kind, size in self._now().items():
                    peak[kind] = max(peak.get(kind, 0.0), size)
                if done.wait(_PAUSE):
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield peak
        finally:
            done.set()
            watcher.join()

    def _now(self) -> dict[str, float]:
        of_workers = [_read_resident(pid) for pid in find_workers(self._jvm)]
        service = [pid for pid in list_children(self._jvm) if b"catalog.service" in _read_command(pid)]
        return {
            "Spark's JVM": _read_resident(self._jvm),
            "service": sum(map(_read_resident, service)),
            "Python worker": max(of_workers, default=0.0),
        }


def _read_resident(pid: int) -> float:
    try:
        match = re.search(r"^VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended
    return int(match[1]) / 1024 if match else 0.0


def _read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def print_best(what: str, found: Mapping[str, Mapping[str, float]]) -> None:
    """Print a line with the best seconds of each statement."""
    print(f"{what}: " + ", ".join(f"{name} {one['best']:.3f} s" for name, one in found.items()), flush=True)


def save(directory: Path, name: str, result: Mapping[str, Any]) -> None:
    """Write a result beside the others, with a description of the machine."""
    directory.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "python": platform.python_version()}
    file = directory / f"{name}.json"
    file.write_text(json.dumps({"machine": machine, **result}, indent=1) + "\n")
    print(f"{file}: {len(result['rows'])} rows, load {machine['load']}", flush=True)
