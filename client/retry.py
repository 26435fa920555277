"""Repeats calls after failures that may pass, within a time limit.

A call may be part of other calls that are repeated too: all of them end when the outermost one does. A server that
has never answered may be given up earlier (`FirstContact`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import tenacity

from pyspark_pravega.errors import PravegaError, ServerUnavailableError, Unreached

from . import cancellation

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds between tries: doubled from the first to the longest, and partly random, so that many tasks whose server
restarts do not all come back at once."""

LEAST_SECONDS = 0.25
"""Seconds that a later try must have left. With fewer it would time out, and hide why the tries before it failed."""

LOG_AFTER_SECONDS = 2.0
"""Seconds of tries after which the log says that a server cannot be reached."""

LOG_EVERY_SECONDS = 20.0
"""Least seconds between two such lines about one server in this process."""

_LEAST_FIRST_CONTACT = 2.5
"""Seconds that each call has at least: more than the longest pause of gRPC between two connections."""

_REMEMBERED = 60.0
"""Seconds for which a failed first contact shortens later ones."""


class _Around(NamedTuple):
    """The retries that the current call is part of: when the innermost end, and when the outermost began and end.

    `tries` counts all tries, `repeats` those after a first one, for `count_repeats`.
    """

    deadline: float = float("inf")
    began: float = 0.0
    end: float = float("inf")
    tries: list[int] | None = None
    repeats: list[int] | None = None


_NOTHING = _Around()
_around: ContextVar[_Around] = ContextVar("around", default=_NOTHING)

_logged: dict[str, float] = {}
"""When the log last said that a server cannot be reached, by server (`time.monotonic`)."""
_lock = threading.Lock()


class FirstContact:
    """Limits how long a server is tried that has never answered: its address may be wrong. Thread-safe.

    All calls share the time, so that a command with many calls does not wait for each of them.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """Allow `seconds` of tries; None sets no limit beyond that of each call."""
        self._seconds = seconds
        self._answered = False
        self._since: float | None = None
        self._lock = threading.Lock()

    @property
    def open(self) -> bool:
        """Return whether the server has never answered, and may not be tried for as long as others."""
        return self._seconds is not None and not self._answered

    def note_answer(self) -> None:
        """Note that the server has answered: if it is unreachable later, it is only away for a while."""
        self._answered = True

    def seconds_left(self, began: float) -> float:
        """Return how many seconds are left for a call whose last try has just failed; infinite without a limit.

        `began` is when the call began (`time.monotonic`).
        """
        if self._seconds is None or self._answered:
            return float("inf")
        now = time.monotonic()
        with self._lock:
            if self._since is None or now - self._since > _REMEMBERED:
                self._since = now
            return max(self._since + self._seconds, began + min(_LEAST_FIRST_CONTACT, self._seconds)) - now


def log_unreached(unreached: Unreached, left: float) -> None:
    """Log that a server cannot be reached and is tried for `left` more seconds, unless the log said so recently."""
    now = time.monotonic()
    with _lock:
        if now - _logged.get(unreached.server, float("-inf")) < LOG_EVERY_SECONDS:
            return
        _logged[unreached.server] = now
    _log.warning("cannot reach %s (%s), trying for %.0f s more", unreached.server, unreached.why, left)


@contextmanager
def limit_retries(seconds: float) -> Iterator[None]:
    """Limit the retries in the body of a `with` block to `seconds`, whatever their own time limits are."""
    with _enter(deadline=min(_around.get().deadline, time.monotonic() + seconds)):
        yield


@contextmanager
def count_repeats() -> Iterator[list[int]]:
    """Count the calls that are tried again in the body of a `with` block; the list's only element is their number."""
    repeats = [0]
    with _enter(repeats=repeats):
        yield repeats


@contextmanager
def _enter(**changes: Any) -> Iterator[None]:
    token = _around.set(_around.get()._replace(**changes))
    try:
        yield
    finally:
        _around.reset(token)


def retry(
    operation: Callable[[float], Result],
    *,
    timeout: float,
    transient: type[Exception] | tuple[type[Exception], ...] | Callable[[BaseException], bool] = (
        ServerUnavailableError
    ),
    sleep: Callable[[float], None] = cancellation.sleep,
    first_contact: FirstContact | None = None,
) -> Result:
    """Call `operation(seconds_left)` until it succeeds, fails with a final error, or `timeout` seconds are over.

    `transient` (classes, or a test of the error) says which errors are tried again; a refused password, a missing
    right, a bad certificate or a protocol error is raised at once. The operation must be safe to repeat and should
    spend at most `seconds_left`, so that the total stays bounded whatever the number of tries. Retries inside the
    operation end no later than these. `first_contact` ends the tries sooner if the server has never answered.

    After `LOG_AFTER_SECONDS` a warning in the log, which a terminal shows, says that the server cannot be reached.
    When the time is over, the last error is raised; the message of the outermost retries has the number of tries.
    Raises Cancelled once nobody waits for the call any more.
    """
    now, outer = time.monotonic(), _around.get()
    deadline = min(now + timeout, outer.deadline)
    timeout = max(0.0, deadline - now)
    tries = [0] if outer.tries is None else outer.tries
    began, end = (now, deadline) if outer.tries is None else (outer.began, outer.end)

    def can_retry(error: BaseException) -> bool:
        if isinstance(error, ServerUnavailableError) and error.at_first_contact:
            return False
        if isinstance(transient, type | tuple):
            return isinstance(error, transient)
        return transient(error)

    def is_over(state: tenacity.RetryCallState) -> bool:
        spent = (state.seconds_since_start or 0.0) + state.upcoming_sleep
        if spent > timeout - min(LEAST_SECONDS, timeout / 4):
            return True
        error = state.outcome.exception() if state.outcome is not None else None
        if not isinstance(error, ServerUnavailableError) or error.unreached is None:
            return False
        left = first_contact.seconds_left(now) if first_contact is not None else float("inf")
        if left < state.upcoming_sleep:
            error.at_first_contact = True
            return True
        if time.monotonic() + state.upcoming_sleep - began >= LOG_AFTER_SECONDS:
            log_unreached(error.unreached, min(left, end - time.monotonic()))
        return False

    def attempt() -> Result:
        cancellation.check()
        tries[0] += 1
        if outer.repeats is not None and retrying.statistics["attempt_number"] > 1:
            outer.repeats[0] += 1
        # A first try is made in any case; later ones only start with time left (see `is_over`).
        return operation(max(deadline - time.monotonic(), 0.001))

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(can_retry),
        stop=is_over,
        wait=tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE, min=FIRST_PAUSE / 2),
        sleep=sleep,
        reraise=True,
    )
    try:
        with _enter(deadline=deadline, began=began, end=end, tries=tries):
            return retrying(attempt)
    except PravegaError as error:
        if outer.tries is not None or tries[0] == 1:
            raise
        if isinstance(error, ServerUnavailableError) and error.at_first_contact:
            ended = f"{time.monotonic() - now:.3g} s, since it has never answered; 'retry-timeout' sets how long"
        elif can_retry(error):
            ended = f"{timeout:.3g} s"
        else:
            raise
        last = type(error)(f"{error.message} (gave up after {tries[0]} tries in {ended})")
        vars(last).update(vars(error) | {"message": last.message})
        raise last from error
