"""Measure INSERT by the size of events, and by the rate of the link between tasks and segment stores."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.limits import Processes, start_processes, time_bare_write
from bench.link import OUTSIDE, Link, describe_lack, open_link
from bench.raw_throughput import SEGMENTS, insert_all, make_source, make_table
from bench.servers import open_cluster, open_session
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.stream import Stream

from .measured import QUIET, measure_warm, print_best, save

SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Bytes of an event."""
RATES = (25, 50, 100, 200, 400)
"""Megabytes each second that a link takes."""
SIZE_BEHIND_LINK = 1_300
_NETWORK = {
    "pravegaservice.service.published.host.nameOrIp": OUTSIDE,
    "pravegaservice.service.listener.host.nameOrIp": "0.0.0.0",
}
"""Settings by which the servers are reached from inside a link."""


def measure_sizes(
    spark: SparkSession, pravega: Pravega, ready: Processes, scope: str, megabytes: int
) -> Iterator[dict[str, Any]]:
    """Yield the seconds of an INSERT and of bare writers for each size of events."""
    for size in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            count, source = make_source(spark, directory, size, megabytes)
            table, bare = make_table(spark, scope, f"of-{size}"), make_table(spark, scope, f"bare-{size}")
            found = {
                "INSERT": measure_warm(partial(insert_all, source, table), runs=3),
                "bare write": measure_warm(
                    partial(time_bare_write, pravega, ready, Stream(scope, f"bare-{size}"), count, size), runs=3
                ),
            }
            for made in (table, bare):
                spark.sql(f"DROP TABLE {made}")
        print_best(f"{size:>7} B", found)
        yield {"size": size, "bytes": count * size, **found}


def measure_inside(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure INSERT at each rate; this process runs inside the link that the environment names."""
    link = Link(os.environ["BENCH_LINK"], os.environ["BENCH_INTERFACE"])
    rows = []
    with open_cluster() as config, open_session(config, arguments.cores, QUIET) as (spark, scope):
        with tempfile.TemporaryDirectory() as place:
            count, source = make_source(spark, place, SIZE_BEHIND_LINK, arguments.megabytes)
            table = make_table(spark, scope, "behind-a-link")
            for rate in (None, *reversed(RATES)):
                if rate is not None:
                    link.limit(rate)
                found = {"INSERT": measure_warm(partial(insert_all, source, table), runs=3)}
                print_best("no limit" if rate is None else f"{rate} MB/s", found)
                rows.append({"rate": rate, "bytes": count * SIZE_BEHIND_LINK, **found})
            link.limit(None)
    save(directory, "links", {"rows": rows})


def main(arguments: argparse.Namespace, directory: Path) -> None:
    """Measure sizes of events here, then rates of a link, if this machine can make one."""
    with (
        open_cluster() as config,
        connect(config) as pravega,
        start_processes(config, SEGMENTS) as ready,
        open_session(config, arguments.cores, QUIET) as (spark, scope),
    ):
        rows = list(measure_sizes(spark, pravega, ready, scope, arguments.megabytes))
    save(directory, "writes", {"rows": rows})
    if (lack := describe_lack()) is not None:
        print(f"No link was measured: this needs {lack}.")
        return
    with (
        open_link() as link,
        open_cluster(_NETWORK) as config,
    ):  # the servers reach themselves by the address of the link
        uri = config.controller_uri.replace("localhost", OUTSIDE)
        environment = {"PRAVEGA_CONTROLLER_URI": uri, "BENCH_LINK": link.namespace, "BENCH_INTERFACE": link.interface}
        command = (sys.executable, "-m", "bench.scale", "links", "--out", str(directory))
        options = ("--cores", str(arguments.cores), "--megabytes", str(arguments.megabytes))
        subprocess.run((*link.enter, *command, *options), env=os.environ | environment, check=True)
