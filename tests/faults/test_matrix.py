"""A query from table to table, harmed at every point of a micro-batch in every way: each event comes once, in order."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.faults.campaign import OF_THE_DRIVER, Campaign, report
from tests.faults.director import Director, Driver, Network
from tests.faults.oracle import Feeder, Reader, Tables, check, check_at_least_once, check_copy
from tests.faults.points import OTHER_POINTS, POINTS

SHORT = {"executor": 1, "service": 4, "worker": 5, "connection": 5, "server": 5, "lost commit": 2}
"""How often each harm is done in the short form: each point is harmed. An executor takes longest to come back."""

MIDDLE = {"executor": 3, "service": 9, "worker": 16, "connection": 16, "server": 16, "lost commit": 5}

OTHER_QUERIES = ("batches", "changed", "plain")
"""What the last driver of these forms does besides, and how it is harmed: `test_queries.py` does more of that."""

OTHER_HARMS = {"plain": "worker", "changes": "service", "stored": "connection"}

LONG = {"executor": 10, "service": 20, "worker": 20, "connection": 20, "server": 20, "lost commit": 10}
SEEDS = int(os.environ.get("PYSPARK_PRAVEGA_FAULT_SEEDS", "6"))


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    return Tables(spark, scope, others=OTHER_QUERIES)


@pytest.mark.parametrize(
    ("seed", "often", "drivers"),
    [
        pytest.param(0, SHORT, 2, id="short"),
        pytest.param(0, MIDDLE, 2, id="middle", marks=pytest.mark.long),
        *(pytest.param(seed, LONG, 6, id=f"{seed}", marks=pytest.mark.faults) for seed in range(1, SEEDS + 1)),
    ],
)
@pytest.mark.timeout(1800)
def test_every_point_and_kind(
    client_config: ClientConfig,
    cluster: ClusterInfo,
    tables: Tables,
    network: Network,
    tmp_path: Path,
    seed: int,
    often: dict[str, int],
    drivers: int,
) -> None:
    """The short and the middle form go through the points in the order of a micro-batch, the long one in any."""
    in_order = often is not LONG
    chance = random.Random(seed)
    campaign = Campaign.planned(chance, often, drivers)
    others: tuple[str, ...] = ()
    if in_order:
        campaign.one_after_another()
        campaign.stages[-1] += [(point, OTHER_HARMS[point.name]) for point in OTHER_POINTS if point.name in OTHER_HARMS]
        others = OTHER_QUERIES
    director = Director(tmp_path, network, chance)
    environment = {**director.environment(), **network.environment(cluster)}
    feeder, reader = Feeder(client_config, tables), Reader(tables)
    started: list[Driver] = []
    with ExitStack() as ending:
        ending.enter_context(closing(director))

        def new_driver() -> Driver:
            name, master = f"driver{len(started)}", "local[2,4]" if started else "local-cluster[2,1,512]"
            queries = ("target", *others) if len(started) == drivers else ("target",)
            made = Driver(tmp_path, name, master, tables.scope, environment, queries)
            started.append(ending.enter_context(made))
            return made

        ending.enter_context(feeder)
        ending.enter_context(reader)
        driver = campaign.carry_out(director, new_driver, passes=0 if in_order else 1)
        feeder.end()
        driver.finish()
        reader.end()
        check(tables, feeder.written, reader)
    for name in others:
        if name == "plain":
            rows = tables.spark.table(tables.name(name)).collect()
            check_at_least_once(name, [(row.k, row.seq) for row in rows], feeder.written)
        else:
            check_copy(tables, name, feeder.written)
    report(director, started, feeder, reader)
    campaign.check_done(director)
    assert len(director.done) >= (20 if often is SHORT else 60)
    assert {fault.kind for fault in director.done} == {*often, *OF_THE_DRIVER}
    assert network.forgetful.asked["commitTransaction"] >= 2 * often["lost commit"]
    assert {fault.point for fault in director.done} >= {point.name for point in POINTS}
