"""The calls of the Java adapter: read from a pipe, carried out side by side, each answered for certain.

A request is a line `<number> <JSON>`, its answer a line `<number> {"result": ...}` or
`<number> {"error": {"condition", "sql_state", "message"}}`; `<number> null` takes a request back whose answer nobody
waits for.
Every request has a thread of its own, because one that waits for a dead server must not keep others waiting: there are
as many as threads of the driver that wait for an answer.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from pyspark_pravega.client.cancellation import Cancellation, Cancelled, under
from pyspark_pravega.errors import InternalError, PravegaError, StatementCancelledError

from .messages import encode

LOG = logging.getLogger(__name__)


class Calls:
    """The calls that are running. `answer` carries out a request, given its number and the value of its JSON."""

    def __init__(self, answer: Callable[[int, Any], object], replies: int) -> None:
        """`replies` is a file descriptor."""
        self._answer = answer
        self._replies = replies
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._running: dict[int, tuple[Cancellation, threading.Thread]] = {}
        self.ended = threading.Event()
        """The driver has closed its end, or does not read any more."""

    def read(self, requests: BinaryIO, taken_back: Callable[[int], None]) -> None:
        """Begin the calls that come in until there are no more.

        `taken_back` is told the number of a call that was cancelled, which may have been answered before.
        """
        try:
            for line in requests:
                number, _, text = line.partition(b" ")
                if text.strip() != b"null":
                    self._begin(int(number), text)
                    continue
                with self._lock:
                    found = self._running.get(int(number))
                if found is not None:
                    found[0].cancel()
                taken_back(int(number))
        except BaseException:
            LOG.exception("The driver's requests cannot be read.")
        finally:
            self.ended.set()

    def end(self, seconds: float) -> bool:
        """Cancel all that is running and wait until it has ended, at most for some seconds; whether it has."""
        deadline = time.monotonic() + seconds
        with self._lock:
            running = list(self._running.values())
        for cancellation, _ in running:
            cancellation.cancel()
        for _, thread in running:
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(thread.is_alive() for _, thread in running)

    def _begin(self, number: int, text: bytes) -> None:
        cancellation = Cancellation()
        thread = threading.Thread(
            target=self._run, args=(number, text, cancellation), name=f"request {number}", daemon=True
        )
        with self._lock:
            self._running[number] = cancellation, thread
        try:
            thread.start()
        except RuntimeError as error:  # the system has no thread left
            self._done(number, _failure(InternalError(f"The catalog service cannot take the request: {error}.")))

    def _run(self, number: int, text: bytes, cancellation: Cancellation) -> None:
        operation, started = "a request", time.monotonic()
        try:
            request = json.loads(text)
            operation = f"'{request['operation']}'"
            with under(cancellation):
                reply = json.dumps({"result": encode(self._answer(number, request))})
        except Cancelled:
            reply = _failure(StatementCancelledError("The statement was cancelled."))
        except PravegaError as error:
            reply = _failure(error)
        except BaseException as error:  # a plug-in may call sys.exit, and the answer is waited for all the same
            # A defect of ours: the statement fails with its name, the log has the rest.
            LOG.error("%s failed:\n%s", operation, traceback.format_exc())
            reply = _failure(InternalError(f"{type(error).__name__} in {operation}: {error}"))
        self._done(number, reply)
        LOG.debug("%s took %.1f ms", operation, (time.monotonic() - started) * 1e3)

    def _done(self, number: int, reply: str) -> None:
        left = memoryview(f"{number} {reply}\n".encode())
        try:
            with self._writing:
                while left:
                    left = left[os.write(self._replies, left) :]
        except OSError:
            # The driver does not read answers any more, and must not wait for one: the pipe ends with this process.
            self.ended.set()
        finally:
            with self._lock:
                del self._running[number]


def _failure(error: PravegaError) -> str:
    return json.dumps(
        {"error": {"condition": error.condition, "sql_state": error.sql_state, "message": error.sentence}}
    )
