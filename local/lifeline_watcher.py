"""The program of a lifeline's watcher: stops the cluster of a directory when its standard input ends."""

from __future__ import annotations

import sys
from pathlib import Path

from .cluster import LocalCluster


def main() -> None:
    """Stop the cluster of the directory that is the only argument when standard input ends."""
    # It is found before the wait, so that a later cluster in the same directory is left alone.
    cluster = LocalCluster.find(Path(sys.argv[1]))
    sys.stdin.buffer.read()
    if cluster is not None:
        cluster.stop()


if __name__ == "__main__":
    main()
