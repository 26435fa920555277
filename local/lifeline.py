"""Stops a cluster when the process that wanted it ends, even if that process is killed.

A small watcher process waits for the end of a pipe whose other end only the owner holds; the kernel closes it when the
owner dies. Tests, benchmarks and demos use it, but not `pyspark-pravega local start`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# Kept, because garbage collection would close the pipe, and thereby stop the cluster.
_attached: set[Lifeline] = set()


class Lifeline:
    """The owner's end of the pipe."""

    def __init__(self, watcher: subprocess.Popen[bytes]) -> None:
        self._watcher = watcher

    def detach(self) -> None:
        """Close the pipe after the cluster was stopped; the watcher then has nothing to do and ends."""
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()
        self._watcher.wait()
        _attached.discard(self)


def attach_lifeline(directory: Path) -> Lifeline:
    """Stop the cluster of the directory when this process ends."""
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
