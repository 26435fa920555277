"""Measure where the time of a small statement goes: catalog service, calls of servers, Spark's jobs and tasks.

    python -m bench.small_statements [--rounds 30] [--events 200000] [--only LIMIT] [--timeline]

One warm session, one statement after the other, in turns: LIMIT 10 of a JSON table, a count of ten events, and an
INSERT of one row, all in four segments. The service and the Python workers write each call into a
file (`bench/traced.py`), and Spark writes its event log. Every figure is the median of all rounds; steps lie inside of
each other, so that they do not add up. `--timeline` shows each step of the last round of every statement.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.servers import open_cluster, open_session
from bench.traced import FILE, make_traced_python
from pyspark_pravega.spark.catalog_conf import DAEMON_CONF

TOOK = re.compile(r"(.*) took ([0-9.]+) ms$")
SHORTER = {
    r" at \S+:\d+$": "",
    r"/v1/groups/[^/ ]+": "group",
    r"reading \d+ bytes of \S+": "reading a segment",
    r"key-value table '\S+': 1 segments": "the commit log",
    r"look up (\d+) segments": r"states of \1 segments",
}
"""Patterns for what differs between two calls of the same kind, with replacements."""
WARM = 5
VALUES = (
    "1700000000000 + id AS timestamp, CAST(id % 1000 AS INT) AS sensorId, concat('plant-', id % 50) AS location, "
    "CAST(id % 977 AS DOUBLE) / 7D AS temp"
)
COLUMNS = "timestamp BIGINT, sensorId INT, location STRING, temp DOUBLE"


@dataclass(frozen=True)
class Step:
    """A step that took from second `begin` to second `end` since 1970."""

    who: str
    what: str
    begin: float
    end: float

    @property
    def milliseconds(self) -> float:
        """Return how long it took."""
        return (self.end - self.begin) * 1000


def shorten_name(text: str) -> str:
    """Name a call without its places."""
    for pattern, words in SHORTER.items():
        text = re.sub(pattern, words, text)
    return text


class Trace:
    """Reads what the service, the workers and Spark have written since the last call."""

    def __init__(self, directory: Path) -> None:
        self.python, self.calls = make_traced_python(directory)
        self.events = directory / "events"
        self.events.mkdir()
        self._read: defaultdict[Path, int] = defaultdict(int)

    def _lines(self, file: Path) -> Iterator[Any]:
        with file.open("rb") as opened:
            opened.seek(self._read[file])
            for line in opened:
                if not line.endswith(b"\n"):
                    break
                self._read[file] += len(line)
                yield json.loads(line)

    def steps(self) -> list[Step]:
        """Return the steps that have ended since the last call."""
        found = [*self._of_calls(), *self._of_spark()]
        return sorted(found, key=lambda step: (step.begin, -step.end))

    def _of_calls(self) -> Iterator[Step]:
        for ended, _, logger, text in self._lines(self.calls):
            if (match := TOOK.match(text)) is not None:
                who = {"catalog": "service", "client": logger.split(".")[2]}.get(logger.split(".")[1], "worker")
                yield Step(who, shorten_name(match[1].strip("'")), ended - float(match[2]) / 1000, ended)

    def _of_spark(self) -> Iterator[Step]:
        begun: dict[int, float] = {}
        for file in sorted(self.events.rglob("*")):
            if not file.is_file() or not file.name.startswith(("events_", "local-")):
                continue
            for event in self._lines(file):
                if event["Event"] == "SparkListenerJobStart":
                    begun[event["Job ID"]] = event["Submission Time"] / 1000
                elif event["Event"] == "SparkListenerJobEnd" and event["Job ID"] in begun:
                    yield Step("Spark", "a job", begun[event["Job ID"]], event["Completion Time"] / 1000)
                elif event["Event"] == "SparkListenerTaskEnd":
                    info = event["Task Info"]
                    yield Step("Spark", "a task", info["Launch Time"] / 1000, info["Finish Time"] / 1000)


@contextmanager
def open_traced_session(cores: int) -> Iterator[tuple[SparkSession, str, Trace]]:
    """Yield a session whose calls are traced, the name of its scope, and the trace."""
    with tempfile.TemporaryDirectory(prefix="pyspark-pravega-trace-") as name, open_cluster() as config:
        directory = Path(name)
        trace = Trace(directory)
        (directory / "lib").mkdir()
        module = directory / "lib" / "pyspark_pravega_traced.py"
        shutil.copy(Path(__file__).with_name("traced.py"), module)
        os.environ[FILE], os.environ["PYTHONPATH"] = str(trace.calls), str(module.parent)
        confs = {
            "spark.sql.catalog.pravega.python": str(trace.python),
            DAEMON_CONF: module.stem,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": trace.events.as_uri(),
            "spark.sql.shuffle.partitions": str(cores),
        }
        with open_session(config, cores, confs) as (spark, scope):
            yield spark, scope, trace


def make_tables(spark: SparkSession, scope: str, events: int) -> dict[str, str]:
    """Fill the tables; return the statements by name."""

    def create(name: str) -> str:
        table = f"pravega.`{scope}`.`{name}`"
        spark.sql(
            f"CREATE TABLE {table} ({COLUMNS}) USING pravega TBLPROPERTIES "
            "('format'='json', 'routing-key'='sensorId', 'scaling.min-segments'='4')"
        )
        return table

    large, ten, one = create("large"), create("ten"), create("one")
    spark.sql(f"INSERT INTO {large} SELECT {VALUES} FROM range(0, {events}, 1, 4)")
    spark.sql(f"INSERT INTO {ten} SELECT {VALUES} FROM range(10)")
    return {
        "SELECT * LIMIT 10": f"SELECT * FROM {large} LIMIT 10",
        "count(*) of 10 events": f"SELECT count(*) FROM {ten}",
        "INSERT of 1 row": f"INSERT INTO {one} VALUES (1700000000000, 7, 'plant-7', 0.5D)",
    }


def measure(spark: SparkSession, trace: Trace, statement: str) -> tuple[float, list[Step]]:
    """Run a statement; return when it began, and its steps. The first one is the statement itself."""
    trace.steps()
    begin = time.time()
    spark.sql(statement).collect()
    end = time.time()
    time.sleep(0.05)  # so that the last lines reach the files
    return begin, [Step("", "the statement", begin, end), *trace.steps()]


def show_timeline(begin: float, steps: Sequence[Step]) -> None:
    """Print each step with its begin and its length."""
    for step in steps:
        print(f"  {(step.begin - begin) * 1000:8.1f} {step.milliseconds:8.1f}  {step.who:10} {step.what}")


def show_budget(name: str, runs: Sequence[Sequence[Step]]) -> None:
    """Print how often and how long each kind of step was, in the middle of all runs."""
    kinds = list(dict.fromkeys((step.who, step.what) for run in runs for step in run))

    def middle(kind: tuple[str, str], of: Callable[[list[Step]], float]) -> float:
        return statistics.median(of([step for step in run if (step.who, step.what) == kind]) for run in runs)

    print(f"\n{name}\n| | | calls | ms |\n|---|---|---|---|")
    for kind in kinds:
        count, sum_of = middle(kind, len), middle(kind, lambda found: sum(step.milliseconds for step in found))
        print(f"| {kind[0]} | {kind[1]} | {count:g} | {sum_of:.1f} |")


def main() -> None:
    """Print the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--timeline", action="store_true")
    arguments = parser.parse_args()
    with open_traced_session(arguments.cores) as (spark, scope, trace):
        statements = make_tables(spark, scope, arguments.events)
        statements = {name: text for name, text in statements.items() if arguments.only in name}
        runs: dict[str, list[list[Step]]] = {name: [] for name in statements}
        for number in range(-WARM, arguments.rounds):
            for name, text in statements.items():
                begin, steps = measure(spark, trace, text)
                if number >= 0:
                    runs[name].append(steps)
                if arguments.timeline and number == arguments.rounds - 1:
                    print(f"\n{name}")
                    show_timeline(begin, steps)
        print(f"\nload {os.getloadavg()[0]:.0f}")
        for name, found in runs.items():
            show_budget(name, found)


if __name__ == "__main__":
    main()
