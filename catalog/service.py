"""The catalog service: one process per driver, which answers the Java adapter's calls over stdin and stdout.

Calls are read from a pipe and carried out side by side. Each one is answered, whatever happens.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

from pyspark_pravega.client.cancellation import Cancellation, Cancelled, activate
from pyspark_pravega.errors import InternalError, PravegaError, StatementCancelledError

from .operations import Operations
from .protocol import read_request
from .protocol.message_codec import encode

LOG = logging.getLogger(__name__)
GRACE = 30.0
"""Seconds that calls have to end after the driver: to finish a commit, or to undo half of a CREATE TABLE."""
DEFECT = 70
"""Exit code after a failure of this module (EX_SOFTWARE). Python's own is 1 if the package cannot be imported."""


class Calls:
    """The calls that are running."""

    def __init__(self, answer: Callable[[int, Any], object], replies: int) -> None:
        """Answer calls by `answer`, which gets a number and parsed JSON; write to the file descriptor `replies`."""
        self._answer = answer
        self._replies = replies
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._running: dict[int, tuple[Cancellation, threading.Thread]] = {}
        self.ended = threading.Event()
        """Set once the driver has closed its end, or no longer reads."""

    def read(self, requests: BinaryIO, take_back: Callable[[int], None]) -> None:
        """Begin the calls that come in, until there are no more.

        `take_back` gets the number of each call that was cancelled; it may have been answered already.
        """
        try:
            for line in requests:
                number, _, text = line.partition(b" ")
                if text.strip() != b"null":
                    self._begin(int(number), text)
                    continue
                with self._lock:
                    call = self._running.get(int(number))
                if call is not None:
                    call[0].cancel()
                take_back(int(number))
        except BaseException:
            LOG.exception("The driver's requests cannot be read.")
        finally:
            self.ended.set()

    def end(self, seconds: float) -> bool:
        """Cancel all running calls, and wait for them this long at most; return whether they have ended."""
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
            self._reply(
                number, _describe_failure(InternalError(f"The catalog service cannot take the request: {error}."))
            )

    def _run(self, number: int, text: bytes, cancellation: Cancellation) -> None:
        operation, started = "a request", time.monotonic()
        try:
            request = json.loads(text)
            operation = f"'{request['operation']}'"
            with activate(cancellation):
                reply = json.dumps({"result": encode(self._answer(number, request))})
        except Cancelled:
            reply = _describe_failure(StatementCancelledError("The statement was cancelled."))
        except PravegaError as error:
            reply = _describe_failure(error)
        except BaseException as error:  # a plug-in may call sys.exit, but the driver still waits for an answer
            # This is a defect: the statement fails with its name, and the log has the rest.
            LOG.error("%s failed:\n%s", operation, traceback.format_exc())
            reply = _describe_failure(InternalError(f"{type(error).__name__} in {operation}: {error}"))
        self._reply(number, reply)
        LOG.debug("%s took %.1f ms", operation, (time.monotonic() - started) * 1e3)

    def _reply(self, number: int, reply: str) -> None:
        left = memoryview(f"{number} {reply}\n".encode())
        try:
            with self._writing:
                while left:
                    left = left[os.write(self._replies, left) :]
        except OSError:
            # The driver no longer reads answers, and must not wait for one: the pipe ends with this process.
            self.ended.set()
        finally:
            with self._lock:
                del self._running[number]


def _describe_failure(error: PravegaError) -> str:
    return json.dumps(
        {"error": {"condition": error.condition, "sql_state": error.sql_state, "message": error.sentence}}
    )


def serve(requests: int, replies: int) -> None:
    """Answer requests until the driver closes its end, then abort what is open. Both arguments are descriptors."""
    operations = Operations()
    gc.freeze()  # collections need not look at modules: that was a tenth of what a SELECT costs here

    def answer(number: int, request: Any) -> object:
        return operations.answer(number, read_request(request))

    calls = Calls(answer, replies)
    # Never closed: its reader may wait in it for ever if the driver reads no answers but does not end.
    lines = os.fdopen(requests, "rb", closefd=False)
    threading.Thread(target=calls.read, args=(lines, operations.take_back), name="requests", daemon=True).start()
    calls.ended.wait()
    # First of all: what the driver left open blocks other writers until it is aborted.
    aborts = operations.abort_open_inserts()
    if not calls.end(GRACE):
        LOG.warning("The driver has ended, and some of its calls did not end in %.0f s after it.", GRACE)
    for abort in aborts:
        abort.join()
    operations.close()


def main() -> None:
    """Run the service on this process's stdin and stdout; the arguments are where plug-ins are found."""
    sys.path += sys.argv[1:]  # last, so that they take no installed module's place
    # Ctrl-C in a shell reaches all its processes but means the statement, which the driver cancels by a request.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(format="pyspark-pravega: %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    # Nothing but answers may reach the pipe, whatever a library prints.
    replies = os.dup(1)
    os.dup2(2, 1)
    code = DEFECT
    try:
        serve(0, replies)
        code = 0
    except BaseException:
        LOG.exception("The catalog service failed.")
    logging.shutdown()
    os._exit(code)  # calls that did not end have threads, which must not keep the process


if __name__ == "__main__":
    main()
