"""The main job: the sensor pipeline, in a batch and as a stream, gives what plain Python computes."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC
from fractions import Fraction
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples import demo
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.registry.registry_types import GroupProperties
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.temperatures import by_location_and_day, mean_by_location_and_day, readings

HALF_A_CENT = Fraction("0.005000001")
"""How far a mean rounded to two digits may be from the exact one; the last digits are those of binary fractions."""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own: the pipeline sets a time zone and makes a temporary view."""
    return spark.newSession()


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """The name of a namespace that does not exist; dropped at the end if it does then."""
    name = f"demo-{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP NAMESPACE IF EXISTS pravega.`{name}` CASCADE")


def run_demo(cluster: ClusterInfo, *arguments: str) -> subprocess.CompletedProcess[str]:
    servers = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    command = [sys.executable, str(Path(str(demo.__file__))), *arguments]
    return subprocess.run(command, text=True, capture_output=True, env={**os.environ, **servers})


def check_tables(spark: SparkSession, namespace: str) -> None:
    """Compare both tables with what plain Python makes of the file."""
    found = spark.sql(f"SELECT timestamp, sensorId, location, temp FROM pravega.`{namespace}`.sensor").collect()
    rows = sorted((row.timestamp.astimezone(UTC), row.sensorId, row.location, row.temp) for row in found)
    assert rows == sorted((one.timestamp, one.sensor, one.location, one.temp) for one in readings())
    daily = spark.sql(f"SELECT * FROM pravega.`{namespace}`.`sensor-agg`").collect()
    limits = [((row.location, row.date.isoformat()), (row.min, row.max, row["count"])) for row in daily]
    assert sorted(limits) == sorted(by_location_and_day().items())
    means = mean_by_location_and_day()
    for row in daily:
        assert row.avg == round(row.avg, 2)
        assert abs(Fraction(str(row.avg)) - means[row.location, row.date.isoformat()]) <= HALF_A_CENT, row


def check_stream(spark: SparkSession, namespace: str) -> None:
    """Compare what the stream wrote with what plain Python makes of the file; the last day is not over."""
    found = spark.sql(f"SELECT timestamp, sensorId, location, temp FROM pravega.`{namespace}`.`sensor-live`").collect()
    rows = sorted((row.timestamp.astimezone(UTC), row.sensorId, row.location, row.temp) for row in found)
    assert rows == sorted((one.timestamp, one.sensor, one.location, one.temp) for one in readings())
    daily = spark.sql(f"SELECT * FROM pravega.`{namespace}`.`sensor-daily`").collect()
    limits = [((row.location, row.date.isoformat()), (row.min, row.max, row["count"])) for row in daily]
    over = {key: figures for key, figures in by_location_and_day().items() if key[1] != "2010-12-31"}
    assert sorted(limits) == sorted(over.items())
    means = mean_by_location_and_day()
    assert all(abs(Fraction(str(row.avg)) - means[row.location, row.date.isoformat()]) <= HALF_A_CENT for row in daily)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_demo_on_a_cluster_that_stays(cluster: ClusterInfo, session: SparkSession, namespace: str) -> None:
    done = run_demo(cluster, "--namespace", namespace, "--keep")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The same rows through PySpark, the SQL shell, JDBC, and through a stream" in done.stdout
    assert "SIGKILL" in done.stdout and "728 are equal" in done.stdout and "DROP" not in done.stdout
    check_tables(session, namespace)
    check_stream(session, namespace)


@pytest.mark.timeout(900)
def test_the_pipeline_and_its_stream_that_is_killed(
    cluster: ClusterInfo,
    session: SparkSession,
    pravega: Pravega,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was made is refused to a second run meanwhile, and is dropped at the end."""
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", cluster.controller_uri)
    monkeypatch.setenv("PRAVEGA_SCHEMA_REGISTRY_URI", str(cluster.registry_uri))
    with demo.run_pipeline(session, namespace, keep=False):
        check_tables(session, namespace)
        with demo.drop_streaming_tables(session, namespace, keep=False):
            assert demo.run_as_stream(session, namespace, tmp_path)
            shown = capsys.readouterr().out
            assert "SIGKILL" in shown and "728 are equal" in shown and "DROP" not in shown
            assert "stopped by SIGINT; run it again to continue from there" in (tmp_path / "stream.log").read_text()
            check_stream(session, namespace)
            again = run_demo(cluster, "--namespace", namespace)
            assert again.returncode == 1
            assert f"the stream `{namespace}`.sensor" in again.stderr and "--namespace NAME" in again.stderr
            assert "Traceback" not in again.stderr and "DROP" not in again.stdout
            check_tables(session, namespace)
    assert not pravega.controller.scope_exists(namespace)
    assert demo.has_schemas(pravega, namespace, "sensor") is False


def test_what_was_there_before_is_not(session: SparkSession, pravega: Pravega, namespace: str) -> None:
    session.sql(f"CREATE NAMESPACE pravega.`{namespace}`")
    session.sql(f"CREATE TABLE pravega.`{namespace}`.`sensor-agg` (mine INT) USING pravega")
    session.sql(f"INSERT INTO pravega.`{namespace}`.`sensor-agg` VALUES (7)")
    # Between the look and the pipeline somebody may still make a table.
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        with demo.run_pipeline(session, namespace, keep=False):
            pytest.fail("the pipeline must not go on")
    assert session.sql(f"SELECT * FROM pravega.`{namespace}`.`sensor-agg`").collect() == [(7,)]
    assert not pravega.controller.stream_exists(Stream(namespace, "sensor"))


def test_schemas_without_a_stream_count_as_taken(
    cluster: ClusterInfo, pravega: Pravega, monkeypatch: pytest.MonkeyPatch, namespace: str
) -> None:
    """DROP TABLE would take them along."""
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", cluster.controller_uri)
    monkeypatch.setenv("PRAVEGA_SCHEMA_REGISTRY_URI", str(cluster.registry_uri))
    assert demo.find_existing_names(namespace) == []
    registry = pravega.registry(namespace)
    registry.create_group("sensor", GroupProperties("Avro"))
    try:
        assert demo.find_existing_names(namespace) == [f"the schema group `{namespace}`.sensor"]
    finally:
        registry.delete_group("sensor")
