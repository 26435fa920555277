"""What a user is told when a statement or a query of a script fails: the line and a sentence, no stack, no plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql.options.writing import CHECKPOINT
from pyspark_pravega.sql.script import Statement

from .streaming_insert import build_not_streaming_error

_STREAM_IN_BATCH = ("_LEGACY_ERROR_TEMP_3102", "must be executed with writeStream.start()")
"""The condition and the words with which Spark refuses a stream in a batch. Other refusals have the same condition."""
_STACK = "\n\nJVM stacktrace:"
_QUERY = "\n=== Streaming Query ==="
_PLAN = re.compile(r";\s*\n['~+A-Z].*", re.DOTALL)
"""An unresolved plan, which Spark appends to the message of an analysis that failed."""


class ScriptFailedError(Exception):
    """A statement or a streaming query failed; the text is for the user."""


@contextmanager
def report_failures(statement: Statement, hint: Callable[[Exception], str] = lambda _: "") -> Iterator[None]:
    """Turn errors of Spark and of this package into a ScriptFailedError that names the statement's line.

    What `hint` says of an error of Spark's is put behind it.
    """
    try:
        yield
    except PySparkException as error:
        condition, words = _STREAM_IN_BATCH
        if error.getCondition() == condition and words in str(error):
            raise ScriptFailedError(str(build_not_streaming_error(statement))) from error
        raise ScriptFailedError(f"Line {statement.line}: {strip_details(error)}{hint(error)}") from error
    except PravegaError as error:
        text = error.for_user()
        raise ScriptFailedError(text if "Line " in text else f"Line {statement.line}: {text}") from error
    except Exception as error:
        java = getattr(error, "java_exception", None)  # such as an IOException, which PySpark leaves as it is
        if java is None:
            raise
        text = f"Line {statement.line}: {java.toString()}"
        if "IOException" in text:
            text += f". Can the checkpoint be created and written there? SET {CHECKPOINT.key} names its directory."
        raise ScriptFailedError(text) from error


def strip_details(error: PySparkException) -> str:
    """Return the message of an error without the stack, without plans, and without empty lines."""
    text = str(error).partition(_STACK)[0].partition(_QUERY)[0]
    return "\n".join(line for line in _PLAN.sub("", text).splitlines() if line.strip())
