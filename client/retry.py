"""Tries again after failures that may pass, never longer than the time allowed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import tenacity

from pyspark_pravega.errors import PravegaError, ServerUnavailableError

from . import cancellation

Result = TypeVar("Result")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between tries: doubled from the first to the longest, with some chance so that many tasks whose
server restarts do not come back all at once."""

LEAST_SECONDS = 0.25
"""What a later try must have left. With less it would fail for want of time, and hide why the tries before failed."""

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))
"""When the retries end that the current call is part of."""
_tries: ContextVar[list[int] | None] = ContextVar("tries", default=None)
"""Counts the tries, those inside of others too, for the outermost retries to tell."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Let the retries in a `with` block go on for so long at most, whatever their own time is."""
    outer = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(outer)


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
    should spend no more than `seconds_left`, so that the total stays bounded whatever the number of tries. Retries
    inside of the operation end no later than these.
    When the time is over the last error is raised, with the number of tries of the outermost retries in its message.
    Raises Cancelled when nobody waits for the call any more.
    """
    now, outer = time.monotonic(), _tries.get()
    deadline = min(now + timeout, _deadline.get())
    timeout = max(0.0, deadline - now)
    tries = [0] if outer is None else outer

    def may_pass(error: BaseException) -> bool:
        if isinstance(transient, type | tuple):
            return isinstance(error, transient)
        return transient(error)

    def is_over(state: tenacity.RetryCallState) -> bool:
        spent = (state.seconds_since_start or 0.0) + state.upcoming_sleep
        return spent > timeout - min(LEAST_SECONDS, timeout / 4)

    def attempt() -> Result:
        cancellation.check()
        tries[0] += 1
        left = deadline - time.monotonic()
        with at_most(left):
            # A first try is made in any case; later ones only start with time left (see `is_over`).
            return operation(max(left, 0.001))

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(may_pass),
        stop=is_over,
        wait=tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE, min=FIRST_PAUSE / 2),
        sleep=sleep,
        reraise=True,
    )
    token = _tries.set(tries)
    try:
        return retrying(attempt)
    except PravegaError as error:
        if outer is None and tries[0] > 1 and may_pass(error):
            last = type(error)(f"{error.message} (gave up after {tries[0]} tries in {timeout:.3g} s)")
            vars(last).update(vars(error) | {"message": last.message})
            raise last from error
        raise
    finally:
        _tries.reset(token)
