"""Starts, watches and ends server processes that outlive the command that started them.

A process is identified by its id and its start time. An id alone is not enough: after a crash or a reboot it may belong
to another process, which must not be ended.

A lifeline stops a cluster when the process that wanted it ends, even if that process is killed: a small watcher process
waits for the end of a pipe whose other end only the owner holds, and the kernel closes it when the owner dies. Tests,
benchmarks and demos use it, but not `pyspark-pravega local start`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error

TERMINATION_GRACE_S = 3.0
"""Seconds that a process has to end by itself before it is killed. They are few, since the servers keep nothing that
outlives them (the registry would wait 5 s for its idle threads)."""

_KILL_WAIT_S = 10.0
_POLL_S = 0.02

# Children of this process, kept until they have ended: a child that nobody waits for remains as a zombie.
_children: dict[ServerProcess, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class ServerProcess:
    """A started process; `birth` distinguishes it from a later one with the same id."""

    pid: int
    birth: str

    def is_alive(self) -> bool:
        """Return whether exactly this process still runs; a zombie does not."""
        return find_birth(self.pid) == self.birth


def spawn(command: Sequence[str], *, directory: Path, output: Path, environment: Mapping[str, str]) -> ServerProcess:
    """Start a process in its own session, so that neither Ctrl-C nor a closed terminal reaches it.

    Standard output and error are appended to the file `output` (mode 0600); `environment` is the whole environment.
    Raises SetupError if the program cannot be started.
    """
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
            umask=0o077,
        )
    except OSError as error:
        raise SetupError(f"{command[0]} could not be started: {describe_os_error(error)}") from error
    finally:
        os.close(descriptor)
    # The process has not been reaped yet, so the id is still its own, even if it ended at once.
    process = ServerProcess(child.pid, find_birth(child.pid) or "ended at once")
    _children[process] = child
    return process


def exit_code(process: ServerProcess) -> int | None:
    """Return the exit code of a child of this process that has ended (negative: a signal killed it), otherwise None."""
    child = _children.get(process)
    return None if child is None else child.poll()


def find_birth(pid: int) -> str | None:
    """Return a text that distinguishes processes with the same id; None if no such process runs."""
    if Path("/proc/self/stat").exists():
        return _find_birth_in_proc(pid)
    return _find_birth_by_ps(pid)


def _find_birth_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    state, _, started = result.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()


def _find_birth_in_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name, in parentheses, and may contain anything.
    after_name = stat[stat.rindex(")") + 2 :].split()
    state, start_ticks = after_name[0], after_name[19]
    if state in "ZX":
        return None
    # Ticks are counted from the boot, so the boot must be part of the text.
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{start_ticks}"


def end_processes(processes: Sequence[ServerProcess], grace_s: float = TERMINATION_GRACE_S) -> bool:
    """End the processes that still run; kill those that do not end in time. Return whether none was killed.

    Raises SetupError if this user may not signal a process, or a killed process is still there.
    """
    _signal(processes, signal.SIGTERM)
    willing = _wait_until_ended(processes, grace_s)
    if not willing:
        _signal(processes, signal.SIGKILL)
        if not _wait_until_ended(processes, _KILL_WAIT_S):
            left = ", ".join(str(process.pid) for process in processes if process.is_alive())
            raise SetupError(
                f"process {left} is still there {_KILL_WAIT_S:.0f} s after it was killed: "
                "it may hang in the kernel, e.g. in a stuck file system; look at it with ps"
            )
    for process in processes:
        if (child := _children.pop(process, None)) is not None:
            child.wait()
    return willing


def _signal(processes: Sequence[ServerProcess], number: signal.Signals) -> None:
    for process in processes:
        if process.is_alive():
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue
            except PermissionError as error:
                raise SetupError(
                    f"process {process.pid} belongs to another user and cannot be ended: "
                    "run the command as the user who started the cluster"
                ) from error


def _wait_until_ended(processes: Sequence[ServerProcess], limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while any(process.is_alive() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


# Kept, because garbage collection would close the pipe, and thereby stop the cluster.
_watchers: set[subprocess.Popen[bytes]] = set()


def attach_lifeline(directory: Path) -> Callable[[], None]:
    """Stop the cluster of the directory when this process ends.

    Returns what detaches the lifeline after the cluster was stopped: the watcher then has nothing to do, and ends.
    """
    watcher = subprocess.Popen(
        [sys.executable, "-m", "pyspark_pravega.local.lifeline_watcher", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Ctrl-C in the owner's terminal must not end the watcher before the owner.
        start_new_session=True,
    )
    _watchers.add(watcher)

    def detach() -> None:
        watcher.communicate()  # closes the pipe
        _watchers.discard(watcher)

    return detach
