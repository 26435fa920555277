"""Spark's declarative pipelines: the example project runs, and a second run takes what has come since."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.sql.script import split_script

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipeline"
COMMAND = [sys.executable, "-m", "pyspark_pravega", "pipelines", "--remote", "local[2]"]
CONFS = ["--conf", "spark.ui.enabled=false", "--conf", "spark.ui.showConsoleProgress=false"]


@pytest.fixture
def scope(spark: SparkSession) -> Iterator[str]:
    """A scope without `-`: Spark takes the quotes of a pipeline's default database for a part of its name."""
    name = f"pipeline{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE pravega.{name}")
    yield name
    spark.sql(f"DROP NAMESPACE pravega.{name} CASCADE")


def test_the_example_is_what_spark_and_python_can_parse(spark: SparkSession) -> None:
    script = split_script((EXAMPLE / "transformations" / "sensors.sql").read_text())
    assert [one.words[1] for one in script] == ["STREAMING", "FLOW", "FLOW"]
    ScriptRunner(spark.newSession(), script, ProgressDisplay()).check()
    source = EXAMPLE / "transformations" / "alarms.py"
    compile(source.read_text(), str(source), "exec")


@pytest.mark.pipelines
@pytest.mark.short
@pytest.mark.timeout(900)
def test_the_example_runs_and_goes_on(cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path) -> None:
    namespace = f"pravega.{scope}"
    spark.sql(f"CREATE TABLE {namespace}.sensor (sensorId INT, location STRING, temp DOUBLE) USING pravega")
    spark.sql(f"CREATE TABLE {namespace}.alarms (location STRING, text STRING) USING pravega")
    spark.sql(f"INSERT INTO {namespace}.sensor VALUES (1, 'Seattle', 71), (1, 'Seattle', 69), (2, 'Oslo', 66)")
    project = copy_of_the_example(tmp_path, scope)
    run(cluster, project)
    assert read_rows(spark, f"{namespace}.hot") == [(1, "Seattle", 71.0), (2, "Oslo", 66.0)]
    assert read_rows(spark, f"{namespace}.alarms") == [("Oslo", "hot: 66.0"), ("Seattle", "hot: 71.0")]
    spark.sql(f"INSERT INTO {namespace}.sensor VALUES (3, 'Oslo', 99)")
    run(cluster, project)
    assert read_rows(spark, f"{namespace}.hot") == [(1, "Seattle", 71.0), (2, "Oslo", 66.0), (3, "Oslo", 99.0)]
    assert len(read_rows(spark, f"{namespace}.alarms")) == 3


AUTO_CDC = """
CREATE STREAMING TABLE current USING pravega TBLPROPERTIES ('format'='debezium-json', 'primaryKey'='id',
  'rollover-size'='1024k');
CREATE FLOW follow AS AUTO CDC INTO current FROM STREAM sensor KEYS (id)
APPLY AS DELETE WHEN gone SEQUENCE BY number COLUMNS * EXCEPT (gone) STORED AS SCD TYPE 1;
"""


@pytest.mark.pipelines
@pytest.mark.timeout(900)
def test_auto_cdc_keeps_the_newest_row_of_each_key(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    namespace = f"pravega.{scope}"
    spark.sql(f"CREATE TABLE {namespace}.sensor (id INT, name STRING, number INT, gone BOOLEAN) USING pravega")
    spark.sql(f"INSERT INTO {namespace}.sensor VALUES (1, 'b', 2, false), (1, 'a', 1, false), (2, 'c', 1, false)")
    project = copy_of_the_example(tmp_path, scope)
    (project / "transformations" / "alarms.py").unlink()
    (project / "transformations" / "sensors.sql").write_text(AUTO_CDC)
    run(cluster, project)
    columns = "id, name, number"
    assert read_rows(spark, f"{namespace}.current", columns) == [(1, "b", 2), (2, "c", 1)]
    spark.sql(f"INSERT INTO {namespace}.sensor VALUES (1, 'late', 1, false), (2, null, 3, true), (3, 'd', 1, false)")
    run(cluster, project)
    assert read_rows(spark, f"{namespace}.current", columns) == [(1, "b", 2), (3, "d", 1)]
    spark.sql(f"INSERT INTO {namespace}.sensor VALUES (2, 'late', 2, false)")
    run(cluster, project)
    assert read_rows(spark, f"{namespace}.current", columns) == [(1, "b", 2), (3, "d", 1)]


VIEW = """
CREATE STREAMING TABLE hot USING pravega AS SELECT sensorId, temp FROM STREAM sensor WHERE temp > 70;
CREATE MATERIALIZED VIEW places USING pravega AS SELECT location, count(*) AS number FROM sensor GROUP BY location;
"""


@pytest.mark.pipelines
@pytest.mark.timeout(900)
def test_a_materialized_view_and_a_full_refresh_write_all_rows_again(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    namespace = f"pravega.{scope}"
    project = readings_and_a_project(spark, scope, tmp_path, VIEW)
    run(cluster, project)
    assert read_rows(spark, f"{namespace}.places") == [("Oslo", 1), ("Seattle", 2)]
    spark.sql(f"INSERT INTO {namespace}.sensor VALUES (3, 'Oslo', 99)")
    run(cluster, project)
    assert read_rows(spark, f"{namespace}.places") == [("Oslo", 2), ("Seattle", 2)]
    run(cluster, project, "--full-refresh", "hot")
    assert read_rows(spark, f"{namespace}.hot") == [(1, 71.0), (3, 99.0)]


@pytest.mark.pipelines
@pytest.mark.timeout(900)
def test_a_table_whose_name_needs_backticks_is_not_made(
    cluster: ClusterInfo, spark: SparkSession, scope: str, tmp_path: Path
) -> None:
    project = readings_and_a_project(spark, scope, tmp_path, VIEW.replace("TABLE hot", "TABLE `hot-ones`"))
    code, said = attempt(cluster, project)
    assert code != 0 and "INVALID_IDENTIFIER" in said and "`hot-ones`" in said, said


def readings_and_a_project(spark: SparkSession, scope: str, directory: Path, sql: str) -> Path:
    """Write three readings, and return a project with these statements alone."""
    spark.sql(f"CREATE TABLE pravega.{scope}.sensor (sensorId INT, location STRING, temp DOUBLE) USING pravega")
    spark.sql(f"INSERT INTO pravega.{scope}.sensor VALUES (1, 'Seattle', 71), (1, 'Seattle', 69), (2, 'Oslo', 66)")
    project = copy_of_the_example(directory, scope)
    (project / "transformations" / "alarms.py").unlink()
    (project / "transformations" / "sensors.sql").write_text(sql)
    return project


def copy_of_the_example(directory: Path, scope: str) -> Path:
    project = directory / "pipeline"
    shutil.copytree(EXAMPLE, project)
    changes = (
        (r"pravega\.iot", f"pravega.{scope}"),
        (r'"scope": "iot"', f'"scope": "{scope}"'),
        (r"database: iot", f"database: {scope}"),
        (r"storage: .*", f"storage: {(directory / 'storage').as_uri()}"),
    )
    for path in (file for file in project.rglob("*") if file.is_file()):
        text = path.read_text()
        for old, new in changes:
            text = re.sub(old, new, text)
        path.write_text(text)
    return project


def run(cluster: ClusterInfo, project: Path, *arguments: str) -> None:
    code, said = attempt(cluster, project, *arguments)
    assert code == 0 and "Run is COMPLETED" in said, said


def attempt(cluster: ClusterInfo, project: Path, *arguments: str) -> tuple[int, str]:
    """Run a pipeline, and return its exit code and all that it says."""
    environment = {
        **os.environ,
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    command = [*COMMAND, *CONFS, "run", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def read_rows(spark: SparkSession, table: str, columns: str = "*") -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.sql(f"SELECT {columns} FROM {table}").collect())
