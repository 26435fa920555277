"""Errors on their way to a user: Spark shows what a Python worker raises with its type and all its frames."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pyspark_pravega.errors import PravegaError

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


def shorten_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Make the errors of this package leave a function as a sentence with its SQLSTATE, without Python's frames.

    The frames go to the debug log. `TaskErrors.java` finds condition, sentence and SQLSTATE in what Spark's worker
    makes of the error. Other errors, which are defects, keep all their frames.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PravegaError as error:
            LOG.debug("%s", function.__qualname__, exc_info=True)
            if not getattr(error, "__notes__", ()):
                error.add_note(f"SQLSTATE: {error.sql_state}")
            error.message = error.sentence
            if "SPARK_BUFFER_SIZE" in os.environ:
                # A worker of Spark's, which reads this when it reports the error, and then ends.
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"
            raise error.with_traceback(None) from None

    return call
