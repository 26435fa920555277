"""Scripts of Flink, run by Flink, beside what `translate` makes of them, run by Spark: the same rows."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.sql.flink.statements import split_flink_script
from pyspark_pravega.sql.flink.translation import translate
from pyspark_pravega.sql.script import split_script
from tests.flink_cases import DECLARED, cases
from tests.interop.flink import Flink, wait_for
from tests.scopes import Sweeper

pytestmark = pytest.mark.flink

COMPARED = {
    "a tumbling window": "`per-window`",
    "a hopping window with names": "`per-window`",
    "group windows": "`per-window`",
    "an interval join": "totals",
    "a union and a common table expression": "totals",
    "columns by name": "totals",
    "a projection as a stream": "totals",
}
"""Names of cases, each with the stream that its last statement writes."""
SCRIPTS = {case.name: DECLARED + case.flink for case in cases()}


def place(script: str, cluster: ClusterInfo, scope: str, checkpoints: Path) -> str:
    """Return a script for the servers of the tests."""
    places = {
        "tcp://localhost:9090": cluster.controller_uri,
        "file:///data/checkpoints": checkpoints.as_uri(),
        "'iot'": f"'{scope}'",
        # Rows of a transaction would be seen after a checkpoint.
        "'sink.semantic' = 'exactly-once'": "'sink.semantic' = 'at-least-once'",
    }
    for old, new in places.items():
        script = script.replace(old, new)
    return script


@pytest.fixture
def other_scope(client_config: ClientConfig, _sweeper: Sweeper) -> Iterator[str]:
    yield from _sweeper.scope(client_config)


def run_by_spark(spark: SparkSession, script: str) -> None:
    """Run a script of Flink, translated, on what its streams have."""
    session = spark.newSession()
    session.conf.set("pravega.stream.trigger", "available now")
    runner = ScriptRunner(session, split_script(translate(script).script), ProgressDisplay(io.StringIO()))
    assert runner.run(lambda: False)


@pytest.mark.parametrize(("name", "sink"), COMPARED.items(), ids=COMPARED)
def test_a_translated_script_writes_the_same_rows(
    spark: SparkSession,
    flink_jobs: Flink,
    cluster: ClusterInfo,
    scope: str,
    other_scope: str,
    tmp_path: Path,
    name: str,
    sink: str,
) -> None:
    theirs = place(SCRIPTS[name], cluster, scope, tmp_path / "theirs")
    # Flink does not create streams.
    run_by_spark(spark, theirs.partition("INSERT INTO")[0])
    session = flink_jobs.begin()
    *before, insert = [each.text for each in split_flink_script(theirs)[0] if each.words[0] != "SET"]
    for statement in before:
        session.run(statement)
    run_by_spark(spark, place(SCRIPTS[name], cluster, other_scope, tmp_path / "ours"))
    rows = Counter(map(repr, spark.table(f"pravega.`{other_scope}`.{sink}").collect()))
    assert rows
    written = spark.table(f"pravega.`{scope}`.{sink}")
    with session.running(insert):
        wait_for(lambda: written.count() >= rows.total())
    assert Counter(map(repr, written.collect())) == rows
