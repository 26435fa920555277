"""The cluster behind proxies, which campaigns harm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.local.state import ClusterInfo
from tests.faults.director import Network, network_of
from tests.faults.oracle import Tables


@pytest.fixture
def network(client_config: ClientConfig, cluster: ClusterInfo, tables: Tables) -> Iterator[Network]:
    """The servers of the cluster behind proxies; each module has `tables` of its own."""
    with network_of(client_config, cluster, tables.streams[0]) as made:
        yield made
