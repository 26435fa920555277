"""The program `pyspark-pravega run`: arguments, signals, exit codes, and that it goes on where it stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from tests.processes import descendants, running, task_workers

COMMAND = [sys.executable, "-m", "pyspark_pravega", "run", "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
PATIENCE = 180
JOB = """
SET pravega.stream.checkpoint = '{checkpoint}';
INSERT INTO pravega.`{scope}`.copy (number, text) SELECT id, 'it is ' || id FROM STREAM pravega.`{scope}`.numbers;
SELECT 'the script goes on, ${{spark.sql.shuffle.partitions}} tasks' AS seen;
"""


def start(cluster: ClusterInfo, script: Path, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start the program in a process group of its own, as a shell does."""
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    with log.open("wb") as out:
        return subprocess.Popen(
            [*COMMAND, *arguments, str(script)],
            env={**os.environ, **servers},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=script.parent,
        )


def send_to_both(program: int, number: int) -> None:
    os.kill(program, number)
    time.sleep(0.1)
    os.killpg(program, number)


@pytest.mark.long
def test_ctrl_c_stops_the_queries_and_the_next_run_goes_on(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.numbers (id INT) USING pravega")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.copy (text STRING, number BIGINT) USING pravega")
    script, log = tmp_path / "job.sql", tmp_path / "log"
    script.write_text(JOB.format(scope=scope, checkpoint=tmp_path / "checkpoint"))
    # A terminal sends Ctrl-C to all processes of the group, `timeout` sends it to the program and to the group.
    ways = ((signal.SIGINT, os.killpg, 100), (signal.SIGTERM, os.kill, 200), (signal.SIGTERM, send_to_both, 300))
    for signal_sent, send, rows in ways:
        spark.sql(f"INSERT INTO pravega.`{scope}`.numbers SELECT id FROM range({rows - 100}, {rows})")
        program = start(cluster, script, log)
        try:
            began = time.monotonic()
            while spark.table(f"pravega.`{scope}`.copy").count() < rows:
                assert program.poll() is None and time.monotonic() - began < PATIENCE, log.read_text()
                time.sleep(0.2)
            processes = descendants(program.pid)
            send(program.pid, signal_sent)
            code = program.wait(PATIENCE)
        finally:
            if program.poll() is None:
                os.killpg(program.pid, signal.SIGKILL)
                program.wait()
        shown = log.read_text()
        assert code == 128 + signal_sent, shown
        assert f"stopped by {signal_sent.name}; run it again to continue from there" in shown
        assert "|the script goes on, 2 tasks|" in shown and "Traceback" not in shown and "ERROR" not in shown, shown
        while any(running(pid) for pid in processes):
            assert time.monotonic() - began < PATIENCE
            time.sleep(0.1)
    copied = spark.table(f"pravega.`{scope}`.copy").collect()
    assert sorted(tuple(row) for row in copied) == sorted((f"it is {number}", number) for number in range(300))


def test_ctrl_c_in_a_batch_shows_no_stacks(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.numbers (id INT) USING pravega")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.slow (id INT, nothing STRING) USING pravega")
    spark.sql(f"INSERT INTO pravega.`{scope}`.numbers VALUES (1)")
    script, log = tmp_path / "job.sql", tmp_path / "log"
    script.write_text(f"""CREATE NAMESPACE IF NOT EXISTS pravega.`{scope}`;
        SET pravega.stream.checkpoint = '{tmp_path / "checkpoint"}';
        INSERT INTO pravega.`{scope}`.slow
        SELECT id, reflect('java.lang.Thread', 'sleep', 600000L) FROM STREAM pravega.`{scope}`.numbers""")
    program = start(cluster, script, log)
    try:
        began = time.monotonic()
        while not any(task_workers(pid) for pid in descendants(program.pid)):  # a task runs
            assert program.poll() is None and time.monotonic() - began < PATIENCE, log.read_text()
            time.sleep(0.2)
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(PATIENCE) == 128 + signal.SIGINT
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    shown = log.read_text()
    assert "stopped by SIGINT" in shown
    assert "ERROR" not in shown and "Exception" not in shown and "\tat " not in shown, shown
    assert "concurrently" not in shown, "Spark's warning about every namespace that is there already"


@pytest.mark.faults
def test_a_run_that_begins_before_the_last_one_has_ended(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    """As with cron: the last run has not noticed yet that another one took its place."""
    spark.sql(f"CREATE TABLE pravega.`{scope}`.numbers (id INT) USING pravega")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.copy (id INT, nothing STRING) USING pravega")
    job = f"""SET pravega.stream.checkpoint = '{tmp_path / "checkpoint"}';
        SET pravega.stream.trigger = 'available now';
        INSERT INTO pravega.`{scope}`.copy SELECT id, <nothing> FROM STREAM pravega.`{scope}`.numbers"""
    slow, quick, log = tmp_path / "slow.sql", tmp_path / "quick.sql", tmp_path / "log"
    slow.write_text(job.replace("<nothing>", "reflect('java.lang.Thread', 'sleep', 2000L)"))
    quick.write_text(job.replace("<nothing>", "CAST(NULL AS STRING)"))

    def copied() -> list[int]:
        return sorted(row.id for row in spark.table(f"pravega.`{scope}`.copy").collect())

    spark.sql(f"INSERT INTO pravega.`{scope}`.numbers VALUES (1), (2)")
    first = start(cluster, slow, log)
    try:
        began = time.monotonic()
        while not any(task_workers(pid) for pid in descendants(first.pid)):  # a task runs
            assert first.poll() is None and time.monotonic() - began < PATIENCE, log.read_text()
            time.sleep(0.1)
        os.kill(jvm(first.pid), signal.SIGSTOP)
        assert start(cluster, quick, tmp_path / "quick.log").wait(PATIENCE) == 0
        assert copied() == [1, 2]
        os.kill(jvm(first.pid), signal.SIGCONT)
        assert first.wait(PATIENCE) == 1
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
    failed = r"slow.sql: Line 3: the query pravega\..* failed: \[(CONCURRENT_STREAM_LOG_UPDATE|PRAVEGA_QUERY_FENCED)\]"
    assert re.search(failed, log.read_text()), log.read_text()
    for last in (2, 3):
        if last == 3:
            spark.sql(f"INSERT INTO pravega.`{scope}`.numbers VALUES (3)")
        assert start(cluster, quick, log).wait(PATIENCE) == 0, log.read_text()
        assert copied() == list(range(1, last + 1))
    spark.sql(f"INSERT INTO pravega.`{scope}`.numbers VALUES (4)")
    quick.write_text(job.replace("<nothing>", "raise_error(id || ' is spoilt')"))
    assert start(cluster, quick, log).wait(PATIENCE) == 1
    shown = log.read_text()
    assert "quick.sql: Line 3: the query" in shown and "4 is spoilt" in shown and "\tat " not in shown, shown
    assert copied() == [1, 2, 3]


def test_what_a_next_run_repeats_is_told_and_can_be_left_out(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.numbers (id INT) USING pravega")
    script, log = tmp_path / "job.sql", tmp_path / "log"
    script.write_text(f"""CREATE TABLE IF NOT EXISTS pravega.`{scope}`.numbers (id INT) USING pravega;
        CREATE TEMPORARY VIEW one AS SELECT 1 AS id; INSERT INTO pravega.`{scope}`.numbers SELECT id FROM one;
        SELECT 'now' AS began;
        INSERT INTO pravega.`{scope}`.numbers SELECT id + 1 FROM one
        WHERE coalesce(reflect('java.lang.Thread', 'sleep', ${{spark.nap}}L), 'null') = 'null'""")
    program = start(cluster, script, log, "--conf", "spark.nap=600000")
    try:
        began = time.monotonic()
        while "|now" not in log.read_text():
            assert program.poll() is None and time.monotonic() - began < PATIENCE, log.read_text()
            time.sleep(0.2)
        program.send_signal(signal.SIGINT)
        assert program.wait(PATIENCE) == 128 + signal.SIGINT
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    assert log.read_text().splitlines()[-1] == (
        f"{script}: stopped by SIGINT; done: line 2, which another run repeats. To leave it out: pyspark-pravega run "
        f"--from 5 {script}"
    )
    assert start(cluster, script, log, "--from", "5", "--conf", "spark.nap=0").wait(PATIENCE) == 0, log.read_text()
    assert "Line 4: INSERT" in log.read_text() and "Line 1" not in log.read_text() and "Line 3" not in log.read_text()
    assert sorted(row.id for row in spark.table(f"pravega.`{scope}`.numbers").collect()) == [1, 2]
    assert start(cluster, script, log, "--from", "6").wait(PATIENCE) == 1
    assert log.read_text() == f"{script}: --from 6: the script has 5 statements. Give the number of one of them.\n"


def jvm(program: int) -> int:
    [found] = [pid for pid in descendants(program) if "org.apache.spark.deploy.SparkSubmit" in running(pid)]
    return found


def test_a_script_that_cannot_be_split_fails_before_spark_starts(cluster: ClusterInfo, tmp_path: Path) -> None:
    script, log = tmp_path / "job.sql", tmp_path / "log"
    for text, message in (
        ("SELECT 'abc", "job.sql: [PRAVEGA_INVALID_SCRIPT] The script cannot be split"),
        ("-- nothing", "job.sql: [PRAVEGA_INVALID_SCRIPT] The script has no statement."),
    ):
        script.write_text(text)
        assert start(cluster, script, log).wait(PATIENCE) == 1
        assert message in log.read_text() and len(log.read_text().splitlines()) == 1
    script.unlink()
    assert start(cluster, script, log).wait(PATIENCE) == 1
    assert log.read_text() == f"{script}: no such file\n"


def test_a_mistake_is_told_before_anything_runs(cluster: ClusterInfo, tmp_path: Path) -> None:
    script, log = tmp_path / "job.sql", tmp_path / "log"
    script.write_text("SELECT 'run';\nSET pravega.stream.trigger = 'often'")
    for arguments in ((), ("--check",)):
        assert start(cluster, script, log, *arguments).wait(PATIENCE) == 1
        shown = log.read_text()
        assert f"{script}: Line 2: [PRAVEGA_INVALID_OPTION]" in shown and len(shown.splitlines()) == 1, shown


def test_a_check_names_missing_tables_without_spark(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.sensor (id INT) USING pravega")
    script, log = tmp_path / "job.sql", tmp_path / "log"
    script.write_text(f"""CREATE TABLE IF NOT EXISTS pravega.`{scope}`.copy (id INT) USING pravega;
        INSERT INTO pravega.`{scope}`.copy SELECT id FROM pravega.`{scope}`.senor""")
    assert start(cluster, script, log, "--check").wait(PATIENCE) == 1
    [line] = log.read_text().splitlines()
    assert line.startswith(f"{script}: Line 2: [PRAVEGA_STREAM_NOT_FOUND] ") and line.endswith(
        f"Did you mean `{scope}`.sensor?"
    ), line
