"""One pair of local clusters for all processes of a test run, each started when a test first asks for it.

The run has a directory, which the environment names to the processes of pytest-xdist. Whoever needs a cluster first
starts it there, under a lock; the others find it. A keeper, a process of the run, waits until the run has ended,
however that happens, and stops what was started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.local.directories import hold_lock
from pyspark_pravega.local.state import ClusterInfo
from tests.processes import processor_seconds, running_with

DIRECTORY = "PYSPARK_PRAVEGA_TEST_SERVERS"
"""The environment variable that names the run's directory."""


_OF_A_CLUSTER = (
    "PRAVEGA_CONTROLLER_URI",
    "PRAVEGA_SCHEMA_REGISTRY_URI",
    "PRAVEGA_TRUST_STORE",
    "pravega_client_auth_method",
    "pravega_client_auth_token",
)
_SET_ASIDE = "PYSPARK_PRAVEGA_TEST_"

_OF_MANY_STREAMS = {
    # Most streams of tests are gone before they would be flushed.
    "writer.flush.threshold.milliseconds": "10000",
    # A checkpoint lists all segments that were used within a minute. By default there is one for each 300 writes of
    # the log, which takes a sixth of the time in which streams are made and dropped.
    "durablelog.checkpoint.commit.count.min": "3000",
    "durablelog.checkpoint.commit.threshold.count": "3000",
    "durablelog.checkpoint.commit.length.total": str(64 << 20),
    # Of 20 and 200 threads, most wake up to find that another one has taken the task: a sixth of all that it computes.
    "pravegaservice.threadPool.core.size": "4",
    "pravegaservice.threadPool.storage.size": "8",
    "pravegaservice.threadPool.lowPriorityTasks.size": "2",
}


_short_run = False


def set_environment_aside() -> None:
    """Take the variables that name a cluster away from the programs of this run; `named` has their values then.

    Programs under test must find a cluster by what the test gives them.
    """
    for name in _OF_A_CLUSTER:
        if (value := os.environ.pop(name, None)) is not None:
            os.environ[_SET_ASIDE + name] = value


def named(name: str) -> str | None:
    """Return the value that a variable of the run had, None if it was not set."""
    return os.environ.get(_SET_ASIDE + name)


class Keeper:
    """Stops the clusters of a run when this process ends."""

    def __init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="pyspark-pravega-test-servers-")
        os.environ[DIRECTORY] = self._directory
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers", self._directory],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parent.parent,
            # Ctrl-C in the terminal must not end the keeper before the run.
            start_new_session=True,
        )

    def close(self) -> None:
        """Stop the clusters and wait until they have ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        del os.environ[DIRECTORY]


def expect_tests(count: int) -> None:
    """Note how many tests this run has, before the first cluster starts."""
    global _short_run
    _short_run = count < 80


def shared_cluster(name: str, *, few: bool = False, **settings: Any) -> ClusterInfo:
    """Return the run's cluster of a name; started with these settings if no test has asked for it yet.

    `few` says that few tests use it, as in a run of few tests: what Java's thorough compiler takes would not come back.
    """
    directory = Path(os.environ[DIRECTORY])
    with hold_lock(directory / f"{name}.lock"):
        chosen = directory / f"{name}.chosen"
        if not chosen.exists():
            chosen.write_text(str(_start_calm(directory / name, few or _short_run, settings)))
        found = LocalCluster.find(chosen.read_text())
        assert found is not None, f"the cluster '{name}' of this run was stopped"
        return found.info


def fallen() -> str | None:
    """Tell which cluster of the run has lost a server that nobody stopped; None while all of them run.

    Tests would tell it one by one, each at the end of its patience.
    """
    for chosen in Path(os.environ[DIRECTORY]).glob("*.chosen"):
        # A file that is being written is empty for a moment.
        if (path := chosen.read_text()) and (cluster := LocalCluster.find(path)) and not cluster.state.running:
            dead = sorted(set(cluster.state.processes) - set(cluster.state.alive()))
            ends = [_end(file) for name in dead for file in sorted(cluster.logs.glob(f"{name}.*"))]
            return "\n".join([f"the cluster '{chosen.stem}' of this run has lost its {' and '.join(dead)}:", *ends])
    return None


def _end(log: Path) -> str:
    return f"... {log.name}:\n{log.read_bytes()[-1500:].decode(errors='replace')}"


def _start_calm(directory: Path, few: bool, settings: dict[str, Any]) -> Path:
    """Start a cluster, and another if its server does nothing and yet never rests.

    That is a fault of Pravega 0.13 (docs/design/local-cluster.md), which would take half of a small machine from the
    tests for as long as they run.
    """
    first, second = directory / "first", directory / "second"
    # What the tests write within a minute or two, and drop again, is more than a heap should hold.
    properties = {**_OF_MANY_STREAMS, **settings.pop("properties", {})}
    settings = {"storage": directory / "storage", "properties": properties, **settings}
    with nullcontext() if few else _all_compilers():
        cluster = LocalCluster.start(first, **settings)
        if not _never_rests(first):
            return first
        cluster.stop()
        LocalCluster.start(second, **settings)
    return second


@contextmanager
def _all_compilers() -> Iterator[None]:
    """Start Java with its thorough compiler too, which pays for servers that make thousands of streams."""
    os.environ["_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=4"  # it counts more than the options of the command
    try:
        yield
    finally:
        del os.environ["_JAVA_OPTIONS"]


def _never_rests(directory: Path) -> bool:
    """Return whether the Pravega of this directory computes all the time, for 20 seconds at least."""
    for server in running_with("java", "singlenode.configurationFile", str(directory)):
        for _ in range(10):
            before = processor_seconds(server)
            time.sleep(2)
            if processor_seconds(server) - before < 0.6:
                break
        else:
            return True
    return False


def _keep(directory: Path) -> None:
    sys.stdin.buffer.read()
    for state in directory.glob("*/*/state.json"):
        cluster = LocalCluster.find(state.parent)
        if cluster is not None:
            cluster.stop()
    shutil.rmtree(directory)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
