"""Cancels calls whose results nobody waits for any more, and runs independent calls side by side.

The cancellation of a thread's call, if it has one, is found by `find_current`. Other threads take part in the call only
through `carry_over`, `map_side_by_side` and `run_in_background`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Cancelled(BaseException):
    """Nobody waits for the call any more. Not an Exception, so that nothing handles it as a failure."""


class Cancellation:
    """Says whether one call is cancelled, and interrupts it. Thread-safe."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._actions: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Return whether `cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Make the call end soon. May be called more than once."""
        with self._lock:
            self._cancelled.set()
            for action in self._actions:  # under the lock, so that no action runs after the wait it interrupts
                action()

    def check(self) -> None:
        """Raise Cancelled after `cancel`."""
        if self.cancelled:
            raise Cancelled

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises Cancelled as soon as `cancel` is called."""
        if self._cancelled.wait(seconds):
            raise Cancelled

    @contextmanager
    def interrupt_by(self, action: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `action`, which makes a wait in the body fail; that failure is raised as Cancelled.

        `action` must be quick and raise nothing.
        """
        with self._lock:
            self.check()
            self._actions.append(action)
        try:
            yield
        except Exception:
            self.check()
            raise
        finally:
            with self._lock:
                self._actions.remove(action)


_current: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)
_postponed: ContextVar[Cancellation | None] = ContextVar("postponed", default=None)


def find_current() -> Cancellation | None:
    """Return the cancellation of this thread's call; None if it cannot be cancelled."""
    return _current.get()


@contextmanager
def activate(cancellation: Cancellation | None) -> Iterator[None]:
    """Run the body as a call that `cancellation` can end."""
    token = _current.set(cancellation)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def shield() -> Iterator[None]:
    """Run the body to its end, even if the call is cancelled."""
    with activate(None):
        yield


@contextmanager
def postpone() -> Iterator[None]:
    """Run the body to its end, even if the call is cancelled, except where it calls `check_postponed`."""
    token = _postponed.set(find_current())
    try:
        with shield():
            yield
    finally:
        _postponed.reset(token)


def check_postponed() -> None:
    """Raise Cancelled in the body of `postpone` if its call is cancelled; do nothing elsewhere."""
    if (cancellation := _postponed.get()) is not None:
        cancellation.check()


def check() -> None:
    """Raise Cancelled if this thread's call is cancelled."""
    if (cancellation := find_current()) is not None:
        cancellation.check()


def sleep(seconds: float) -> None:
    """Sleep. Raises Cancelled as soon as this thread's call is cancelled."""
    if (cancellation := find_current()) is not None:
        cancellation.sleep(seconds)
    else:
        time.sleep(seconds)


def interrupt_by(action: Callable[[], object]) -> AbstractContextManager[None]:
    """Let the cancellation of this thread's call interrupt the body; see `Cancellation.interrupt_by`."""
    cancellation = find_current()
    return nullcontext() if cancellation is None else cancellation.interrupt_by(action)


def carry_over(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that another thread runs as part of this thread's call."""
    context = copy_context()  # the cancellation, and the time limit of retries

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    return run


def map_side_by_side(function: Callable[[T], R], items: Iterable[T], threads: int = 8) -> list[R]:
    """Return what a function returns for each item. Threads run it side by side, as part of this thread's call."""
    each = list(items)
    if len(each) < 2 or sys.is_finalizing():  # an interpreter that ends starts no threads
        return [function(item) for item in each]
    with ThreadPoolExecutor(min(threads, len(each))) as pool:
        return list(pool.map(carry_over(function), each))


def run_in_background(call: Callable[[], R]) -> Callable[[], R]:
    """Run a call in its own thread, as part of this thread's call; return a function that waits for its result.

    That function raises what the call has raised. An error is ignored if nobody asks for the result.
    """
    outcome: Future[R] = Future()
    call = carry_over(call)

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="background call", daemon=True).start()
    return outcome.result
