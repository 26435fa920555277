"""Pravega beside Spark's own packages for Kafka and Avro, with a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.local.state import ClusterInfo
from tests.kafka.broker import broker, jars_of
from tests.spark_versions import VERSION

PACKAGES: dict[tuple[int, ...], str] = {(4, 1): "4.1.1", (4, 2): "4.2.0"}
"""The packages' version for a line of Spark."""
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(VERSION not in PACKAGES, reason="these packages are not published for this version of Spark")
@pytest.mark.timeout(600)
def test_a_topic_of_avro_is_copied_once_each_way(cluster: ClusterInfo, scope: str, tmp_path: Path) -> None:
    jars = ",".join(map(str, jars_of(spark=PACKAGES[VERSION])))
    environment = {
        **os.environ,
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    with broker(tmp_path) as address:
        command = [sys.executable, "-m", "tests.kafka.driver", jars, str(tmp_path), scope, address]
        done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["table"] == [[1, 20.5], [2, None], [3, -1.0]]
    assert found["topic"] == ['{"id":1,"temp":20.5}', '{"id":2}', '{"id":3,"temp":-1.0}']
