"""The front ends that run SQL: PySpark, the spark-sql shell, beeline on the Thrift server, a client of Spark Connect.

Each is a `SqlClient`, so that one suite of behaviours runs over all of them.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

THIN_CLIENT = Path(__file__).resolve().parents[1] / "build" / "connect" / "bin" / "python"
CONNECT_SHELL = Path(__file__).with_name("connect_shell.py")
COMMAND = (sys.executable, "-m", "pyspark_pravega")
ANSWER_SECONDS = 240
Rows = list[tuple[str, ...]]


class SqlError(Exception):
    """A statement failed; the text is what the user sees."""


class SqlClient(Protocol):
    """A user's way to run SQL."""

    name: str

    def run(self, statement: str) -> Rows:
        """Run one statement; return its rows as text, in order. Raises SqlError."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class PySparkClient:
    """`spark.sql` in this process."""

    name = "pyspark"

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def run(self, statement: str) -> Rows:
        try:
            return [tuple(_text(value) for value in row) for row in self.spark.sql(statement).collect()]
        except PySparkException as error:
            raise SqlError(str(error)) from error

    def close(self) -> None:
        """The session belongs to whoever made it."""


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


class _Console:
    """A program that reads statements from its standard input and prints rows of tab-separated text."""

    name = "console"

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._number = 0
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=log.parent,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._log.open("w") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    @property
    def pid(self) -> int:
        """The process, which is Spark's JVM."""
        return self._process.pid

    def run(self, statement: str) -> Rows:
        assert self._process.stdin is not None
        self._number += 1
        mark = f"answer {self._number} ends here"
        self._process.stdin.write(f"{statement};\nVALUES ('answer' || ' {self._number} ends here');\n")
        self._process.stdin.flush()
        lines = []
        while True:
            line = self._lines.get(timeout=ANSWER_SECONDS)
            if line is None:
                raise SqlError(f"{self.name} ended: {self._log.read_text()[-2000:]}")
            if mark in line:
                break
            lines.append(line)
        return self._rows(_without_echo(lines, f"{statement};"))

    def _rows(self, lines: list[str]) -> Rows:
        raise NotImplementedError

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._reader.join()
        self._process.stdout.close()


def _without_echo(lines: list[str], statement: str) -> list[str]:
    """Drop the prompt and the echo of a statement, which a console wraps at its width."""
    wanted = re.sub(r"\s", "", statement)
    for first, line in enumerate(lines):
        echoed = re.sub(r"\s", "", re.sub(r"^[^>]*> ", "", line))
        last = first
        while wanted.startswith(echoed) and len(echoed) < len(wanted) and last + 1 < len(lines):
            last += 1
            echoed += re.sub(r"^(\. )+> |\s", "", lines[last])
        if echoed == wanted:
            # The echo of the statement that asked for the mark may follow.
            return [one for one in lines[last + 1 :] if "VALUES ('answer' ||" not in one]
    raise AssertionError(f"no echo of {statement!r} in {lines}")


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("\t"))


class ShellClient(_Console):
    """The spark-sql shell."""

    name = "spark-sql"
    _NOISE = re.compile(
        r"^(Time taken: |Response code|Spark (Web UI|master)|Setting default|To adjust|WARNING|\d\d/\d\d/\d\d )"
    )

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        super().__init__(["sql", *arguments], environment, log)
        self.run("SELECT 1")  # the greeting ends before the first answer

    def _rows(self, lines: list[str]) -> Rows:
        for number, line in enumerate(lines):
            if re.search(r"^(Error in query|org\.apache\.spark|.*Exception:)|^\[[A-Z_.]+\]", line):
                raise SqlError("\n".join(lines[number:]))
        # DESCRIBE pads its cells here.
        return [_cells(line) for line in lines if line and not self._NOISE.search(line)]


class BeelineClient(_Console):
    """beeline, connected to a Thrift server over JDBC."""

    name = "jdbc"

    def __init__(self, url: str, environment: Mapping[str, str], log: Path) -> None:
        options = [
            "--silent=true",
            "--showHeader=false",
            "--outputformat=tsv2",
            "--nullemptystring=false",
        ]
        super().__init__(["beeline", *options, "-u", url], environment, log)

    def _rows(self, lines: list[str]) -> Rows:
        for number, line in enumerate(lines):
            if line.startswith("Error:"):
                raise SqlError("\n".join(lines[number:]))
        # NUL is beeline's quote around cells of several lines.
        text = [line.replace("\0", "") for line in lines]
        return [_cells(line) for line in text if line and not line.startswith(("SLF4J", "WARNING"))]


class ConnectClient:
    """A client of Spark Connect in a Python that has `pyspark-client` and no JVM."""

    name = "connect"

    def __init__(self, url: str, log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [THIN_CLIENT, CONNECT_SHELL, url],
                env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=log.parent,
            )

    def run(self, statement: str) -> Rows:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SqlError(f"the client ended: {self._log.read_text()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise SqlError(answer["error"])
        return [tuple(row) for row in answer["rows"]]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
