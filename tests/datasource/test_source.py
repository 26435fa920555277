"""The source `pravega` of `spark.read`, `df.write`, `spark.readStream` and temporary views: tables by options."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega import DefaultSource
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.plain_driver import use_source
from tests.streams import into_memory, run_available

PLAIN_DRIVER = Path(__file__).with_name("plain_driver.py")


@pytest.fixture
def options(spark: SparkSession, scope: str, cluster: ClusterInfo) -> dict[str, str]:
    """How to reach a new table of two segments."""
    spark.sql(
        f"CREATE TABLE pravega.`{scope}`.rooms (id INT NOT NULL, temp DOUBLE) USING pravega "
        "TBLPROPERTIES ('format'='json', 'routing-key'='id', 'scaling.min-segments'='2')"
    )
    return {
        "controller-uri": cluster.controller_uri,
        "schema-registry-uri": str(cluster.registry_uri),
        "scope": scope,
        "stream": "rooms",
    }


def test_what_is_written_is_read_with_and_without_the_catalog(
    spark: SparkSession, scope: str, options: dict[str, str]
) -> None:
    rows = spark.range(0, 1000, 1, 3).selectExpr("CAST(id AS INT) AS id", "id / 4 AS temp")
    rows.write.format("pravega").mode("append").options(**options).save()
    found = spark.read.format("pravega").options(**options).load()
    assert found.columns == ["id", "temp", "_segment", "_offset", "_event_pointer"]
    wanted = [(number, number / 4) for number in range(1000)]
    assert sorted(tuple(row) for row in found.select("id", "temp").collect()) == wanted
    assert sorted(tuple(row) for row in spark.table(f"pravega.`{scope}`.rooms").collect()) == wanted
    assert found.count() == 1000
    assert found.select("_segment").distinct().count() == 2


def test_a_temporary_view(spark: SparkSession, scope: str, options: dict[str, str]) -> None:
    spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES (1, 20.5), (2, NULL)")
    given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW rooms USING pravega OPTIONS ({given})")
    try:
        assert [tuple(row) for row in spark.sql("SELECT id, temp FROM rooms ORDER BY id").collect()] == [
            (1, 20.5),
            (2, None),
        ]
    finally:
        spark.catalog.dropTempView("rooms")


def test_tables_of_sparks_own_catalog_are_refused(spark: SparkSession, options: dict[str, str]) -> None:
    given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW") as caught:
        spark.sql(f"CREATE TABLE spark_catalog.default.rooms USING pravega OPTIONS ({given})")
    assert "PRAVEGA_UNSUPPORTED_OPERATION" in str(caught.value)


def test_a_data_frame_reads_what_has_come_since(spark: SparkSession, scope: str, options: dict[str, str]) -> None:
    found = spark.read.format("pravega").options(**options).load()
    for number in range(1, 3):
        spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES ({number}, 20.5)")
        assert found.count() == number


def test_columns_that_are_asked_for(spark: SparkSession, scope: str, options: dict[str, str]) -> None:
    spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES (1, 20.5)")
    some = spark.read.format("pravega").options(**options).schema("temp DOUBLE").load()
    assert some.columns == ["temp"]
    assert [tuple(row) for row in some.select("temp", "_schema_version").collect()] == [(20.5, 0)]
    assert some.where("temp > 21").collect() == []


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with nothing but the confs that the application was started with."""
    yield spark.newSession()
    # A session that makes a data frame of rows becomes the thread's active one, whose confs Spark asks for catalogs.
    spark.createDataFrame([], "id INT")


def test_the_sessions_only_catalog_counts(session: SparkSession, scope: str, options: dict[str, str]) -> None:
    named = {"scope": scope, "stream": "rooms"}
    session.createDataFrame([(1, 20.5)], "id INT, temp DOUBLE").write.format("pravega").options(**named).mode(
        "append"
    ).save()
    assert session.read.format("pravega").options(**named).load().count() == 1
    session.conf.set("spark.sql.catalog.another", "io.github.pysparkpravega.PravegaCatalog")
    with pytest.raises(PySparkException, match="'controller-uri' is needed"):
        session.read.format("pravega").options(**named).load()
    found = session.read.format("pravega").options(**named, catalog="pravega").load()
    assert [tuple(row) for row in found.select("id", "temp").collect()] == [(1, 20.5)]


def test_options_that_say_how_to_connect_send_nothing_of_a_catalog(session: SparkSession, scope: str) -> None:
    session.conf.set("spark.sql.catalog.pravega.request-timeout", "nonsense")
    reader = session.read.format("pravega").option("scope", scope).option("stream", "rooms")
    with pytest.raises(PySparkException, match="'nonsense'"):
        reader.load()
    with pytest.raises(PySparkException, match="'controller-uri' is needed"):
        reader.option("security.username", "somebody").load()


def test_a_stream(spark: SparkSession, scope: str, options: dict[str, str], tmp_path: Path) -> None:
    spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES (1, 20.5)")
    rows = spark.readStream.format("pravega").options(**options).load()
    assert rows.columns == ["id", "temp", "_segment", "_offset", "_event_pointer"]
    with into_memory(rows.select("id", "temp", "_schema_version"), tmp_path) as sink:
        assert sink.rows() == [(1, 20.5, 0)]
        spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES (2, NULL)")
        assert sorted(sink.rows()) == [(1, 20.5, 0), (2, None, 0)]


def test_a_stream_into_a_stream(spark: SparkSession, scope: str, options: dict[str, str], tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE pravega.`{scope}`.copy (id INT NOT NULL, temp DOUBLE) USING pravega")
    rows = spark.readStream.format("pravega").options(**options).load().select("temp", "id")
    copy = {**options, "stream": "copy", "transaction.lease": "20s"}
    for number in range(2):
        spark.sql(f"INSERT INTO pravega.`{scope}`.rooms VALUES ({number}, 20.5), ({number + 10}, NULL)")
        [progress] = run_available(rows.writeStream.format("pravega").options(**copy), tmp_path)
        assert progress["numInputRows"] == 2
    wanted = [(0, 20.5), (1, 20.5), (10, None), (11, None)]
    assert sorted(tuple(row) for row in spark.table(f"pravega.`{scope}`.copy").collect()) == wanted


def check_without_jar(found: dict[str, Any]) -> None:
    """Compare what was read and refused, as `use_source` returns it."""
    assert found["rows"] == [[number, number / 2] for number in range(4)]
    for refused in ("readStream", "writeStream"):
        assert f"[PRAVEGA_UNSUPPORTED_OPERATION] {refused} without the adapter's jar" in found[refused]
        assert "pyspark_pravega.configure(" in found[refused]
    assert "'catalog'='pravega'" in found["catalog"] and "pyspark_pravega.configure(" in found["catalog"]


def test_the_source_in_python(spark: SparkSession, scope: str, options: dict[str, str], tmp_path: Path) -> None:
    """The source that Spark finds by its name where the adapter's jar is not on the class path, by another name."""
    found = DefaultSource

    class InPython(found):  # type: ignore[misc, valid-type]
        @classmethod
        def name(cls) -> str:
            return "pravega-in-python"

    assert found.name() == "pravega"
    spark.dataSource.register(InPython)
    check_without_jar(use_source(spark, "pravega-in-python", options, str(tmp_path)))
    assert spark.table(f"pravega.`{scope}`.rooms").count() == 4


@pytest.mark.long
def test_without_the_adapters_jar(
    spark: SparkSession, scope: str, options: dict[str, str], cluster: ClusterInfo, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(PLAIN_DRIVER), json.dumps(options), str(tmp_path)],
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    check_without_jar(json.loads(done.stdout.splitlines()[-1]))
    assert spark.table(f"pravega.`{scope}`.rooms").count() == 4
