"""The process from which Spark forks Python workers, with everything imported that a scan or an INSERT needs.

Spark's own daemon imports nothing, so that every worker spends a second on imports before its first task. Spark starts
this one instead where the conf `spark.python.daemon.module` names it, for all Python tasks of an application. Tasks
that are not ours find some modules loaded, and nothing else changes for them.

Imports must leave a process that may be forked: no gRPC channel, no connection, no thread that matters to a child.
"""

from __future__ import annotations

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from pyspark_pravega.formats.core.format import FORMATS, find_format

from . import spark_functions  # noqa: F401


def main() -> None:
    """Import the rest and fork workers until Spark ends."""
    for name in FORMATS:
        find_format(name)
    gc.freeze()  # a collection in a worker would copy the memory of all these modules
    manager()


if __name__ == "__main__":
    main()
