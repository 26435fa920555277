"""Pravega beside Spark's own packages for Kafka and Avro, with a broker: the recipe of docs/recipes.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_pravega.local.state import ClusterInfo
from tests.drivers import run_driver
from tests.kafka.broker import broker
from tests.kafka.packages import PUBLISHED, provide_jars


@pytest.mark.skipif(not PUBLISHED, reason="these packages are not published for this version of Spark")
@pytest.mark.timeout(600)
def test_a_topic_of_avro_is_copied_once_each_way(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    with broker(tmp_path) as address:
        found = run_driver(cluster, "tests.kafka.driver", provide_jars(), str(tmp_path), scope, address)
    of_one = [20.5, 21.5, 22.5]
    assert sorted(found["table"], key=str) == [[1, 20.5], [1, 21.5], [1, 22.5], [2, None], [3, -1.0]]
    assert [temp for id_, temp in found["table"] if id_ == 1] == of_one
    assert found["partitions"] > 1 and found["pointers"] == found["stored"] and len(set(found["stored"])) == 5
    written = [(key, json.loads(value)) for key, value in found["topic"]]
    assert all(str(value["id"]) == key for key, value in written)
    assert [value["temp"] for key, value in written if key == "1"] == of_one
    assert sorted(value.get("temp", 0.0) for _, value in written) == [-1.0, 0.0, *of_one]
