"""Pravega beside Spark's own packages for Kafka and Avro, with a broker."""

from __future__ import annotations

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
    assert found["table"] == [[1, 20.5], [2, None], [3, -1.0]]
    assert found["topic"] == ['{"id":1,"temp":20.5}', '{"id":2}', '{"id":3,"temp":-1.0}']
