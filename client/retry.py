"""Tries again after failures that may pass, never longer than the time allowed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import tenacity

from pyspark_pravega.errors import PravegaError, ServerUnavailableError

from . import cancellation

Result = TypeVar("Result")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between tries: doubled from the first to the longest, with some chance so that many tasks whose
server restarts do not come back all at once."""


def retry(
    operation: Callable[[float], Result],
    *,
    timeout: float,
    transient: type[Exception] | tuple[type[Exception], ...] | Callable[[BaseException], bool] = (
        ServerUnavailableError
    ),
    sleep: Callable[[float], None] = cancellation.sleep,
) -> Result:
    """Call `operation(seconds_left)` until it succeeds, fails for good or `timeout` seconds are over.

    Only `transient` errors (classes, or a test of the error) are tried again: a refused password, a missing
    right, a bad certificate or a protocol error is raised at once. The operation must be safe to repeat and
    should spend no more than `seconds_left`, so that the total stays bounded whatever the number of tries.
    When the time is over the last error is raised, with the number of tries added to its message. Raises Cancelled
    when nobody waits for the call any more.
    """
    deadline = time.monotonic() + timeout
    attempts = 0

    def may_pass(error: BaseException) -> bool:
        if isinstance(transient, type | tuple):
            return isinstance(error, transient)
        return transient(error)

    def attempt() -> Result:
        nonlocal attempts
        cancellation.check()
        attempts += 1
        # A first try is made in any case; later ones only start with time left (see `stop`).
        return operation(max(deadline - time.monotonic(), 0.001))

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(may_pass),
        stop=tenacity.stop_before_delay(timeout),
        wait=tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE, min=FIRST_PAUSE / 2),
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(attempt)
    except PravegaError as error:
        if attempts > 1 and may_pass(error):
            raise type(error)(f"{error.message} (gave up after {attempts} tries in {timeout:g} s)") from error
        raise
