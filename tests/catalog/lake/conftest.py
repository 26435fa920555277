"""A catalog whose tables have lakes in a directory."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega import configure
from pyspark_pravega.local.state import ClusterInfo

CATALOG = "tiered"


@pytest.fixture(scope="session")
def lake(spark: SparkSession, cluster: ClusterInfo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of a catalog of lakes in a directory, which the session's catalog `tiered` has."""
    folder = tmp_path_factory.mktemp("lake")
    settings = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"}
    add_catalog(cluster, CATALOG, settings)
    return settings


def add_catalog(cluster: ClusterInfo, catalog: str, settings: dict[str, str]) -> None:
    """Add a catalog to the session, with the settings of its lakes."""
    builder = SparkSession.builder
    for key, text in settings.items():
        builder = builder.config(f"spark.sql.catalog.{catalog}.lake.{key}", text)
    uris = {"controller_uri": cluster.controller_uri, "schema_registry_uri": cluster.registry_uri}
    configure(builder, catalog=catalog, **uris).getOrCreate()
