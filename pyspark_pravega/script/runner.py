"""Run the statements of a script: ordinary ones one after the other, streaming ones side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.errors import InvalidScriptError
from pyspark_pravega.script.named_tables import suggest_near_name
from pyspark_pravega.sql.script import Statement

from . import streaming_insert
from .checks import read_stream_settings
from .progress import ProgressDisplay
from .statement_failures import ScriptFailedError, report_failures, strip_details

LOOK_EVERY = 0.1
"""Seconds between two looks at queries and signals."""
CANCELLED_WITHIN = 2.0
"""Seconds that a statement has to end after its jobs are cancelled, and again after its thread is interrupted."""
MOST_ROWS = 1000
"""The most rows of a SELECT that are shown."""


@dataclass(frozen=True)
class _Running:
    insert: streaming_insert.StreamingInsert
    query: StreamingQuery
    bounded: bool

    @property
    def line(self) -> int:
        return self.insert.statement.line


def has_ended(spark: SparkSession) -> bool:
    """Return whether Spark has stopped, as its JVM does by itself when a SIGTERM reaches all processes of a service."""
    try:
        return bool(spark.sparkContext._jsc.sc().isStopped())
    except (Py4JError, OSError):  # the JVM is gone
        return True


def _has_same_table(one: _Running, insert: streaming_insert.StreamingInsert) -> bool:
    return [part.lower() for part in one.insert.table] == [part.lower() for part in insert.table]


class ScriptRunner:
    """Runs one script in a session.

    Statements run in a thread: the main one can show progress, notice a failing query, and take signals meanwhile.
    """

    def __init__(
        self,
        spark: SparkSession,
        script: Sequence[Statement],
        display: ProgressDisplay,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Take a session and a script. `stopping` is called before queries are stopped in the middle of batches."""
        self._stopping = stopping
        self._spark = spark
        self._script = script
        self._display = display
        self._running: list[_Running] = []
        self.started: list[Statement] = []
        """The streaming statements whose queries were started."""
        self.done: list[Statement] = []
        """The other statements that have ended."""
        self._failure: Exception | None = None
        self._ending = False
        self._java_thread: Any = None

    def check(self) -> None:
        """Parse all statements with Spark, for what `checks` cannot know; check settings. Raises ScriptFailedError."""
        for statement in self._script:
            with report_failures(statement):
                streaming_insert.parse(self._spark, statement)
                if statement.is_setting:
                    self._spark.sql(statement.in_place())
                    read_stream_settings(self._spark.conf.getAll)

    def run(self, stop_asked: Callable[[], bool]) -> bool:
        """Run the script until all of it has ended, or until `stop_asked`; return whether it ended by itself.

        Raises ScriptFailedError if a statement or a query fails. All queries have stopped when this returns.
        """
        statements = threading.Thread(target=self._run_statements, name="statements", daemon=True)
        statements.start()
        try:
            while not stop_asked():
                if self._failure is not None:
                    raise self._failure
                self._raise_if_failed()
                if not statements.is_alive() and not any(one.query.isActive for one in self._running):
                    self._raise_if_failed()  # it may have failed in the meantime
                    return True
                self._display.show([one.query for one in self._running])
                time.sleep(LOOK_EVERY)
            return False
        except (ScriptFailedError, Py4JError, OSError):
            if stop_asked():  # Spark may have got the signal too, and ends by itself
                return False
            raise
        finally:
            self._end(statements)

    def _end(self, statements: threading.Thread) -> None:
        self._ending = True
        try:
            self._stop(statements)
        except (Py4JError, OSError):
            if not has_ended(self._spark):
                raise
        self._display.leave()

    def _stop(self, statements: threading.Thread) -> None:
        self._stopping()
        self._stop_queries()
        if statements.is_alive():
            context = self._spark.sparkContext
            jobs = context.statusTracker().getActiveJobsIds()
            context.cancelAllJobs()
            statements.join(CANCELLED_WITHIN if jobs else LOOK_EVERY)
            if statements.is_alive() and self._java_thread is not None:
                self._java_thread.interrupt()  # it may be waiting for a server rather than a job
                statements.join(CANCELLED_WITHIN)
            self._stop_queries()  # one that started in the meantime
        self._display.show([one.query for one in self._running], now=True)

    def _stop_queries(self) -> None:
        for one in list(self._running):
            one.query.stop()

    def _raise_if_failed(self) -> None:
        for one in self._running:
            if (error := one.query.exception()) is not None:
                raise ScriptFailedError(f"Line {one.line}: the query {one.query.name} failed: {strip_details(error)}")

    def _run_statements(self) -> None:
        try:
            assert self._spark._jvm is not None
            # PySpark runs all calls of a Python thread in one thread of the JVM.
            self._java_thread = self._spark._jvm.java.lang.Thread.currentThread()
            for statement in self._script:
                if self._ending:
                    return
                with report_failures(statement, lambda error: suggest_near_name(self._spark, error)):
                    self._run_statement(statement)
        except Exception as error:  # raised again in the main thread
            self._failure = error

    def _run_statement(self, statement: Statement) -> None:
        insert = streaming_insert.analyze_streaming_insert(self._spark, statement)
        if insert is not None:
            settings = read_stream_settings(self._spark.conf.getAll)
            name = streaming_insert.choose_name(insert, settings)
            if same := next((one for one in self._running if one.query.name == name), None):
                raise InvalidScriptError(
                    f"The statements of lines {same.line} and {statement.line} are both named {name}, and would share "
                    "a checkpoint. Give the second one another name: SET pravega.stream.name = '...'."
                )
            if insert.into_files and (
                same := next((one for one in self._running if _has_same_table(one, insert)), None)
            ):
                raise InvalidScriptError(
                    f"The statements of lines {same.line} and {statement.line} both write to {'.'.join(insert.table)}, "
                    "a table of files, and rows of the second would be missing: Spark mistakes its micro-batches "
                    "for repetitions of those of the first. Combine the queries with UNION ALL, or give each its own "
                    "table."
                )
            query = streaming_insert.start(self._spark, insert, settings)
            self._running.append(_Running(insert, query, streaming_insert.can_end_by_itself(insert, settings)))
            self.started.append(statement)
            self._display.message(f"Line {statement.line}: started {name}")
            return
        if not statement.changes_session_only:
            # It may read what the queries that end by themselves write.
            while not self._ending and any(one.query.isActive for one in self._running if one.bounded):
                time.sleep(LOOK_EVERY)
            self._raise_if_failed()
        began = time.monotonic()
        result = self._spark.sql(statement.in_place())
        if statement.is_setting:
            read_stream_settings(self._spark.conf.getAll)
        elif result.isStreaming:
            raise streaming_insert.build_not_streaming_error()
        elif result.columns:
            self._display.message(f"Line {statement.line}: {statement.summary}")
            result.show(MOST_ROWS, truncate=False)
        else:
            took = time.monotonic() - began
            self._display.message(f"Line {statement.line}: {statement.summary} ({took:.1f} s)")
        self.done.append(statement)
