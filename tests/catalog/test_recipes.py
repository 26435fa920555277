"""docs/recipes.md: what its programs print, and what each recipe promises besides."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.state import ClusterInfo
from tests.recipes import recipe, run_python, run_sql

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """What stands for `iot`, which a reader has for himself."""
    name = f"recipes{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE pravega.{name}")
    yield name
    spark.sql(f"DROP NAMESPACE pravega.{name} CASCADE")


def test_upserts_into_a_database(
    spark: SparkSession, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A micro-batch counts once, whether its query dies before or behind the commit of the database."""
    table, program = recipe("A database, by upsert", namespace=namespace, directory=tmp_path)
    run_sql(spark, table)
    names: dict[str, Any] = {"spark": spark}
    run_python(program, names)
    assert capsys.readouterr().out == program.output

    def newest() -> list[tuple[int, float, int]]:
        with closing(sqlite3.connect(tmp_path / "sensors.db")) as database:
            return database.execute("SELECT * FROM newest ORDER BY id").fetchall()

    def upsert_and_die(batch: DataFrame, number: int) -> None:
        names["upsert"](batch, number)
        raise RuntimeError("behind the commit")

    def fail(of_the_page: str, other: str) -> None:
        with pytest.raises(StreamingQueryException):
            exec(program.code.replace(of_the_page, other), names | {"upsert_and_die": upsert_and_die})

    spark.sql(f"INSERT INTO pravega.{namespace}.sensor VALUES (2, 19.0), (3, 7.5)")
    fail('count("*")', 'count("*") / 0')
    assert newest() == [(1, 21.5, 2), (2, 18.0, 1)]
    fail("foreachBatch(upsert)", "foreachBatch(upsert_and_die)")
    counted = [(1, 21.5, 2), (2, 19.0, 2), (3, 7.5, 1)]
    assert newest() == counted
    run_python(program, names)
    assert newest() == counted


def test_an_upgrade_and_the_way_back(
    spark: SparkSession, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first version goes on as if there had been no second one; in the old table it would be refused."""
    tables, *program = recipe("Upgrade a streaming query, and go back", namespace=namespace, directory=tmp_path)
    run_sql(spark, tables)
    names: dict[str, Any] = {"spark": spark}
    first, savepoint, upgrade, back = program

    def rows(table: str) -> list[tuple[int, float]]:
        return sorted((row.id, row.celsius) for row in spark.table(f"pravega.{namespace}.{table}").collect())

    run_python(first, names)
    run_python(savepoint, names)
    run_python(upgrade, names)
    assert rows("warm") == [(2, 31.0), (3, 27.0), (4, 35.0)]
    spark.sql(f"INSERT INTO pravega.{namespace}.heat VALUES (5, 40.0)")
    shutil.copytree(tmp_path / "savepoints/warm/checkpoint", tmp_path / "copy")
    with pytest.raises(StreamingQueryException, match="PRAVEGA_QUERY_FENCED"):
        names["run"](names["heat"].where("celsius > 30"), str(tmp_path / "copy"), f"pravega.{namespace}.warm")
    assert rows("warm") == [(2, 31.0), (3, 27.0), (4, 35.0)]
    run_python(back, names)
    assert capsys.readouterr().out == back.output.replace("]", ", (5, 40.0)]")
    names["run"](names["heat"], str(tmp_path / "checkpoints/warm"), f"pravega.{namespace}.warm_again")
    assert rows("warm_again") == [(2, 31.0), (4, 35.0), (5, 40.0)]
    assert spark.table(f"pravega.{namespace}.heat.consumers").select("consumer", "bytes_behind").collect() == [
        ("warm", 0)
    ]


def test_the_last_windows_of_a_bounded_run(
    spark: SparkSession, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables, program = recipe("The last windows of a bounded run", namespace=namespace, directory=tmp_path)
    run_sql(spark, tables)
    run_python(program, {"spark": spark})
    assert capsys.readouterr().out == program.output
    begins = [row.begins.minute for row in spark.table(f"pravega.{namespace}.visited").orderBy("begins").collect()]
    assert begins == [0, 5]


def test_events_of_javas_own_serialization(
    spark: SparkSession, cluster: ClusterInfo, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Objects that Pravega's Java client writes become rows; an object of another class is not made."""
    reading, function, compiling, copy = recipe(
        "Events of Java's own serialization", namespace=namespace, directory=tmp_path
    )
    for source in (reading, function):
        [name] = re.findall(r"public class (\w+)", source.code)
        (tmp_path / f"{name}.java").write_text(source.code)
    java = find_java()
    path = os.pathsep.join([str(Path(sys.executable).parent), str(java.executable.parent), os.environ["PATH"]])
    subprocess.run(["bash", "-ec", compiling.code], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    client = provide_class_path(read_lock(ROOT / "tests/interop/foreign.lock"), java=java, report=print)
    jars = os.pathsep.join(map(str, (tmp_path / "classes", *client)))
    program: list[str | Path] = [java.executable, "-cp", jars, ROOT / "tests/catalog/WriteReadings.java"]
    program += [cluster.controller_uri, namespace]
    subprocess.run([*program, "java-readings", "1=20.5", "2=18.0"], check=True, capture_output=True)

    names: dict[str, Any] = {"spark": spark}
    run_python(copy, names)
    assert capsys.readouterr().out.endswith(copy.output)
    again = f"pravega.{namespace}.java_readings"
    spark.sql(f"INSERT INTO {again} SELECT * FROM {again}")
    run_python(copy, names)
    rows = spark.table(f"pravega.{namespace}.of_java").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, 20.5), (1, 20.5), (2, 18.0), (2, 18.0)]

    date_of_java = "aced00057372000e6a6176612e7574696c2e44617465686a81014b59741903000078707708000001000000000078"
    spark.sql(f"INSERT INTO pravega.{namespace}.java_readings VALUES (X'{date_of_java}')")
    with pytest.raises(StreamingQueryException, match="InvalidClassException: filter status: REJECTED"):
        run_python(copy, names)
    spark.sql("DROP TEMPORARY FUNCTION reading_of_event")  # others share the session


def test_addresses_from_the_environment(
    cluster: ClusterInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"recipes{uuid.uuid4().hex[:8]}"
    there = {"tcp://localhost:9090": cluster.controller_uri, "http://localhost:9092": str(cluster.registry_uri)}
    exports, program = recipe("Addresses from the environment", namespace=name, directory=tmp_path, others=there)
    for line in exports.code.splitlines():
        monkeypatch.setenv(*line.removeprefix("export ").split("="))
    try:
        run_python(program, {})
        assert capsys.readouterr().out == program.output
    finally:
        with connect() as pravega:
            pravega.drop_namespace(name)
    monkeypatch.delenv("PRAVEGA_CONTROLLER_URI")
    with pytest.raises(InvalidOptionError, match="by the environment variable PRAVEGA_CONTROLLER_URI"):
        run_python(program, {})
