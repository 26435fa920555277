"""The program `pyspark-pravega run`: a Spark driver for one script, its signals and its exit code."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pyspark_pravega.errors import InvalidScriptError, PravegaError, describe_os_error, format_count
from pyspark_pravega.interrupts import exit_now
from pyspark_pravega.spark.launch import Launch, read_catalog_conf
from pyspark_pravega.spark.logging import silence_query_contexts
from pyspark_pravega.sql.script import Statement, split_script

from .checks import check_controller, find_first_mistake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .runner import ScriptRunner


_STOPPING = (signal.SIGINT, signal.SIGTERM)
FAILED = 1
_NO_BAR = ("--conf", "spark.ui.showConsoleProgress=false")
"""Spark's bar of tasks would be drawn over the progress of the queries. The user's own conf comes later and counts."""
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_STACKS = {
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution": "OFF",
    "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor": "ERROR",
    "org.apache.spark.executor.Executor": "OFF",
    "org.apache.spark.scheduler.TaskSetManager": "ERROR",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask": "OFF",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec": "OFF",
    "org.apache.spark.util.Utils": "OFF",
    "org.apache.spark.sql.execution.streaming.runtime.StreamMetadata": "OFF",
}
"""Loggers of what we tell in a line, and the level at which they do not: that a task or a query failed, with its stack;
that a micro-batch took longer than the trigger, as the first ones do, while the lag is shown."""
_SENT_WITHIN = 0.5
"""Seconds in which a signal that is sent twice arrives."""
_LOOK_EVERY = 0.05
"""Seconds between two looks at whether a signal came."""


def run_script(path: Path, launch: Launch, *, catalog: str, check: bool, begin: int = 1) -> int:
    """Run a script in a driver that is started with the arguments of `launch`; return the exit code.

    Of the statements before number `begin` only those run that later ones need in each session.

    Errors of settings and syntax are reported before Spark starts; with `check`, also missing tables of the catalog.

    The driver's JVM is a child of this process, and shields itself from Ctrl-C: the queries are stopped before it is.
    """
    try:
        script = read_script(path)
    except FileNotFoundError:
        return _report_failure(path, "no such file")
    except PravegaError as error:
        return _report_failure(path, error.for_user())
    if (mistake := find_first_mistake(script)) is not None:
        return _report_failure(path, mistake)
    if begin > len(script):
        has = format_count(len(script), "statement")
        return _report_failure(path, f"--from {begin}: the script has {has}. Give the number of one of them.")
    whole, script = script, [one for number, one in enumerate(script, 1) if number >= begin or one.is_of_session]
    os.environ.update(launch.environment)
    if check and not _check_tables(path, script, launch, catalog):
        return FAILED
    if not check:
        try:
            check_controller(script, catalog, read_catalog_conf("run", launch, catalog))
        except PravegaError as error:
            return _report_failure(path, error.for_user())
    arguments = [*_NO_BAR, *launch.command[1:], "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(arguments)
    silence_query_contexts()

    from py4j.protocol import Py4JNetworkError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from .progress import ProgressDisplay
    from .runner import ScriptRunner, has_ended
    from .statement_failures import ScriptFailedError, strip_details

    signals = Signals()
    try:
        spark = start_session(SparkSession.builder.appName(path.name), signals)
    except PySparkException as error:
        return _report_failure(path, f"Spark did not start: {strip_details(error)}")
    if spark is None:
        print(f"{path}: stopped by {signals.name()} while Spark started", file=sys.stderr)
        exit_now(signals.exit_code())
    _shuffle_by_cores(spark)
    ours = "SPARK_SUBMIT_OPTS" in launch.environment  # else the user has chosen what is logged
    if ours:
        _leave_failures_to_us(spark)
    display = ProgressDisplay()
    try:
        runner = ScriptRunner(spark, script, display, lambda: _silence_log(spark) if ours else None)
        if check:
            runner.check()
            display.message(f"{path}: {format_count(len(script), 'statement')}, no errors found")
            return 0
        if runner.run(signals.came):
            return 0
        display.message(f"{path}: stopped by {signals.name()}; {_describe_next_run(path, whole, script, runner)}")
        return signals.exit_code()
    except ScriptFailedError as error:
        return _report_failure(path, str(error))
    finally:
        if not has_ended(spark):
            with suppress(Py4JNetworkError, OSError):  # its JVM has ended by itself meanwhile
                spark.stop()


def _describe_next_run(
    path: Path, whole: Sequence[Statement], script: Sequence[Statement], runner: ScriptRunner
) -> str:
    """Return what the next run of a script that was stopped repeats, and how to leave that out."""
    repeated = [one for one in runner.done if one.lasts]
    if not repeated:
        return "run it again to continue from there" if runner.started else "nothing that lasts was done; run it again"
    lines = ", ".join(str(one.line) for one in repeated)
    says = f"done: line{'s' * (len(repeated) > 1)} {lines}, which another run repeats"
    # The first of those that have not ended: a query goes on where it stopped, whatever is repeated after it.
    begin = next((whole.index(one) for one in script if one not in runner.done), len(whole))
    if repeated[0] not in whole[:begin] or begin == len(whole):
        return says
    left_out = "it" if len(repeated) == 1 else "them" if repeated[-1] in whole[:begin] else "those before"
    return f"{says}. To leave {left_out} out: pyspark-pravega run --from {begin + 1} {path}"


def read_script(path: Path) -> Sequence[Statement]:
    """Read and split a script. Raises InvalidScriptError, even for one without statements, and FileNotFoundError."""
    try:
        statements = split_script(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidScriptError(f"The script cannot be read: {describe_os_error(error)}.") from error
    except UnicodeDecodeError as error:
        raise InvalidScriptError(f"The script cannot be read, because it is not UTF-8 text: {error}.") from error
    if not statements:
        raise InvalidScriptError("The script has no statement.")
    return statements


class Signals:
    """Notes the first SIGINT or SIGTERM. A later one ends the process at once.

    `timeout` and others send a signal twice, to the program and to its group: that is one.
    """

    def __init__(self) -> None:
        self._came: signal.Signals | None = None
        self._noted = 0.0
        for number in _STOPPING:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._came is None:
            self._came, self._noted = signal.Signals(number), time.monotonic()
        elif time.monotonic() - self._noted > _SENT_WITHIN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def came(self) -> bool:
        return self._came is not None

    def name(self) -> str:
        return self._came.name if self._came else ""

    def exit_code(self) -> int:
        """Return the exit code that shells give to a program that a signal ends."""
        return 128 + (self._came or 0)


def start_session(builder: SparkSession.Builder, signals: Signals) -> SparkSession | None:
    """Start the session; return None at a signal, when its JVM may still be starting. Raises the builder's errors."""
    # In the main thread, PySpark would handle SIGINT itself, and raise KeyboardInterrupt in the middle of its calls.
    starting = ThreadPoolExecutor(1, "session").submit(builder.getOrCreate)
    while not starting.done():
        if signals.came():
            return None
        wait([starting], _LOOK_EVERY)
    return starting.result()


def _check_tables(path: Path, script: Sequence[Statement], launch: Launch, catalog: str) -> bool:
    """Report which tables are missing, or why that is unknown; return whether none is known to be missing."""
    from .named_tables import find_missing_tables

    try:
        missing = find_missing_tables(script, catalog, read_catalog_conf("run", launch, catalog))
    except PravegaError as error:
        print(f"{path}: tables were not checked: {error.for_user()}", file=sys.stderr, flush=True)
        return True
    for line, text in missing:
        _report_failure(path, f"Line {line}: {text}")
    return not missing


def _shuffle_by_cores(spark: SparkSession) -> None:
    """Give shuffles of a run on this machine as many tasks as it has cores, unless a conf sets their number.

    Spark's 200 are meant for clusters: each micro-batch would wait for 200 tasks and write 200 state stores.
    """
    context = spark.sparkContext
    if str(context.master).partition("[")[0] == "local" and context.getConf().get(_SHUFFLE_PARTITIONS) is None:
        spark.conf.set(_SHUFFLE_PARTITIONS, str(context.defaultParallelism))


def _leave_failures_to_us(spark: SparkSession) -> None:
    """Keep Spark from logging failures with their stacks, because the runner reports them in a sentence."""
    assert spark._jvm is not None
    log4j = spark._jvm.org.apache.logging.log4j
    for logger, level in _STACKS.items():
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.toLevel(level))


def _silence_log(spark: SparkSession) -> None:
    """Keep Spark from logging tasks of abandoned batches: earlier failures have been reported by then."""
    assert spark._jvm is not None
    log4j = spark._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setAllLevels(log4j.LogManager.ROOT_LOGGER_NAME, log4j.Level.OFF)


def _report_failure(path: Path, text: str) -> int:
    print(f"{path}: {text}", file=sys.stderr, flush=True)
    return FAILED
