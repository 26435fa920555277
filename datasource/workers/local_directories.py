"""Finds where tasks put temporary files: next to Spark's own, on the disks that `spark.local.dir` or YARN provides.

Spark passes the directories of its executor to each Python worker in SPARK_LOCAL_DIRS, and deletes them with the
executor. Without an executor, the system's directory for temporary files is used.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path


def list_local_directories() -> list[Path]:
    """Return the directories for temporary files, one per disk, in Spark's order; at least one."""
    named = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return [Path(path) for path in named if path] or [Path(tempfile.gettempdir())]


def choose_spill_directory() -> Path:
    """Choose one of the directories at random, so that tasks share the disks."""
    return random.choice(list_local_directories())
