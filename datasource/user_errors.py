"""Errors on their way to a user: Spark prints what a Python worker raises with all its frames."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pyspark_pravega.errors import PravegaError

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


def concise(function: Callable[P, R]) -> Callable[P, R]:
    """Let the errors of this package leave a function without the frames below it, which go to the debug log.

    Their sentences say what a user needs; defects, which are other errors, keep all their frames.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PravegaError as error:
            LOG.debug("%s", function.__qualname__, exc_info=True)
            raise error.with_traceback(None) from None

    return call
