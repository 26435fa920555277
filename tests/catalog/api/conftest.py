"""The catalog as a Python object, on the servers that Spark's session uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.local.state import ClusterInfo


@pytest.fixture(scope="session")
def api(cluster: ClusterInfo) -> Iterator[PravegaCatalog]:
    """The catalog `pravega` without Spark."""
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        yield catalog
