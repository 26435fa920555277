"""Ending processes, and only the right ones."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local import processes
from pyspark_pravega.local.processes import ServerProcess

# Opening the named pipe tells that the script got this far.
_OBEDIENT = "import time; open('up', 'w').close(); time.sleep(600)"
_STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {_OBEDIENT}"


def _spawn(script: str, directory: Path) -> ServerProcess:
    os.mkfifo(directory / "up")
    command = [sys.executable, "-c", script]
    process = processes.spawn(command, directory=directory, output=directory / "output", environment=os.environ)
    (directory / "up").read_bytes()
    return process


@pytest.mark.parametrize("script", [_OBEDIENT, _STUBBORN])
def test_end(tmp_path: Path, script: str) -> None:
    process = _spawn(script, tmp_path)
    assert process.is_alive()
    processes.end_processes([process], grace_s=0.2)
    assert not process.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    processes.end_processes([process])


def test_later_process_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    process = _spawn(_OBEDIENT, tmp_path)
    earlier = replace(process, birth="before the reboot/123")
    assert not earlier.is_alive()
    processes.end_processes([earlier])
    assert process.is_alive()
    processes.end_processes([process])


def test_ended_child_is_not_alive_before_it_is_reaped(tmp_path: Path) -> None:
    process = _spawn(_OBEDIENT, tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive()
    assert processes.exit_code(process) == -signal.SIGKILL
    processes.end_processes([process])


@pytest.mark.skipif(shutil.which("ps") is None, reason="this machine has no ps")
def test_birth_where_there_is_no_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "find_birth", processes._find_birth_by_ps)
    process = _spawn(_OBEDIENT, tmp_path)
    assert process.is_alive()
    assert process.birth.endswith(str(date.today().year))
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_alive()
    processes.end_processes([process])
    assert not process.is_alive()


def test_output_is_private(tmp_path: Path) -> None:
    process = _spawn(_OBEDIENT, tmp_path)
    processes.end_processes([process])
    assert (tmp_path / "output").stat().st_mode & 0o777 == 0o600


def test_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="/nonexistent could not be started"):
        processes.spawn(["/nonexistent"], directory=tmp_path, output=tmp_path / "output", environment={})
