"""Open what a measurement runs on: the cluster of the environment, or a large local one, and Spark."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.datasource.connecting import read_client_config
from pyspark_pravega.local.cluster import LocalCluster
from pyspark_pravega.local.servers import CACHE_SIZE
from pyspark_pravega.sql.options import resolve


@contextmanager
def open_cluster(properties: Mapping[str, str] | None = None) -> Iterator[ClientConfig]:
    """Yield how to connect. `properties` are further settings of a local cluster's Pravega."""
    if os.environ.get("PRAVEGA_CONTROLLER_URI"):
        # Registry, trust store and login too, by the variables that a session takes them from.
        yield read_client_config(resolve(env=os.environ))
        return
    with tempfile.TemporaryDirectory(prefix="pyspark-pravega-bench-") as directory:
        storage = Path(directory) / "storage"
        with LocalCluster.start(
            Path(directory) / "cluster",
            heap="4g",
            storage=storage,
            # A server whose cache is full delays every append by up to 25 s until it has written some of it to disk.
            properties={CACHE_SIZE: str(3 << 30), **(properties or {})},
            end_with_parent=True,
        ) as local:
            yield ClientConfig(controller_uri=local.info.controller_uri, registry_uri=local.info.registry_uri)


@contextmanager
def open_session(
    config: ClientConfig, cores: int, confs: Mapping[str, str] | None = None
) -> Iterator[tuple[SparkSession, str]]:
    """Yield a session, and the name of a new namespace that is dropped at the end."""
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    for key, value in (confs or {}).items():
        builder = builder.config(key, value)
    builder = configure(builder, controller_uri=config.controller_uri, schema_registry_uri=config.registry_uri)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    scope = f"bench-{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE pravega.`{scope}`")
    try:
        yield spark, scope
    finally:
        spark.sql(f"DROP NAMESPACE pravega.`{scope}` CASCADE")
        spark.stop()
