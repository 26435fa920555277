"""The program `pyspark-pravega run`: a Spark driver for one script, its signals and its exit code."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_pravega.catalog_conf import PREFIX
from pyspark_pravega.errors import InvalidScriptError, PravegaError, counted, system_reason
from pyspark_pravega.interrupts import exit_now
from pyspark_pravega.launch import Launch
from pyspark_pravega.spark_logging import quiet_query_contexts
from pyspark_pravega.sql.script import Statement, statements

from .checks import first_mistake
from .signals import Signals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED = 1
_NO_BAR = ("--conf", "spark.ui.showConsoleProgress=false")
"""Spark's bar of tasks would be drawn over the progress of the queries. The user's own conf comes later and counts."""
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_STACKS = {
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution": "OFF",
    "org.apache.spark.executor.Executor": "OFF",
    "org.apache.spark.scheduler.TaskSetManager": "ERROR",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask": "OFF",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec": "OFF",
    "org.apache.spark.util.Utils": "OFF",
}
"""Loggers that each tell the failure of a task or a query with its stack, and the level at which they do not."""


def run_script(path: Path, launch: Launch, *, catalog: str, check: bool) -> int:
    """Run a script in a driver that is started with the arguments of `launch`; returns the exit code.

    What is wrong with settings and syntax is told before Spark starts; with `check` also which tables of the catalog
    are missing.

    The driver's JVM is a child of this process, and shields itself from Ctrl-C: the queries are stopped before it is.
    """
    try:
        script = read_script(path)
    except FileNotFoundError:
        return _failed(path, "no such file")
    except PravegaError as error:
        return _failed(path, error.for_user())
    if (mistake := first_mistake(script)) is not None:
        return _failed(path, mistake)
    os.environ.update(launch.environment)
    if check and not _tables_are_there(path, script, launch, catalog):
        return FAILED
    arguments = [*_NO_BAR, *launch.command[1:], "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(arguments)
    quiet_query_contexts()

    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from .failures import ScriptFailedError, sentence
    from .progress import ProgressDisplay
    from .runner import ScriptRunner
    from .starting import start_session

    signals = Signals()
    try:
        spark = start_session(SparkSession.builder.appName(path.name), signals)
    except PySparkException as error:
        return _failed(path, f"Spark did not start: {sentence(error)}")
    if spark is None:
        print(f"{path}: stopped by {signals.name()} while Spark started", file=sys.stderr)
        exit_now(signals.exit_code())
    _shuffle_by_cores(spark)
    ours = "SPARK_SUBMIT_OPTS" in launch.environment  # else the user has said what is logged
    if ours:
        _leave_failures_to_us(spark)
    display = ProgressDisplay()
    try:
        runner = ScriptRunner(spark, script, display, lambda: _log_no_more(spark) if ours else None)
        if check:
            runner.check()
            display.message(f"{path}: {counted(len(script), 'statement')}, no errors found")
            return 0
        if runner.run(signals.came):
            return 0
        display.message(f"{path}: stopped by {signals.name()}; run it again to go on from there")
        return signals.exit_code()
    except ScriptFailedError as error:
        return _failed(path, str(error))
    finally:
        spark.stop()


def read_script(path: Path) -> Sequence[Statement]:
    """Read and split a script. Raises InvalidScriptError, also for one without statements, and FileNotFoundError."""
    try:
        found = statements(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidScriptError(f"The script cannot be read: {system_reason(error)}.") from error
    except UnicodeDecodeError as error:
        raise InvalidScriptError(f"The script cannot be read, since it is no text in UTF-8: {error}.") from error
    if not found:
        raise InvalidScriptError("The script has no statement.")
    return found


def _tables_are_there(path: Path, script: Sequence[Statement], launch: Launch, catalog: str) -> bool:
    """Say which tables are missing, or why that cannot be told; tells whether none is known to be."""
    from .named_tables import missing_tables

    prefix, settings = f"{PREFIX}{catalog}.", {}
    for option, conf in pairwise(launch.command):
        key, sign, text = conf.partition("=")
        if option == "--conf" and sign and key.startswith(prefix):
            settings[key.removeprefix(prefix)] = text
    try:
        missing = missing_tables(script, catalog, settings)
    except PravegaError as error:
        print(f"{path}: tables were not checked: {error.for_user()}", file=sys.stderr, flush=True)
        return True
    for each in missing:
        _failed(path, f"Line {each.line}: {each.text}")
    return not missing


def _shuffle_by_cores(spark: SparkSession) -> None:
    """Let shuffles of a run on this machine have as many tasks as it has cores, unless a conf says how many.

    Spark's 200 are meant for clusters: each micro-batch would wait for 200 tasks and write 200 state stores.
    """
    context = spark.sparkContext
    if str(context.master).partition("[")[0] == "local" and context.getConf().get(_SHUFFLE_PARTITIONS) is None:
        spark.conf.set(_SHUFFLE_PARTITIONS, str(context.defaultParallelism))


def _leave_failures_to_us(spark: SparkSession) -> None:
    """Have Spark not log failures with their stacks: the runner says them in a sentence."""
    assert spark._jvm is not None
    log4j = spark._jvm.org.apache.logging.log4j
    for logger, level in _STACKS.items():
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.toLevel(level))


def _failed(path: Path, text: str) -> int:
    print(f"{path}: {text}", file=sys.stderr, flush=True)
    return FAILED


def _log_no_more(spark: SparkSession) -> None:
    """Have Spark not log the tasks of batches that are given up: what has failed before is said by then."""
    assert spark._jvm is not None
    log4j = spark._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setAllLevels(log4j.LogManager.ROOT_LOGGER_NAME, log4j.Level.OFF)
