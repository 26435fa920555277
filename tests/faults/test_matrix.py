"""A query from table to table, harmed at every point of a micro-batch in every way: each event comes once, in order."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.faults.director import Director, Driver, Network, network_of
from tests.faults.oracle import Feeder, Reader, Tables, check
from tests.faults.points import POINTS, Point

ON_ONE_DRIVER = ("worker", "executor", "service", "connection", "server")
OF_THE_DRIVER = ("driver", "zombie")
TURNS = (*ON_ONE_DRIVER, "worker", "service", "connection", "server")  # an executor takes longest to come back
SEEDS = int(os.environ.get("PYSPARK_PRAVEGA_FAULT_SEEDS", "6"))
AHEAD = 8
"""So many faults before it is needed a driver is started: it takes seconds to be ready."""

Harm = tuple[Point, str]


@pytest.fixture
def tables(spark: SparkSession, scope: str) -> Tables:
    return Tables(spark, scope)


@pytest.fixture
def network(client_config: ClientConfig, cluster: ClusterInfo, tables: Tables) -> Iterator[Network]:
    """The cluster behind proxies."""
    with network_of(client_config, cluster, tables.streams[0]) as made:
        yield made


def planned(chance: random.Random, faults: int, drivers: int) -> tuple[list[list[Harm]], list[Harm]]:
    """Choose what is done to each driver, as much at each point and of kinds by turns, and what ends all but the last.

    The first one has executors of its own; the others run their tasks themselves.
    """
    turns = [kind for _ in range(faults) for kind in chance.sample(TURNS, len(TURNS))]
    plan = [(POINTS[number % len(POINTS)], turns[number]) for number in range(faults)]
    chance.shuffle(plan)
    of_any = [number for number, (_, kind) in enumerate(plan) if kind != "executor"]
    late = [plan[number] for number in of_any[: faults // 3]]
    first = [harm for number, harm in enumerate(plan) if number not in of_any[: faults // 3]]
    ends = [(point, OF_THE_DRIVER[number % 2]) for number, point in enumerate(chance.sample(POINTS, drivers))]
    return [first, *(late[number::drivers] for number in range(drivers))], ends


@pytest.mark.parametrize(
    ("seed", "faults", "drivers"),
    [(0, 60, 2), *(pytest.param(seed, 90, 6, marks=pytest.mark.faults) for seed in range(1, SEEDS + 1))],
)
@pytest.mark.timeout(900)
def test_every_point_and_kind(
    client_config: ClientConfig,
    cluster: ClusterInfo,
    tables: Tables,
    network: Network,
    tmp_path: Path,
    seed: int,
    faults: int,
    drivers: int,
) -> None:
    chance = random.Random(seed)
    stages, ends = planned(chance, faults, drivers)
    director = Director(tmp_path, network, chance)
    environment = {**director.environment(), **network.environment(cluster)}
    feeder, reader = Feeder(client_config, tables), Reader(tables)
    started: list[Driver] = []
    with ExitStack() as ending:
        ending.enter_context(closing(director))

        def new_driver() -> Driver:
            name, master = f"driver{len(started)}", "local[2,4]" if started else "local-cluster[2,1,512]"
            made = Driver(tmp_path, name, master, (tables.source, tables.target), environment)
            started.append(ending.enter_context(made))
            return made

        driver = new_driver()
        ending.enter_context(feeder)
        ending.enter_context(reader)
        driver.go()
        for number, stage in enumerate(stages):
            for left, (point, kind) in zip(reversed(range(len(stage))), stage, strict=True):
                if left < AHEAD and number < drivers and len(started) == number + 1:
                    new_driver()
                director.strike(driver, point, kind, chance.randrange(2))
            if number == drivers:
                break
            (point, kind), successor = ends[number], started[-1]
            successor.wait_until_ready()
            if kind == "driver":
                director.strike(driver, point, kind)
                successor.go()
            else:
                director.outlive(driver, point, successor)
            driver = successor
        feeder.end()
        driver.finish()
        reader.end()
        check(tables, feeder.written, reader)
    report(director, started, feeder, reader)
    fired = Counter(fault.kind for fault in director.done)
    assert fired == Counter(kind for stage in (*stages, ends) for _, kind in stage)
    assert fired.total() >= 60 and set(fired) == {*ON_ONE_DRIVER, *OF_THE_DRIVER}
    assert {fault.point for fault in director.done} == {point.name for point in POINTS}


def report(director: Director, drivers: Sequence[Driver], feeder: Feeder, reader: Reader) -> None:
    """Print what was done, for whoever asks pytest for it."""
    kinds = Counter(fault.kind for fault in director.done)
    print(f"\n{kinds.total()} faults: {dict(kinds)}; {feeder.written} events, {feeder.scaled} scale events,")
    print(f"{len(reader.seen)} reads of up to {max(map(len, reader.seen))} micro-batches; failures of the query:")
    failures = [re.findall(r"\[(PRAVEGA_\w+|[A-Z]+_\w+)", line) for one in drivers for line in one.failures()]
    for conditions, count in Counter(tuple(dict.fromkeys(found)) for found in failures).most_common():
        print(f"  {count} × {', '.join(conditions)}")
