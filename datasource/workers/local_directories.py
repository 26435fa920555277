"""Where tasks put temporary files: beside Spark's own, on the disks that `spark.local.dir` or YARN gives for that.

Spark tells each Python worker the directories of its executor in SPARK_LOCAL_DIRS, and deletes them with the executor.
Without an executor, it is the system's directory for temporary files.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path


def local_directories() -> list[Path]:
    """Return the directories for temporary files, one per disk, in Spark's order; at least one."""
    named = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return [Path(path) for path in named if path] or [Path(tempfile.gettempdir())]


def spill_directory() -> Path:
    """Choose one of them, so that tasks share the disks."""
    return random.choice(local_directories())
