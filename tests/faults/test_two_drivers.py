"""Two drivers at once with one query: on a checkpoint and a copy of it. One goes on, the other is fenced by name."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.faults.director import Driver
from tests.faults.oracle import Feeder, Reader, Tables, check


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize("meanwhile", [True, False], ids=["copied while it runs", "started at once"])
def test_one_of_two_is_fenced(
    spark: SparkSession, client_config: ClientConfig, cluster: ClusterInfo, scope: str, tmp_path: Path, meanwhile: bool
) -> None:
    """The one that is left has lost and doubled nothing, and no part of a micro-batch was seen."""
    tables = Tables(spark, scope)
    environment = {"FAULT_CONTROLLER": cluster.controller_uri, "FAULT_REGISTRY": str(cluster.registry_uri)}
    feeder, reader = Feeder(client_config, tables), Reader(tables)
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
    with ExitStack() as ending:

        def new_driver(place: Path, name: str) -> Driver:
            return ending.enter_context(Driver(place, name, "local[2,4]", scope, environment))

        first, second = new_driver(places[0], "first"), new_driver(places[1], "second")
        ending.enter_context(feeder)
        ending.enter_context(reader)
        first.go()
        second.wait_until_ready()
        first.wait_for(lambda: first.batches() > 5, "some micro-batches")
        if not meanwhile:
            first.kill()
            first = new_driver(places[0], "again")
            first.wait_until_ready()
        # As one copies directories: some files go while `cp` looks at them, which is its only complaint.
        copied = subprocess.run(["cp", "-r", first.checkpoint, second.checkpoint], capture_output=True, text=True)
        assert all("No such file" in line for line in copied.stderr.splitlines()), copied.stderr
        for driver in (first, second):
            driver.end_at_failure()
            driver.go()
        first.wait_for(lambda: not (first.alive() and second.alive()), "the end of one")
        fenced, other = (first, second) if not first.alive() else (second, first)
        fenced.process.wait(60)
        assert "[PRAVEGA_QUERY_FENCED]" in fenced.failures()[-1]
        batches = other.batches()
        other.wait_for(lambda: other.batches() > batches + 3, "more micro-batches")
        feeder.end()
        other.finish()
        reader.end()
        assert other.failures() == []
        check(tables, feeder.written, reader)
