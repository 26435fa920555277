"""Measure how long a session takes to start: Spark alone and with Pravega, with and without an archive.

    python -m bench.session_start [--rounds 5] [--python OTHER/bin/python]

Each start is a process of its own: imports, `getOrCreate()`, and the first statement, which is SHOW NAMESPACES. With
Pravega that starts the catalog service, too. The archive is the one that an earlier session had recorded;
without it, only one of these two is measured. `--python` names a Python with another PySpark, to compare with.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict

from bench.servers import open_cluster
from pyspark_pravega.spark.class_archive import find_archive
from pyspark_pravega.spark.home import find_spark_home

PROGRAM = """
import json, sys, time
begin = time.perf_counter()
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
if len(sys.argv) > 1:
    from pyspark_pravega import configure
    builder = configure(builder, controller_uri=sys.argv[1], schema_registry_uri=sys.argv[2])
spark = builder.getOrCreate()
started = time.perf_counter()
spark.sql("SHOW NAMESPACES" + (" IN pravega" if len(sys.argv) > 1 else "")).collect()
done = time.perf_counter()
print(json.dumps([f"Spark {spark.version}", started - begin, done - started]))
spark.stop()
"""


def start(python: str, *servers: str, **variables: str) -> tuple[str, float, float]:
    """Start a session; return the version of Spark, and the seconds of the start and of the first statement."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= variables
    done = subprocess.run(
        [python, "-c", PROGRAM, *servers],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    version, started, first = json.loads(done.stdout.splitlines()[-1])
    return str(version), float(started), float(first)


def main() -> None:
    """Print the medians and the best."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", action="append", default=[])
    arguments = parser.parse_args()
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    archive = find_archive(find_spark_home(os.environ), os.environ)
    with open_cluster() as config, tempfile.TemporaryDirectory() as empty:
        servers = (config.controller_uri, config.registry_uri or "")
        for _ in range(arguments.rounds):
            for python in (sys.executable, *arguments.python):
                version, *seconds = start(python)
                found[f"{version} alone"].append((seconds[0], seconds[1]))
            version, *seconds = start(sys.executable, *servers, XDG_CACHE_HOME=empty)
            found[f"{version} with Pravega"].append((seconds[0], seconds[1]))
            if archive is not None and archive.options():
                version, *seconds = start(sys.executable, *servers)
                found[f"{version} with Pravega and the archive"].append((seconds[0], seconds[1]))
    print(f"load {os.getloadavg()[0]:.0f}; median and best\n| | start | first statement |\n|---|---|---|")
    for what, runs in found.items():
        columns = [f"{statistics.median(each):.1f} s, {min(each):.1f} s" for each in zip(*runs, strict=True)]
        print(f"| {what} | {columns[0]} | {columns[1]} |")


if __name__ == "__main__":
    main()
