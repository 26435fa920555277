"""Changes of rows of key-value tables count once, though tasks and stages are run again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.insert.test_atomicity import wait_until
from tests.processes import task_workers

DRIVER = Path(__file__).with_name("lost_shuffle_driver.py")
ROWS = 24_000
IN_SEVERAL_TASKS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "8"}
STATEMENTS = {
    "UPDATE": "UPDATE {table} SET n = n + 1",
    "MERGE": "MERGE INTO {table} t USING (SELECT id AS k FROM range({rows})) s ON t.id = s.k "
    "WHEN MATCHED THEN UPDATE SET n = n + 1",
    "INSERT": "INSERT INTO {table} SELECT id, n + 1, text FROM {table}",
}


@pytest.fixture
def several_tasks(spark: SparkSession) -> Iterator[None]:
    """Let the rows of a shuffle come in eight tasks, of which two run at the same time."""
    before = {key: spark.conf.get(key) for key in IN_SEVERAL_TASKS}
    for key, value in IN_SEVERAL_TASKS.items():
        spark.conf.set(key, value)
    yield
    for key, text in before.items():
        assert text is not None
        spark.conf.set(key, text)


def filled(spark: SparkSession, scope: str, name: str) -> str:
    table = f"pravega.`{scope}`.{name}"
    properties = "'format'='kvtable', 'primary-key'='id', 'value-format'='avro', 'partitions'='2'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, n INT, text STRING) USING pravega TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} SELECT id, 0, repeat('x', 1000) FROM range({ROWS})")
    return table


def counts(spark: SparkSession, table: str) -> dict[int, int]:
    """Return how many rows have been changed how often."""
    return {row.n: row.c for row in spark.sql(f"SELECT n, count(*) AS c FROM {table} GROUP BY n").collect()}


def in_the_middle(
    spark: SparkSession, pravega: Pravega, scope: str, name: str, statement: str, harm: Callable[[], None]
) -> Future[object]:
    """Run a statement, and do harm as soon as its first rows are written."""
    entries = pravega.key_value_table(scope, name)

    def size() -> int:
        return sum(each.bytes for each in entries.sizes())

    before = size()
    with ThreadPoolExecutor(1) as pool:
        running: Future[object] = pool.submit(lambda: spark.sql(statement).collect())
        wait_until(lambda: running.done() or size() > before, "the first row that is written", 120)
        assert not running.done(), "it ended before the harm"
        harm()
    return running


@pytest.mark.parametrize("command", ["UPDATE", pytest.param("MERGE", marks=pytest.mark.long), "INSERT"])
def test_a_task_that_is_killed_after_it_has_written_a_part(
    spark: SparkSession, pravega: Pravega, scope: str, several_tasks: None, command: str
) -> None:
    killed: list[int] = []

    def kill() -> None:
        jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
        for pid in task_workers(jvm):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    table = filled(spark, scope, "killed")
    in_the_middle(spark, pravega, scope, "killed", STATEMENTS[command].format(table=table, rows=ROWS), kill).result()
    assert counts(spark, table) == {1: ROWS} and killed


@pytest.mark.parametrize(
    "commands", [("UPDATE",), pytest.param(("MERGE", "INSERT"), marks=pytest.mark.long)], ids=" ".join
)
def test_a_shuffle_that_is_lost_while_rows_are_written(
    cluster: ClusterInfo, scope: str, tmp_path: Path, commands: tuple[str, ...]
) -> None:
    """Spark would have to read the table again, with rows that the statement has written: it does not.

    A program of its own does it: Spark 4.3 with a local master ends itself ten minutes after it has met a lost shuffle,
    because it asks a scheduler that only clusters have whether its executor is alive.
    """
    program = [sys.executable, str(DRIVER), cluster.controller_uri, str(cluster.registry_uri), scope, *commands]
    with (tmp_path / "log").open("w") as log:
        run = subprocess.run(program, stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path, timeout=270)
    assert run.returncode == 0, (tmp_path / "log").read_text()[-3000:]
    found = {told["command"]: told for told in map(json.loads, run.stdout.splitlines())}
    assert found.keys() == set(commands)
    for told in found.values():
        assert re.search("cannot rollback|Check which rows are new", told["error"]), told
        assert told["lost"] and set(told["counts"]) == {"0", "1"} and sum(told["counts"].values()) == ROWS, told
