"""Lineage by OpenLineage's agent for Spark: which tables and columns a query reads and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyspark_pravega.client.config import parse_controller_uri
from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.state import ClusterInfo
from tests.drivers import run_driver

pytestmark = pytest.mark.lineage
LOCK = Path(__file__).with_name("openlineage.lock")


def read_edges(file: Path, written: str) -> list[tuple[list[str], dict[str, list[str]]]]:
    """The datasets that each completed write of a table has read, and the columns of which each column was made."""
    events = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        (sorted(map(name_of, event["inputs"])), columns_of(output))
        for event in events
        for output in event["outputs"]
        if event["eventType"] == "COMPLETE" and name_of(output) == written
    ]


def name_of(dataset: dict[str, Any]) -> str:
    return f"{dataset['namespace']}/{dataset['name']}"


def columns_of(output: dict[str, Any]) -> dict[str, list[str]]:
    fields = output["facets"].get("columnLineage", {"fields": {}})["fields"]
    return {
        column: sorted(f"{name_of(source)}/{source['field']}" for source in made["inputFields"])
        for column, made in fields.items()
    }


@pytest.mark.timeout(600)
def test_what_the_agent_writes(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    (jar,) = provide_class_path(read_lock(LOCK), java=find_java(), report=print)
    file = tmp_path / "events.ndjson"
    found = run_driver(cluster, "tests.lineage.driver", str(jar), str(file), str(tmp_path), scope)
    pairs = ("inserted", "optional", "streamed", "optioned", "batched")
    assert found["counts"] == {**dict.fromkeys(pairs, 2), "combined": 4}
    # The names are for the agent alone: no statement shows them, and none has stored them.
    assert "format" in found["properties"] and "openlineage" not in json.dumps(found)

    namespace = f"pravega://{parse_controller_uri(cluster.controller_uri)[1][0]}"
    readings, others = f"{namespace}/{scope}/readings", f"{namespace}/{scope}/others"
    of_readings = {"id": [f"{readings}/id"], "note": [f"{readings}/note"]}
    assert read_edges(file, readings) == [([], {})]
    for table in ("inserted", "optional"):
        assert read_edges(file, f"{namespace}/{scope}/{table}") == [([readings], of_readings)], table
    both = {"id": [f"{others}/id", f"{readings}/id"], "note": [f"{others}/note"]}
    assert read_edges(file, f"{namespace}/{scope}/combined") == [([others, readings], both)]
    # Of an INSERT and an UPDATE, the first is told alone.
    assert read_edges(file, f"{namespace}/{scope}/changed") == [([], {})]
    # The agent has no interface by which a stream's columns could be told, and Spark hands foreachBatch mere rows.
    for table, read in (("streamed", [readings]), ("optioned", [readings]), ("batched", [])):
        edges = read_edges(file, f"{namespace}/{scope}/{table}")
        assert edges != [] and [edge for edge in edges if edge != (read, {})] == [], table
