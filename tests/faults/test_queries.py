"""Queries of other kinds than from table to table, in one driver, harmed at the points that they pass."""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.faults.campaign import Campaign, report
from tests.faults.director import Director, Driver, Network
from tests.faults.oracle import Feeder, Reader, Tables, check, check_at_least_once, check_copy
from tests.faults.points import OTHER_POINTS, POINTS

ONCE = ("path", "batches", "changed")
"""Tables that are written by options, in `foreachBatch`, and from a stream of changes of `target`."""

QUERIES = ("target", *ONCE, "plain", "live")
"""`plain` is a table written without transactions, `live` a directory filled in real-time mode."""

MANY = {"service": 12, "worker": 20, "connection": 16, "server": 18}


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    return Tables(spark, scope, others=(*ONCE, "plain"))


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_every_event_comes(
    client_config: ClientConfig, cluster: ClusterInfo, tables: Tables, network: Network, tmp_path: Path
) -> None:
    """Exactly once with transactions, else at least once."""
    chance = random.Random(0)
    campaign = Campaign.planned(chance, MANY, 3, (*OTHER_POINTS, *POINTS))
    director = Director(tmp_path, network, chance)
    environment = {**director.environment(), **network.environment(cluster)}
    feeder, reader = Feeder(client_config, tables), Reader(tables)
    started: list[Driver] = []
    with ExitStack() as ending:
        ending.enter_context(closing(director))

        def new_driver() -> Driver:
            # Real-time mode keeps a place for each segment.
            made = Driver(tmp_path, f"driver{len(started)}", "local[12,4]", tables.scope, environment, QUERIES)
            started.append(ending.enter_context(made))
            return made

        ending.enter_context(feeder)
        ending.enter_context(reader)
        driver = campaign.carry_out(director, new_driver, passes=0)
        feeder.end()
        driver.finish()
        reader.end()
        check(tables, feeder.written, reader)
    for name in ONCE:
        check_copy(tables, name, feeder.written)
    report(director, started, feeder, reader)
    plain = [(row.k, row.seq) for row in tables.spark.table(tables.name("plain")).collect()]
    check_at_least_once("written without transactions", plain, feeder.written)
    check_at_least_once("real-time mode", lines(tmp_path / "live"), feeder.written)
    campaign.check_done(director)


def lines(directory: Path) -> list[tuple[int, int]]:
    """Return keys and numbers from the whole lines of files; tasks that were killed have left others."""
    found = []
    for file in directory.iterdir():
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                key, seq = line.split()
                found.append((int(key), int(seq)))
    return found
