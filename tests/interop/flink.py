"""Flink 1.18 as the other side of a test: what its SQL computes.

One Java process (Flink.java) serves a whole test run, with a cluster of Flink in it. Get it from the fixture `flink`:

    types, rows = flink.select("SELECT UPPER('a'), PI()")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.interop.java_process import JavaProcess


class Flink(JavaProcess):
    """The Java process."""

    def __init__(self, log: Path) -> None:
        """Start it; needs a JDK. What it logs goes into the file `log`."""
        # Flink leaves copies of its jars there.
        super().__init__("Flink.java", "flink.lock", log, options=[f"-Djava.io.tmpdir={log.parent}"])

    def select(self, query: str) -> tuple[list[str], list[list[Any]]]:
        """Return the types and the rows of a batch in the zone UTC.

        A leaf is None or a text, bytes are hexadecimal, a map is its keys and its values.
        """
        answer = self.ask({"query": query})
        return answer["types"], answer["rows"]
