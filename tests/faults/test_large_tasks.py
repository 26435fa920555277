"""Tasks that outgrow their memory, harmed between two blocks and while the winners' rows are copied."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.faults.campaign import Campaign, Harm
from tests.faults.director import Director, Driver, Network
from tests.faults.oracle import Feeder, Tables, check_copy
from tests.faults.points import POINTS_OF_LARGE_TASKS

POINT = {point.name: point for point in POINTS_OF_LARGE_TASKS}
SEEDS = int(os.environ.get("PYSPARK_PRAVEGA_FAULT_SEEDS", "6"))

SHORT = (
    ("block", "service"),
    ("sent", "connection"),
    # A worker that dies after a block was sent leaves foreign bytes: the commit copies.
    ("sent", "worker"),
    ("mixed", "service"),
    ("block", "server"),
    ("sent", "worker"),
    ("copied", "connection"),
)
BETWEEN_BLOCKS = ("service", "worker", "connection", "server")
WHILE_COPYING = ("service", "connection", "server")


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    return Tables(spark, scope, others=("large",))


def short() -> list[Harm]:
    return [(POINT[name], kind) for name, kind in SHORT]


def chosen(seed: int) -> list[Harm]:
    """Choose 30 or 31 harms: between blocks, and at times, after a death, while the winners are copied."""
    chance, harms = random.Random(seed), list[Harm]()
    while len(harms) < 30:
        if chance.random() < 0.4:
            harms.append((POINT["sent"], chance.choice(("worker", "executor"))))
            harms.append((POINT[chance.choice(("mixed", "copied"))], chance.choice(WHILE_COPYING)))
        else:
            harms.append((POINT[chance.choice(("block", "sent"))], chance.choice(BETWEEN_BLOCKS)))
    return harms


@pytest.mark.parametrize(
    ("harms", "master"),
    [
        pytest.param(short(), "local[2,4]", id="short"),
        *(
            pytest.param(chosen(seed), "local-cluster[2,1,512]", id=f"{seed}", marks=pytest.mark.faults)
            for seed in range(1, SEEDS + 1)
        ),
    ],
)
@pytest.mark.timeout(1800)
def test_between_blocks_and_while_copying(
    client_config: ClientConfig,
    cluster: ClusterInfo,
    tables: Tables,
    network: Network,
    tmp_path: Path,
    harms: Sequence[Harm],
    master: str,
) -> None:
    """Each event comes once, and those of a key in order."""
    campaign = Campaign([list(harms)])
    director = Director(tmp_path, network, random.Random(len(harms)))
    environment = {**director.environment(), **network.environment(cluster)}
    feeder = Feeder(client_config, tables, events=15)
    with ExitStack() as ending:
        ending.enter_context(closing(director))

        def new_driver() -> Driver:
            made = Driver(tmp_path, "driver", master, tables.scope, environment, ("large",))
            return ending.enter_context(made)

        ending.enter_context(feeder)
        driver = campaign.carry_out(director, new_driver, passes=0)
        feeder.end()
        driver.finish()
    check_copy(tables, "large", feeder.written)
    campaign.check_done(director)
