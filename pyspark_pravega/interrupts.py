"""Handle Ctrl-C in a command: a line instead of a traceback, exit code 130, and no process left running.

This module imports as little as possible, because it runs before anything else is loaded.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

EXIT_CODE = 128 + signal.SIGINT
"""The exit code that shells give to a program that Ctrl-C ends."""
CHILDREN_END_WITHIN = 3.0
"""Seconds that children get to delete their temporary files; then they are killed."""
_POLL = 0.02


def end_on_interrupt() -> None:
    """Let Ctrl-C end this process at once from now on, whatever it is waiting for."""
    signal.signal(signal.SIGINT, _end)


@contextmanager
def undo_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt in the body, which undoes what it has begun. A second one ends the process.

    Ends the process with EXIT_CODE if the body does not catch it. Does nothing where `end_on_interrupt` is not in
    force, as in programs that use the commands' functions.
    """
    if signal.getsignal(signal.SIGINT) is not _end:
        yield
        return

    def undo(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, undo)
    try:
        yield
    except KeyboardInterrupt:
        _print_interrupted()
        sys.exit(EXIT_CODE)
    signal.signal(signal.SIGINT, _end)


def exit_now(code: int) -> NoReturn:
    """End the children of this process, and then the process itself, without waiting for its threads."""
    end_children()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def end_children() -> None:
    """End the processes that this one has started, such as the JVM of a session, and wait for them.

    Does nothing without Linux's /proc: a session's JVM ends when its standard input closes.
    """
    children = list_children()
    _signal(children, signal.SIGTERM)
    deadline = time.monotonic() + CHILDREN_END_WITHIN
    while children & list_children() and time.monotonic() < deadline:
        time.sleep(_POLL)
    _signal(children & list_children(), signal.SIGKILL)


def list_children() -> set[int]:
    """Return the ids of the running processes that this one has started."""
    processes: set[int] = set()
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            processes.update(int(pid) for pid in _read_text(f"/proc/self/task/{thread}/children").split())
    states = {pid: _read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1] for pid in processes}
    return {pid for pid, state in states.items() if state not in ([], ["Z"])}  # Z: it has ended, and is still listed


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # the process or the thread has ended
        return ""


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one does not wait for children
    _print_interrupted()
    end_children()
    os._exit(EXIT_CODE)


def _print_interrupted() -> None:
    # Not by `print`: the signal may have come in the midst of one.
    with suppress(OSError):
        os.write(2, b"\nInterrupted.\n" if os.isatty(2) else b"Interrupted.\n")
