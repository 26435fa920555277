"""Flink 1.18 as the other side of a test: what its SQL computes, and what it reads and writes by Pravega's connector.

One Java process (Flink.java) serves a whole test run, with a cluster of Flink in it. Get it from a fixture:

    types, rows = flink.select("SELECT UPPER('a'), PI()")

    session = flink_jobs.begin()
    session.run("CREATE TABLE bid (item STRING) WITH ('connector' = 'pravega', ...)")
    session.run("INSERT INTO bid VALUES ('a')")
    changes = session.changes("SELECT item FROM bid", 1)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop.java_process import JavaProcess

# What Flink's own start script opens to its serializers.
_PACKAGES = ("lang", "net", "io", "nio", "text", "time", "util", "util.concurrent")
_OPENED = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _PACKAGES]

_PATIENCE_S = 180

Change = tuple[str, list[Any]]
"""The kind of a change, such as `+I` or `-U`, and its row."""


class Flink(JavaProcess):
    """The Java process."""

    def __init__(self, log: Path, connector: Sequence[Path] = ()) -> None:
        """Start it, with the class path of a connector; needs a JDK. What it logs goes into the file `log`."""
        # Flink leaves copies of its jars there.
        options = [f"-Djava.io.tmpdir={log.parent}", "-Xmx1g", *_OPENED]
        super().__init__("Flink.java", "flink.lock", log, more=connector, options=options)

    def select(self, query: str) -> tuple[list[str], list[list[Any]]]:
        """Return the types and the rows of a batch in the zone UTC.

        A leaf is None or a text, bytes are hexadecimal, a map is its keys and its values.
        """
        answer = self.ask({"operation": "batch", "text": query})
        return answer["types"], answer["rows"]

    def begin(self, settings: Mapping[str, str] | None = None) -> FlinkSession:
        """Return a session without tables; it ends the one before."""
        self.ask({"operation": "begin", "settings": dict(settings or {})})
        return FlinkSession(self)


@dataclass(frozen=True)
class FlinkSession:
    """A session of jobs that are streams."""

    flink: Flink

    def run(self, statement: str) -> None:
        """Run a statement until it ends."""
        self.flink.ask({"operation": "run", "text": statement})

    def changes(self, query: str, count: int) -> list[Change]:
        """Return the first changes of a query, which ends then."""
        answer = self.flink.ask({"operation": "changes", "text": query, "count": count})
        return [(kind, row) for kind, row in answer["changes"]]

    def start(self, insert: str) -> FlinkJob:
        """Start a job that does not end by itself."""
        return FlinkJob(self.flink, self.flink.ask({"operation": "start", "text": insert})["job"])

    @contextmanager
    def running(self, insert: str) -> Iterator[FlinkJob]:
        """Run a job that does not end by itself; it is cancelled after the body."""
        job = self.start(insert)
        try:
            yield job
        finally:
            self.flink.ask({"operation": "cancel", "text": job.id})


@dataclass(frozen=True)
class FlinkJob:
    """A running INSERT."""

    flink: Flink
    id: str

    def checkpoint(self) -> str:
        """Make a checkpoint, and return its path.

        Wait before until the job has read an event: no checkpoint ends that begins before the job's readers are there.
        """
        path: str = self.flink.ask({"operation": "checkpoint", "text": self.id})["path"]
        return path


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until what a job does has been seen."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.2)
