"""Ends calls that nobody waits for any more, and runs independent calls side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Cancelled(BaseException):
    """Nobody waits for the call any more. No Exception, so that nothing takes it for a failure to go on from."""


class Cancellation:
    """Whether one call is cancelled, and what that ends. Thread-safe."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._actions: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Tell whether `cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Make the call end soon. May be called more than once."""
        with self._lock:
            self._cancelled.set()
            for action in self._actions:  # with the lock, so that none comes after the end of its wait
                action()

    def check(self) -> None:
        """Raise Cancelled after `cancel`."""
        if self.cancelled:
            raise Cancelled

    def sleep(self, seconds: float) -> None:
        """Sleep; raises Cancelled when `cancel` is called meanwhile."""
        if self._cancelled.wait(seconds):
            raise Cancelled

    @contextmanager
    def interrupt_by(self, action: Callable[[], object]) -> Iterator[None]:
        """Let `cancel` call `action`, which makes a wait in the body fail; the failure comes out as Cancelled.

        `action` is quick and raises nothing.
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


def current() -> Cancellation | None:
    """Return what the call of this thread runs under."""
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
    """Run the body to its end, cancelled or not."""
    with activate(None):
        yield


def check() -> None:
    """Raise Cancelled if the call of this thread is cancelled."""
    if (cancellation := current()) is not None:
        cancellation.check()


def sleep(seconds: float) -> None:
    """Sleep; raises Cancelled when the call of this thread is cancelled meanwhile."""
    if (cancellation := current()) is not None:
        cancellation.sleep(seconds)
    else:
        time.sleep(seconds)


@contextmanager
def interrupt_by(action: Callable[[], object]) -> Iterator[None]:
    """Let the cancellation of this thread's call interrupt the body; see `Cancellation.interrupt_by`."""
    if (cancellation := current()) is not None:
        with cancellation.interrupt_by(action):
            yield
    else:
        yield


def carry_over(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function for another thread to run as part of this thread's call."""
    cancellation = current()

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with activate(cancellation):
            return function(*args, **kwargs)

    return run


T = TypeVar("T")


def run_in_background(call: Callable[[], T]) -> Callable[[], T]:
    """Begin a call in a thread of its own, as part of this thread's call; return what waits for its result.

    That raises what the call has raised. If nobody asks for the result, it does not matter what becomes of the call.
    """
    outcome: Future[T] = Future()
    context = copy_context()  # who cancels the call, and until when it may try again

    def run() -> None:
        try:
            outcome.set_result(context.run(call))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="begun", daemon=True).start()
    return outcome.result
