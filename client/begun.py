"""Calls that are independent of each other, waited for together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Callable[[], T]:
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
