"""The cluster that a measurement runs on: the one of the environment, else a local one with room for volume."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.datasource.connection import client_config
from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.local.servers import CACHE_SIZE
from pyspark_pravega.sql.options import resolve


@contextmanager
def cluster() -> Iterator[ClientConfig]:
    """Yield how to connect."""
    if os.environ.get("PRAVEGA_CONTROLLER_URI"):
        # Registry, trust store and login too, by the variables that a session takes them from.
        yield client_config(resolve(env=os.environ))
        return
    with tempfile.TemporaryDirectory(prefix="pyspark-pravega-bench-") as directory:
        storage = Path(directory) / "storage"
        with LocalCluster.start(
            Path(directory) / "cluster",
            heap="4g",
            storage=storage,
            # A server whose cache is full delays every append by up to 25 s until it has written some of it to disk.
            properties={CACHE_SIZE: str(3 << 30)},
            end_with_parent=True,
        ) as local:
            yield ClientConfig(controller_uri=local.info.controller_uri, registry_uri=local.info.registry_uri)
