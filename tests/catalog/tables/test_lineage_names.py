"""The names of tables in lineage: the same for every session that reaches a cluster in the same way."""

from __future__ import annotations

import pytest

from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.tables.description import name_dataset
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream


@pytest.mark.parametrize(
    ("address", "namespace"),
    [
        ("tcp://host", "pravega://host:9090"),
        ("tls://host:9090", "pravega://host:9090"),
        ("pravega://one:9091,two:9092", "pravega://one:9091"),
        ("tcp://[::1]:9090", "pravega://[::1]:9090"),
    ],
)
def test_a_dataset_is_named_by_cluster_and_stream(address: str, namespace: str) -> None:
    with connect(ClientConfig(address)) as pravega:
        named = [
            name_dataset(Catalog(conf, pravega), Stream("iot", "sensor")) for conf in ({}, {"catalog-name": "lake"})
        ]
    assert named == [{"openlineage.dataset.namespace": namespace, "openlineage.dataset.name": "iot/sensor"}] * 2
