"""Measure how many SELECTs a second the catalog service of a driver can plan, without Spark and without tasks.

    python -m bench.crowd.service_alone [--clients 1,4,16,64] [--seconds 10] [--services 1,2]

A session SELECTs 100 rows, and what it asks the service for is kept in a file. Then clients ask the same of services
that no driver uses, again and again, each one statement at a time. Several services are what catalogs of several
programs `python` have.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from queue import SimpleQueue

from pyspark.sql import SparkSession

from bench.crowd.load import run_clients
from bench.servers import open_cluster, open_session
from tests.processes import processor_seconds

OF_A_SELECT = ("load_table", "plan_scan")


def record_select(spark: SparkSession, scope: str, file: Path) -> list[bytes]:
    """Return the requests of a SELECT, as a session sends them once its service is warm."""
    table = f"pravega.`{scope}`.small"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, text STRING) USING pravega")
    spark.sql(f"INSERT INTO {table} SELECT id, 'r' || id FROM range(100)")
    before = 0
    for _ in range(3):
        before = len(file.read_bytes().splitlines())
        spark.sql(f"SELECT * FROM {table}").collect()
    lines = [line.partition(b" ")[2] for line in file.read_bytes().splitlines()[before:]]
    requests = [line for line in lines if line != b"null" and json.loads(line)["operation"] in OF_A_SELECT]
    assert len(requests) == len(OF_A_SELECT), requests
    return requests


class Service:
    """A service whose answers go to whoever has asked."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "pyspark_pravega.catalog.service"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answers: dict[int, SimpleQueue[bytes]] = {}
        self._lock = threading.Lock()
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            number, _, answer = line.partition(b" ")
            self._answers.pop(int(number)).put(answer)

    def ask(self, request: bytes) -> None:
        """Send a request and wait for its answer, which must be a result."""
        answer: SimpleQueue[bytes] = SimpleQueue()
        assert self.process.stdin is not None
        with self._lock:
            self._number += 1
            self._answers[self._number] = answer
            self.process.stdin.write(b"%d %b\n" % (self._number, request))
            self.process.stdin.flush()
        said = answer.get()
        assert said.startswith(b'{"result"'), said[:300]

    def close(self) -> None:
        """End it, as the end of a driver does."""
        self.process.communicate()


def main() -> None:
    """Print a row for each number of services and clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--services", default="1,2")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.0f}")
    print("| services | clients | SELECTs a second | p50 ms | p99 ms | core ms of the services | cores that they use |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory, open_cluster() as config:
        python, file = Path(directory) / "python", Path(directory) / "requests"
        python.write_text(f'#!/bin/sh\ntee {file} | {sys.executable} "$@"\n')
        python.chmod(0o755)
        with open_session(config, 2, {"spark.sql.catalog.pravega.python": str(python)}) as (spark, scope):
            requests = record_select(spark, scope, file)
            for number in map(int, arguments.services.split(",")):
                services = [Service() for _ in range(number)]
                for clients in map(int, arguments.clients.split(",")):
                    measure(services, requests, clients, arguments.seconds)
                for service in services:
                    service.close()


def measure(services: list[Service], requests: list[bytes], clients: int, seconds: float) -> None:
    """Print what some clients reach, who share the services."""

    def select(number: int) -> None:
        for request in requests:
            services[number % len(services)].ask(request)

    run_clients(clients, 2, select)
    pids = [service.process.pid for service in services]
    before = sum(map(processor_seconds, pids))
    load = run_clients(clients, seconds, select)
    used = sum(map(processor_seconds, pids)) - before
    costs = f"{used / len(load.seconds) * 1000:.1f} | {used / load.elapsed:.2f}"
    print(f"| {len(services)} | {clients} | {load.describe()} | {costs} |", flush=True)


if __name__ == "__main__":
    main()
