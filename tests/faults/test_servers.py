"""Servers that are killed and started again, or hang and wake up, while a query goes from table to table."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.errors import SegmentSealedError, ServerFailedError, ServerTimeoutError, ServerUnavailableError
from tests.catalog.tables.test_debezium import write
from tests.debezium import Record
from tests.faults.campaign import Campaign, report
from tests.faults.director import Director, Driver, network_of
from tests.faults.distributed import Servers
from tests.faults.oracle import KEYS, Feeder, Reader, Tables, check
from tests.faults.points import POINTS
from tests.scopes import new_scope

PATIENCE = 240.0
FROZEN_SECONDS = 35.0
"""Longer than a request waits for its answer (30 s), than the lease of these transactions and than ZooKeeper waits."""

LEASE = "10s"
KINDS = {"store killed": 8, "controller killed": 6, "store frozen": 2, "controller frozen": 2}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with closing(Servers(tmp_path_factory.mktemp("servers"))) as started:
        yield started


@pytest.fixture(scope="module")
def config(servers: Servers) -> ClientConfig:
    """How to connect to `servers`, and to wait for them."""
    return ClientConfig(
        controller_uri=servers.info.controller_uri,
        registry_uri=servers.info.registry_uri,
        request_timeout=PATIENCE,
        retry_timeout=PATIENCE,
    )


@pytest.fixture
def tables(spark: SparkSession, servers: Servers, config: ClientConfig) -> Iterator[Tables]:
    configure(
        SparkSession.builder,
        catalog="restarted",
        controller_uri=servers.info.controller_uri,
        schema_registry_uri=servers.info.registry_uri,
        retry_timeout=f"{PATIENCE:.0f}s",
    ).getOrCreate()
    with new_scope(config) as scope:
        yield Tables(spark, scope, catalog="restarted")


class PatientFeeder(Feeder):
    """Waits until the controller answers before it appends."""

    def step(self) -> None:
        with connect(self._config) as pravega:
            try:
                pravega.controller.current_segments(self._tables.streams[0])
            except (ServerFailedError, ServerTimeoutError, ServerUnavailableError):
                return
            self.feed(pravega)


@dataclass
class PatientReader(Reader):
    """Keeps what it saw, and how its queries failed: batches fail when a server hangs."""

    failed: list[str | None] = field(default_factory=list)

    def step(self) -> None:
        try:
            super().step()
        except PySparkException as error:
            self.failed.append(error.getCondition())


@pytest.mark.faults
@pytest.mark.timeout(2400)
def test_servers_that_restart_or_hang(servers: Servers, config: ClientConfig, tables: Tables, tmp_path: Path) -> None:
    """Each event comes once and in order, and no part of a micro-batch is seen, whatever the servers do."""
    chance = random.Random(0)
    feeder, reader = PatientFeeder(config, tables, scale_every=0), PatientReader(tables)
    kinds = [kind for kind, count in KINDS.items() for _ in range(count)]
    chance.shuffle(kinds)
    campaign = Campaign([[(POINTS[number % len(POINTS)], kind) for number, kind in enumerate(kinds)]])
    with ExitStack() as ending:
        network = ending.enter_context(network_of(config, servers.info, tables.streams[0]))
        director = Director(tmp_path, network, chance, patience=PATIENCE)
        director.harms |= {
            "store killed": lambda: servers.kill("store"),
            "controller killed": lambda: servers.kill("controller"),
            "store frozen": lambda: servers.freeze("store", FROZEN_SECONDS),
            "controller frozen": lambda: servers.freeze("controller", FROZEN_SECONDS),
        }
        ending.enter_context(closing(director))
        environment = {**director.environment(), **network.environment(servers.info), "FAULT_LEASE": LEASE}

        def new_driver() -> Driver:
            return ending.enter_context(Driver(tmp_path, "driver", "local[2,4]", tables.scope, environment))

        ending.enter_context(feeder)
        ending.enter_context(reader)
        driver = campaign.carry_out(director, new_driver, passes=0)
        feeder.end()
        driver.finish()
        reader.end()
        check(tables, feeder.written, reader)
    report(director, [driver], feeder, reader)
    assert set(reader.failed) <= {"PRAVEGA_TIMEOUT", "PRAVEGA_SERVER_FAILED", "PRAVEGA_SERVER_UNAVAILABLE"}
    campaign.check_done(director)


class FeederOfScaled(Feeder):
    """Goes on in the segments that follow one that the server has split."""

    def feed(self, pravega: Pravega) -> None:
        for _ in range(self.events):
            event = Record(
                str(self.written % KEYS), json.dumps({"k": self.written % KEYS, "seq": self.written}).encode()
            )
            try:
                write(pravega, self._tables.streams[0], [event])
            except SegmentSealedError:
                return  # it has not been stored, and comes next time
            self.written += 1


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_streams_that_scale_by_load(servers: Servers, config: ClientConfig, tables: Tables, tmp_path: Path) -> None:
    """The server splits both streams while a query reads one and writes the other."""
    for name in ("source", "target"):
        properties = "'scaling.type'='by-rate-events', 'scaling.target-rate'='2'"
        tables.spark.sql(f"ALTER TABLE {tables.name(name)} SET TBLPROPERTIES ({properties})")
    feeder, reader = FeederOfScaled(config, tables, scale_every=0), Reader(tables)
    environment = {
        "FAULT_CONTROLLER": servers.info.controller_uri,
        "FAULT_REGISTRY": str(servers.info.registry_uri),
        "FAULT_LEASE": "60s",
    }
    with (
        Driver(tmp_path, "driver", "local[2,4]", tables.scope, environment) as driver,
        connect(config) as pravega,
        feeder,
        reader,
    ):
        driver.go()

        def split() -> bool:
            return all(len(pravega.controller.current_segments(stream)) > 3 for stream in tables.streams)

        driver.wait_for(split, "splits of both streams", 900)
        batches = driver.batches()
        driver.wait_for(lambda: driver.batches() > batches + 5, "more micro-batches")
        feeder.end()
        driver.finish()
        reader.end()
        check(tables, feeder.written, reader)
    assert driver.failures() == []
