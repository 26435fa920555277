"""Pravega beside Spark's own packages for Kafka and Avro, with a broker: the recipe of docs/recipes.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.state import ClusterInfo
from tests.drivers import run_driver
from tests.kafka.broker import broker
from tests.spark_versions import VERSION

PACKAGES: dict[tuple[int, ...], str] = {(4, 1): "4.1.1", (4, 2): "4.2.0"}
"""The packages' version for a line of Spark."""
LOCK = Path(__file__).with_name("packages.lock")


@pytest.mark.skipif(VERSION not in PACKAGES, reason="these packages are not published for this version of Spark")
@pytest.mark.timeout(600)
def test_a_topic_of_avro_is_copied_once_each_way(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    version = PACKAGES[VERSION]
    artifacts = [each for each in read_lock(LOCK) if each.group != "org.apache.spark" or each.version == version]
    jars = ",".join(map(str, provide_class_path(artifacts, java=find_java(), report=print)))
    with broker(tmp_path) as address:
        found = run_driver(cluster, "tests.kafka.driver", jars, str(tmp_path), scope, address)
    of_one = [20.5, 21.5, 22.5]
    assert sorted(found["table"], key=str) == [[1, 20.5], [1, 21.5], [1, 22.5], [2, None], [3, -1.0]]
    assert [temp for id_, temp in found["table"] if id_ == 1] == of_one
    assert found["partitions"] > 1 and found["pointers"] == found["stored"] and len(set(found["stored"])) == 5
    written = [(key, json.loads(value)) for key, value in found["topic"]]
    assert all(str(value["id"]) == key for key, value in written)
    assert [value["temp"] for key, value in written if key == "1"] == of_one
    assert sorted(value.get("temp", 0.0) for _, value in written) == [-1.0, 0.0, *of_one]
