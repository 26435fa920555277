"""Measure many statements at the same time: rates, latencies, and what a statement costs each process.

    python -m bench.crowd [--front pyspark,thrift,connect] [--clients 1,4,16,64] [--seconds 10] [--only 'INSERT|SELECT']
        [--soak 5000] [--plain]

Clients of a front end run one kind of statement for some seconds: threads of one PySpark session, PyHive's clients of a
Thrift server, or clients of Spark Connect. Statements are SELECT, INSERTs of one row, metadata, and INSERTs that end
early, because the client cancels them or its connection is lost; SELECT, INSERT and metadata of Parquet are beside
them. Then one process, and four at the same time, with sixteen threads each, INSERT into one table without Spark. Each
written row is counted afterwards; an INSERT that ended early is there wholly or not at all.

With `--soak`, that many statements of all kinds run in sessions of five statements instead, by twenty clients, and
memory and threads are shown on the way; with `--plain`, on Spark's own Thrift server and tables of Parquet.

Thrift needs build/dbt, Connect build/pipelines: `make build/dbt/installed build/pipelines/installed`.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import uuid
from collections import Counter
from pathlib import Path

from bench.crowd.front_ends import Client, FrontEnd, open_front_end, open_plain_thrift_server
from bench.crowd.load import run_clients
from bench.crowd.processes import Processes, show_costs
from bench.crowd.soak import soak
from bench.crowd.statements import Statement, Tables, wait_for_tasks
from bench.crowd.without_spark import measure_processes
from bench.servers import open_cluster


def measure(front: FrontEnd, tables: Tables, statements: list[Statement], clients: list[int], seconds: float) -> None:
    """Print a row for each statement and number of clients, and check what was written."""
    processes, counted = Processes(front.jvm), Counter[bool]()
    connected: list[Client] = []

    def run(statement: Statement, number: int, seconds: float) -> tuple[str, str]:
        while len(connected) < number:
            connected.append(front.connect())
            connected[-1].list_tables(tables.place)
        before = processes.measure_time()
        load = run_clients(number, seconds, lambda number: statement.run(connected[number], number))
        counted[statement.counted] += len(load.seconds)
        return load.describe(), show_costs(before, processes.measure_time(), len(load.seconds))

    for statement in statements:
        run(statement, 4, 2)
    for statement in statements:
        for number in clients:
            described, costs = run(statement, number, seconds)
            print(f"| {front.name} | {statement.name} | {number} | {described} | {costs} |", flush=True)
            if statement.ends_early:
                print(f"    {wait_for_tasks(processes):.1f} s later no task runs", flush=True)
    print(f"    {tables.check(connected[0], counted[True])}")
    for client in connected:
        client.close()


def main() -> None:
    """Print a row for each front end, statement and number of clients, or how a server grows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front", default="pyspark,thrift,connect")
    parser.add_argument("--clients", default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--soak", type=int, default=0)
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.0f}")
    if arguments.plain:
        with tempfile.TemporaryDirectory() as directory, open_plain_thrift_server(2, Path(directory)) as front:
            soak_tables(front, None, arguments)
        return
    if not arguments.soak:
        print("| | statement | clients | a second | p50 ms | p99 ms | JVM | service | workers | Pravega | clients |")
        print("|---" * 11 + "|")
    with open_cluster() as config:
        for name in arguments.front.split(","):
            namespace = f"pravega.crowd{uuid.uuid4().hex[:8]}"
            with (
                tempfile.TemporaryDirectory() as directory,
                open_front_end(name, config, arguments.cores, Path(directory)) as front,
            ):
                if arguments.soak:
                    soak_tables(front, namespace, arguments)
                else:
                    measure_tables(front, namespace, arguments)
        if not arguments.soak and not arguments.only:
            for number in (1, 4):
                measure_processes(config, namespace.partition(".")[2], number, 16, arguments.seconds)


def choose(tables: Tables, front: FrontEnd, only: str) -> list[Statement]:
    """Return the statements of some kinds that a front end can run."""
    found = [statement for statement in tables.list_statements() if re.search(only, statement.name)]
    return [one for one in found if front.name != "pyspark" or "lost" not in one.name]


def measure_tables(front: FrontEnd, namespace: str, arguments: argparse.Namespace) -> None:
    """Make a namespace with tables, and measure statements on them."""
    client = front.connect()
    client.run(f"CREATE NAMESPACE {namespace}")
    tables = Tables(client, namespace, front.directory)
    clients = [int(number) for number in arguments.clients.split(",")]
    measure(front, tables, choose(tables, front, arguments.only), clients, arguments.seconds)
    client.close()


def soak_tables(front: FrontEnd, namespace: str | None, arguments: argparse.Namespace) -> None:
    """Make tables, have clients come and go, and check what was written."""
    client = front.connect()
    if namespace is not None:
        client.run(f"CREATE NAMESPACE {namespace}")
    tables = Tables(client, namespace, front.directory)
    of_catalog = [one for one in choose(tables, front, arguments.only) if "Parquet" not in one.name]
    statements = choose(tables, front, arguments.only) if namespace is None else of_catalog
    written = soak(front, statements, arguments.soak)
    print(tables.check(client, written))
    client.close()


if __name__ == "__main__":
    main()
