"""Faults that take minutes: `make faults` runs these, `make test` their short forms in the files beside this one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.insert.test_atomicity import check_order_by_key, table, values
from tests.datasource.insert.test_faults import services
from tests.processes import task_workers
from tests.spark_cluster import standalone_cluster

__all__ = ["table"]
pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

SPECULATING = Path(__file__).with_name("speculating_driver.py")
STREAMING = Path(__file__).parent.with_name("streaming_driver.py")
ROUNDS = int(os.environ.get("PYSPARK_PRAVEGA_FAULT_ROUNDS", "25"))
TOKEN_LIFE = 600  # seconds; fixed in standalone servers


@pytest.fixture
def spark_cluster(tmp_path: Path) -> Iterator[str]:
    """The master's URL of a cluster of Spark."""
    with standalone_cluster(tmp_path) as url:
        yield url


@pytest.mark.parametrize("padding", [0, 10_000])
def test_a_task_that_runs_twice_at_the_same_time(
    spark: SparkSession, spark_cluster: str, scope: str, cluster: ClusterInfo, tmp_path: Path, padding: int
) -> None:
    """Speculative execution on a cluster: both attempts write to the transaction, the rows of one of them count.

    With long rows, tasks append them as they go, and the blocks of both attempts lie between each other.
    """
    table = f"pravega.`{scope}`.padded"
    spark.sql(
        f"CREATE TABLE {table} (k INT NOT NULL, v BIGINT NOT NULL, padding STRING) USING pravega "
        "TBLPROPERTIES ('routing-key'='k', 'scaling.min-segments'='3')"
    )
    log = tmp_path / "attempts"
    log.mkdir()
    servers = [cluster.controller_uri, str(cluster.registry_uri)]
    command = [sys.executable, str(SPECULATING), spark_cluster, table, *servers, str(log), str(padding)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(path.name for path in log.iterdir()) == ["attempt-0", "attempt-1"]
    assert values(spark, table) == list(range(4000))
    check_order_by_key(spark, table)


def test_executors_keep_their_segments(
    spark: SparkSession, spark_cluster: str, scope: str, cluster: ClusterInfo, tmp_path: Path
) -> None:
    """What an executor knows of rows is found by the next batch, or is in the checkpoint when the executor is not."""
    name = f"pravega.`{scope}`.changed"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING) USING pravega TBLPROPERTIES ('format'='debezium-json', "
        "'primary-key'='id', 'framing'='none', 'scaling.min-segments'='4')"
    )
    log = tmp_path / "log"
    log.mkdir()
    servers = [cluster.controller_uri, str(cluster.registry_uri)]
    command = [sys.executable, str(STREAMING), spark_cluster, name, *servers, str(log)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    batches = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [batch["changes"] for batch in batches] == [100, 200, 200, 200, 200, 200]
    for batch in batches:
        groups = [{name.rpartition("-")[0].rpartition("-")[0] for name in names} for names in batch["states"].values()]
        assert len(set.union(*groups)) == 4
    for batch in batches[: len(batches) // 2]:
        assert len(batch["states"]) == 2 and sum(map(len, batch["states"].values())) < 16, "each group has one home"


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_process_killed_at_any_moment(spark: SparkSession, table: str, seed: int) -> None:
    """A worker's or the service's process, at a moment that the seed chooses, while 150,000 rows are inserted."""
    chance = random.Random(seed)
    jvm = int(spark.sparkContext._jvm.ProcessHandle.current().pid())
    delay, what = chance.uniform(0.0, 2.0), chance.choice(["worker", "service"])
    over = threading.Event()

    def victims() -> list[int]:
        if what == "service":
            return services(spark)
        return task_workers(jvm)

    def kill() -> None:
        over.wait(delay)
        while not over.is_set():
            found = victims()
            if found:
                os.kill(chance.choice(found), signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    rows = spark.range(0, 150_000, 1, 4).selectExpr("CAST(id % 10 AS INT) AS k", "id AS v")
    try:
        rows.writeTo(table).append()
    finally:
        over.set()
        killer.join()
    assert values(spark, table) == list(range(150_000)), f"seed {seed}"


def test_a_job_longer_than_a_tokens_life(secure_spark: SparkSession, secure_scope: str) -> None:
    """An INSERT and a SELECT on secured servers, whose only tasks pause for longer than a token lives."""

    @udf(returnType=LongType(), useArrow=False)
    def pause(value: int) -> int:
        if value == 50_000:
            time.sleep(TOKEN_LIFE + 20)
        return value

    name = f"secure.`{secure_scope}`.numbers"
    secure_spark.sql(f"CREATE TABLE {name} (v BIGINT) USING pravega")
    rows = secure_spark.range(0, 100_000, 1, 1).selectExpr("id AS v")
    rows.withColumn("v", pause("v")).writeTo(name).append()
    read = secure_spark.table(name).withColumn("v", pause("v")).selectExpr("count(*)", "sum(v)").first()
    assert read is not None and tuple(read) == (100_000, sum(range(100_000)))
