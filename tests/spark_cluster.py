"""A real cluster of Spark on this machine: a master and two workers, started by Spark's own scripts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.datasource.insert.test_atomicity import wait_until

HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark takes the workers for two hosts: it never runs a task twice on one."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For processes that live for a minute."""


@contextmanager
def standalone_cluster(directory: Path, **environment: str) -> Iterator[str]:
    """Yield the master's URL. Executors have the environment of this process and `environment`."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    package = "org.apache.spark.deploy"
    quick = {"SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA, "SPARK_DAEMON_MEMORY": "128m"}
    local = {**os.environ, **quick, "SPARK_LOCAL_DIRS": str(directory / "local"), **environment}
    started = []

    def start(name: str, *arguments: str) -> Path:
        log = directory / f"{name}.log"
        with log.open("w") as out:
            process = subprocess.Popen([spark_class, *arguments], stdout=out, stderr=out, cwd=directory, env=local)
        started.append(process)
        return log

    def said(log: Path, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, log.read_text())

    try:
        log = start("master", f"{package}.master.Master", "--host", HOSTS[0], "--port", "0", "--webui-port", "0")
        wait_until(lambda: said(log, r"Starting Spark master at (spark://\S+)") is not None, "a master", 120)
        url = said(log, r"Starting Spark master at (spark://\S+)")[1]  # type: ignore[index]
        workers = [
            start(
                host, f"{package}.worker.Worker", "--host", host, "--cores", "2", "--memory", "1g", "--webui-port", "0",
                "--work-dir", str(directory / host), url,
            )
            for host in HOSTS
        ]  # fmt: skip
        for one in workers:
            wait_until(lambda one=one: said(one, "Successfully registered") is not None, "a worker", 120)  # type: ignore[misc]
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=60)
