"""Stops a cluster when the process that wanted it ends, even if that process is killed.

A small watcher process waits for the end of a pipe whose other end only the owner holds: the kernel closes
it when the owner dies. Used by tests, benchmarks and demos; `pyspark-pravega local start` does without.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Kept: closing the pipe by forgetting it would stop the cluster.
_attached: set[Lifeline] = set()


class Lifeline:
    """The owner's end."""

    def __init__(self, watcher: subprocess.Popen[bytes]) -> None:
        self._watcher = watcher

    def detach(self) -> None:
        """Close the pipe after the cluster was stopped; the watcher finds nothing to do and ends."""
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()
        self._watcher.wait()
        _attached.discard(self)


def attach_lifeline(directory: Path) -> Lifeline:
    """Watch over the cluster of the directory for the rest of this process's life."""
    watcher = subprocess.Popen(
        [sys.executable, "-m", "pyspark_pravega.local.lifeline_watcher", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # Ctrl-C in the owner's terminal must not end the watcher before the owner.
        start_new_session=True,
    )
    attached = Lifeline(watcher)
    _attached.add(attached)
    return attached
