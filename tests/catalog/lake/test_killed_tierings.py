"""Processes that tier are killed at random moments; whatever they leave behind, each event is there once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.test_history_in_a_lake import create, flatten, ids, insert, read_stream, tier, truncate
from tests.catalog.lake.test_tierings import open_lake
from tests.drivers import ROOT

MOMENTS = {
    "tiering_process": {"connected": 0.4, "written": 0.1, "committed": 0.0},
    "tiering_driver": {"began": 3.0},
}
"""Steps of each program, and the most seconds that it lives after them."""
_AT_LENGTH = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.parametrize(
    "program, rounds",
    [
        ("tiering_process", 2),
        ("tiering_driver", 1),
        pytest.param("tiering_process", 100, marks=_AT_LENGTH),
        pytest.param("tiering_driver", 20, marks=_AT_LENGTH),
    ],
)
def test_tierings_that_are_killed(
    spark: SparkSession,
    pravega: Pravega,
    cluster: ClusterInfo,
    lake: dict[str, str],
    scope: str,
    tmp_path: Path,
    program: str,
    rounds: int,
) -> None:
    """After each, and after another tiering, batch, AS OF, CHANGES and a stream agree with a list kept aside."""
    seed = int(os.environ.get("PRAVEGA_SEED", time.time_ns() % 10**6))
    random, table, stream = Random(seed), create(spark, scope, "t"), Stream(scope, "t")
    ends, seen, ended, removed = [0, 100, 200, 300], list[int](), Counter[str](), 1
    tier(spark, table, until=1)

    def kill_tiering() -> str:
        """Start a process that tiers, and kill it; return what it had done as far as the lake shows."""
        command = [sys.executable, "-m", f"tests.catalog.lake.{program}", cluster.controller_uri]
        command += [str(cluster.registry_uri), scope, "t", json.dumps(lake)]
        moment, longest = random.choice(list(MOMENTS[program].items()))
        local = os.environ | {"SPARK_LOCAL_DIRS": str(tmp_path / "local"), "TMPDIR": str(tmp_path)}
        with subprocess.Popen(
            command, cwd=ROOT, env=local, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            assert process.stdout is not None
            while (line := process.stdout.readline().strip()) != moment:
                assert line, "the process ended by itself"
            time.sleep(random.uniform(0, longest))
            os.killpg(process.pid, signal.SIGKILL)  # with the JVM and the service of a session
        history = open_lake(pravega, stream, lake)[1].history
        return f"{moment}, {'committed' if history.rows == ends[-1] else 'not committed'}"

    def check(step: str) -> None:
        last = len(ends) - 1
        assert ids(spark.table(table)) == list(range(ends[-1])), step
        version = random.randint(1, last)
        assert ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF {version}")) == list(range(ends[version])), step
        first = random.randint(1, last)
        changes = spark.sql(f"SELECT id, _commit_version FROM {table} CHANGES FROM VERSION {first}").collect()
        expected = [(number, here) for here in range(first, last + 1) for number in range(ends[here - 1], ends[here])]
        assert sorted((row.id, row._commit_version) for row in changes) == expected, step
        limit = str(random.randint(50, 400))
        seen.extend(flatten(read_stream(spark, table, tmp_path / "c", **{"max-rows-per-trigger": limit})))
        assert sorted(seen) == list(range(ends[-1])), step

    for number in range(rounds):
        count = random.randint(1, 60)
        insert(spark, table, ends[-1], count)
        ends.append(ends[-1] + count)
        done = kill_tiering()
        ended[done] += 1
        step = f"seed {seed}, round {number}, {done}"
        print(step)
        check(step)
        if random.random() < 0.7:
            tier(spark, table)
            removed = random.randint(removed, open_lake(pravega, stream, lake)[1].history.version)
            truncate(spark, table, removed)
            check(f"{step}, tiered again")
    print(dict(ended))
