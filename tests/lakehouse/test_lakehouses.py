"""Pravega beside Iceberg and Delta in one session, each with the Spark that it runs on; Iceberg also on its lakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.lake.rest_catalog import rest_catalog
from tests.drivers import run_driver
from tests.spark_versions import VERSION

LAKEHOUSES: dict[tuple[int, ...], tuple[str, str]] = {
    (4, 1): ("iceberg", "org.apache.iceberg"),
    (4, 2): ("delta", "io.delta"),
}
"""The table format that is made for a version of Spark, and the group of its jars."""
LOCK = Path(__file__).parent / "lakehouse.lock"


def provide_jars(group: str) -> str:
    artifacts = [artifact for artifact in read_lock(LOCK) if artifact.group == group]
    return ",".join(map(str, provide_class_path(artifacts, java=find_java(), report=print)))


@pytest.mark.skipif(VERSION not in LAKEHOUSES, reason="no table format runs on this version of Spark")
@pytest.mark.timeout(600)
def test_tables_and_streams_of_both(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    lakehouse, group = LAKEHOUSES[VERSION]
    found = run_driver(cluster, "tests.lakehouse.driver", lakehouse, provide_jars(group), str(tmp_path), scope)
    assert found["both ways"] == [[1, "a"], [2, "b"], [11, "a"], [12, "b"]]
    assert found["tag"] == [[1], [2]]
    assert found["added column"] == [[1, None], [2, None], [3, 30]]
    assert found["joined"] == [[1], [2]]
    once = [[1], [2], [3], [4], [11], [12]]
    assert found["streamed into the lake"] == once
    assert found["streamed into pravega"] == once
    assert found["merged"] == [[1, "Anne"], [3, None]]
    for statement, error in found["refused"].items():
        assert "PRAVEGA_UNSUPPORTED_OPERATION" in error, (statement, error)
    assert found.get("evolved") == ([[9, "bolt"]] if lakehouse == "delta" else None)


@pytest.mark.skipif(VERSION != (4, 1), reason="Iceberg has no runtime for this version of Spark")
@pytest.mark.timeout(900)
def test_lakes_that_iceberg_reads_and_rewrites(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as settings:
        jars = provide_jars("org.apache.iceberg")
        found = run_driver(cluster, "tests.lakehouse.history_driver", jars, str(tmp_path), scope, settings["uri"])
    print(json.dumps(found, indent=1))
    assert not {about: answer for about, answer in found.items() if isinstance(answer, list) and answer}
    assert found["widened: tier"].startswith("it ran")
    for about, error in found.items():
        assert not about.startswith("error") or "PRAVEGA_LAKE_FAILED" in error, (about, error)


@pytest.mark.skipif(VERSION != (4, 1), reason="other tests show it with this version of Spark")
def test_lakes_without_the_runtime(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as settings:
        assert run_driver(cluster, "tests.lakehouse.history_driver", "", str(tmp_path), scope, settings["uri"]) == {
            "alone": []
        }
