"""Tell a user that a statement or a query of a script failed: by line and sentence, without stack and plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql.options import CHECKPOINT
from pyspark_pravega.sql.script import Statement

from .streaming_insert import build_not_streaming_error

_STREAM_IN_BATCH = ("_LEGACY_ERROR_TEMP_3102", "must be executed with writeStream.start()")
"""The condition and the words with which Spark refuses a stream in a batch. Other refusals share the condition."""
_STACK = "\n\nJVM stacktrace:"
_QUERY = "\n=== Streaming Query ==="
_PLAN = re.compile(r";\s*\n['~+A-Z].*", re.DOTALL)
"""An unresolved plan, which Spark appends to the message of an analysis that failed."""


class ScriptFailedError(Exception):
    """A statement or a streaming query failed; the text is for the user."""


@contextmanager
def report_failures(statement: Statement, hint: Callable[[Exception], str] = lambda _: "") -> Iterator[None]:
    """Turn errors of Spark and of this package into a ScriptFailedError that names the statement's line.

    What `hint` says about an error of Spark's follows its message.
    """
    try:
        yield
    except PySparkException as error:
        condition, words = _STREAM_IN_BATCH
        if error.getCondition() == condition and words in str(error):
            raise _fail(statement, build_not_streaming_error().for_user()) from error
        raise _fail(statement, f"{strip_details(error)}{hint(error)}") from error
    except PravegaError as error:
        raise _fail(statement, error.for_user()) from error
    except Exception as error:
        java = getattr(error, "java_exception", None)  # such as an IOException, which PySpark leaves as it is
        if java is None:
            raise
        text = java.toString()
        if _is_io_failure(java):
            text += f". Can the checkpoint be created and written there? SET {CHECKPOINT.key} names its directory."
        raise _fail(statement, text) from error


def _fail(statement: Statement, text: str) -> ScriptFailedError:
    return ScriptFailedError(f"Line {statement.line}: {text}")


def _is_io_failure(error: Any) -> bool:
    """Return whether an IOException is among a Java exception and its causes."""
    jvm = SparkContext._jvm
    assert jvm is not None
    io_exception = jvm.java.lang.Class.forName("java.io.IOException")
    while error is not None and not io_exception.isInstance(error):
        error = error.getCause()
    return error is not None


def strip_details(error: PySparkException) -> str:
    """Return the message of an error without the stack, without plans, and without empty lines."""
    text = str(error).partition(_STACK)[0].partition(_QUERY)[0]
    return "\n".join(line for line in _PLAN.sub("", text).splitlines() if line.strip())
