"""Calls of the catalog service as Spark makes them: ended by interrupts, by a killed service, by odd texts."""

from __future__ import annotations

import base64
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from tests.datasource.insert.test_atomicity import wait_until
from tests.datasource.insert.test_faults import services
from tests.datasource.transactions import begin_insert, list_committing
from tests.processes import running

CATALOG = "io.github.pysparkpravega.PravegaCatalog"


@pytest.fixture
def new_catalog(spark: SparkSession) -> Iterator[Callable[..., str]]:
    """Makes a catalog of the session: from confs to its name."""
    made: list[str] = []

    def make(**confs: str) -> str:
        name = f"more{time.monotonic_ns()}"
        keys = {f"spark.sql.catalog.{name}": CATALOG}
        keys |= {f"spark.sql.catalog.{name}.{key.replace('_', '-')}": value for key, value in confs.items()}
        for key, value in keys.items():
            spark.conf.set(key, value)
        made.extend(keys)
        return name

    yield make
    for key in made:
        spark.conf.unset(key)


def waiting_in(spark: SparkSession, method: str) -> list[Any]:
    """The driver's threads that wait for the service in a method of the adapter."""
    jvm = spark.sparkContext._jvm
    threads = list(jvm.Thread.getAllStackTraces().entrySet())
    return [
        entry.getKey()
        for entry in threads
        if {"send", method} <= {f.getMethodName() for f in entry.getValue() if "pysparkpravega" in f.getClassName()}
    ]


class Statement(threading.Thread):
    """A statement that runs beside the test."""

    def __init__(self, run: Callable[[], object]) -> None:
        super().__init__()
        self._run = run
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error


@pytest.mark.parametrize("way", ["interrupt", "shell"])
def test_an_interrupt_ends_the_wait_for_a_dead_controller(
    spark: SparkSession, scope: str, new_catalog: Callable[..., str], way: str
) -> None:
    """As cancelling a statement over JDBC does, or stopping a streaming query, or Ctrl-C in the SQL shell."""
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (a INT)")
    dead = new_catalog(controller_uri="tcp://localhost:1", retry_timeout="10min")
    statement = Statement(lambda: spark.sql(f"SHOW TABLES IN {dead}.mine").collect())
    wait_until(lambda: bool(waiting_in(spark, "listRelationSummaries")), "the wait for the dead controller")
    before = services(spark)
    assert spark.sql(f"SELECT * FROM pravega.`{scope}`.t").collect() == []
    [thread] = waiting_in(spark, "listRelationSummaries")
    if way == "interrupt":
        thread.interrupt()
    else:
        spark.sparkContext._jvm.org.apache.hadoop.hive.common.HiveInterruptUtils.interrupt()
    statement.join()
    assert {"interrupt": "InterruptedException", "shell": "[PRAVEGA_CANCELLED]"}[way] in str(statement.error)
    assert spark.sql(f"SELECT * FROM pravega.`{scope}`.t").collect() == []
    assert services(spark) == before


def test_an_interrupt_does_not_hide_what_became_of_a_commit(spark: SparkSession, scope: str, tmp_path: Path) -> None:
    """The service stands still when it is asked for the commit, and the statement is interrupted meanwhile."""
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (v BIGINT)")
    at, go_on = str(tmp_path / "at"), str(tmp_path / "go-on")

    @udf(returnType=LongType(), useArrow=False)
    def wait(value: int) -> int:
        Path(at).touch()
        while not os.path.exists(go_on):
            time.sleep(0.02)
        return value

    rows = spark.range(0, 1, 1, 1).select(wait("id").alias("v"))
    statement = Statement(lambda: rows.writeTo(f"pravega.`{scope}`.t").append())
    wait_until(lambda: os.path.exists(at), "the task")
    stopped = services(spark)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        Path(go_on).touch()
        wait_until(lambda: bool(waiting_in(spark, "commit")), "the commit")
        for thread in waiting_in(spark, "commit"):
            thread.interrupt()
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    statement.join()
    assert statement.error is None
    assert [row.v for row in spark.table(f"pravega.`{scope}`.t").collect()] == [0]


def test_an_insert_that_waits_for_another_commit_is_given_up_by_ctrl_c(
    spark: SparkSession, scope: str, client_config: ClientConfig
) -> None:
    table = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {table} (v BIGINT)")
    with connect(client_config) as pravega:
        log = CommitLog(pravega, Stream(scope, "t"))
        before, _ = begin_insert(pravega, log._stream, [b"{}"])
        assert log.enter(before.transaction.id, rows=1, operation="INSERT")
        statement = Statement(lambda: spark.sql(f"INSERT INTO {table} VALUES (1)"))
        wait_until(lambda: len(list_committing(log)) == 2, "the INSERT in the queue")
        spark.sparkContext._jvm.org.apache.hadoop.hive.common.HiveInterruptUtils.interrupt()
        statement.join()
        assert "[PRAVEGA_CANCELLED]" in str(statement.error)
        assert list_committing(log) == (before.transaction.id,)
        log.withdraw(before.transaction.id)
        before.abort()
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    assert [row.v for row in spark.table(table).collect()] == [2]


def test_a_second_service_plans_selects_while_the_first_is_busy(spark: SparkSession, scope: str) -> None:
    """It sees at once what statements have changed by the first one, and may die."""
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.pravega.services", "2")
    name = f"pravega.`{scope}`.t"
    spark.sql(f"CREATE TABLE {name} (v BIGINT)")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    first = set(services(spark))

    def select() -> None:
        assert spark.sql(f"SELECT sum(v) FROM {name} WHERE v > 0").first() == (1,)

    def change(number: int) -> None:
        mine = f"pravega.`{scope}`.t{number}"
        for first in (0, 10):
            spark.sql(f"CREATE TABLE {mine} (v0 BIGINT)")
            for more in range(1, 4):
                spark.sql(f"INSERT INTO {mine} (v0) VALUES ({first + more})")
                spark.sql(f"ALTER TABLE {mine} ADD COLUMN v{more} BIGINT")
                rows = spark.sql(f"SELECT min(v0), count(v0), count(v{more}) FROM {mine} WHERE v0 < 99").collect()
                assert [tuple(row) for row in rows] == [(first + 1, more, 0)]
            spark.sql(f"DROP TABLE {mine}")
            with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
                spark.sql(f"SELECT * FROM {mine}")

    try:
        for pid in first:
            os.kill(pid, signal.SIGSTOP)
        try:
            statements = [Statement(select) for _ in range(12)]
            wait_until(lambda: sum(not one.is_alive() for one in statements) >= 4, "answers of the second service")
        finally:
            for pid in first:
                os.kill(pid, signal.SIGCONT)
        second = set(services(spark)) - first
        assert len(second) == 1
        statements += [Statement(partial(change, number)) for number in range(12)]
        for statement in statements:
            statement.join()
        assert [one.error for one in statements if one.error is not None] == []
        for pid in second:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: set(services(spark)) == first, "its end")
        select()
    finally:
        conf.remove("spark.pravega.services")


@pytest.mark.parametrize("command", ["kill -9 $$", "exit 70"])
def test_a_service_that_ends_before_its_first_answer(
    spark: SparkSession, tmp_path: Path, new_catalog: Callable[..., str], command: str
) -> None:
    """It is not said to lack the package, as it is when Python does not find it."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{command}\n")
    python.chmod(0o755)
    ends = new_catalog(controller_uri="tcp://localhost:1", python=str(python))
    with pytest.raises(PySparkException) as failed:
        spark.sql(f"SHOW TABLES IN {ends}.mine")
    said = str(failed.value)
    how = "was killed by signal 9" if "kill" in command else "ended with exit code 70"
    assert "[PRAVEGA_SERVICE_FAILED]" in said and how in said and "installed" not in said


def test_modules_beside_the_driver_are_none_of_the_service(spark: SparkSession) -> None:
    spark.sql("SHOW NAMESPACES IN pravega").collect()
    assert [pid for pid in services(spark) if "-P -m pyspark_pravega.catalog.service" in running(pid)]
    # Spark's script `pyspark` leaves an empty entry, which to Python is the working directory.
    jvm: Any = spark.sparkContext._jvm
    adapter = jvm.Thread.currentThread().getContextClassLoader().loadClass("io.github.pysparkpravega.PythonWorkers")
    [drop] = [each for each in adapter.getDeclaredMethods() if each.getName() == "dropEmptyEntries"]
    drop.setAccessible(True)
    arguments = spark.sparkContext._gateway.new_array(jvm.Object, 1)  # type: ignore[union-attr]
    for path, kept in {"/mine::/yours:": "/mine:/yours", "::/mine": "/mine", "/a:/b": "/a:/b", ":": ""}.items():
        arguments[0] = path
        assert drop.invoke(None, arguments) == kept


def long_text(text: str) -> str:
    """The same stream cut in 60,000 characters: its gzip member gets a file name, as the format allows."""
    member = base64.b64decode(text)
    assert member[:4] == b"\x1f\x8b\x08\x00"
    named = b"\x1f\x8b\x08\x08" + member[4:10] + b"x" * 44_950 + b"\0" + member[10:]
    return base64.b64encode(named).decode()


def test_a_stream_cut_as_long_as_thousands_of_segments_make_it(
    spark: SparkSession, scope: str, client_config: ClientConfig
) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (v BIGINT)")
    spark.sql(f"INSERT INTO pravega.`{scope}`.t VALUES (1), (2)")
    with connect(client_config) as pravega:
        cut = long_text(pravega.controller.head(Stream(scope, "t")).to_text())
    assert len(cut) > 59_900
    before = services(spark)
    table = f"pravega.`{scope}`.t WITH (`start-stream-cut` = '{cut}')"
    assert spark.sql(f"SELECT a.v FROM {table} a JOIN {table} b ON a.v = b.v ORDER BY 1").collect() == [(1,), (2,)]
    with pytest.raises(PySparkException, match="PRAVEGA_INVALID_OPTION.*bytes too many at its end"):
        junk = base64.b64encode(base64.b64decode(cut) + b"x" * 60_000).decode()
        spark.sql(f"SELECT * FROM pravega.`{scope}`.t WITH (`start-stream-cut` = '{junk}')").collect()
    assert services(spark) == before


@pytest.mark.parametrize("columns", ["`a\0b` INT", "a INT, s STRUCT<`x\0`: INT>", "m MAP<INT, STRUCT<`\0`: INT>>"])
def test_a_column_named_u_0000_is_refused(spark: SparkSession, scope: str, columns: str) -> None:
    rows = spark.createDataFrame([], columns)
    with pytest.raises(PySparkException, match=r"PRAVEGA_INVALID_NAME.*\\x00.*U\+0000"):
        rows.writeTo(f"pravega.`{scope}`.t").using("pravega").create()
    assert spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect() == []


def test_half_of_a_surrogate_pair_is_refused(spark: SparkSession, scope: str) -> None:
    with pytest.raises(PySparkException, match="PRAVEGA_INVALID_OPTION.*half of a surrogate pair"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.t (a INT) COMMENT 'x\\uD83D'")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t (a INT) COMMENT '\\uD83D\\uDE00 grüße'")
    assert "😀 grüße" in spark.sql(f"SHOW CREATE TABLE pravega.`{scope}`.t").first()[0]
