"""Where the cache and the state of clusters are kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pyspark_pravega.local.directories import find_default_cluster_directory, find_jar_directory


def test_variables_of_the_platform() -> None:
    environment = {"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}
    assert find_jar_directory(environment) == Path("/c/pyspark-pravega/jars")
    assert find_default_cluster_directory(environment) == Path("/s/pyspark-pravega/local")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has its own places")
@pytest.mark.parametrize("environment", [{}, {"XDG_CACHE_HOME": "relative", "XDG_STATE_HOME": ""}])
def test_defaults(environment: dict[str, str]) -> None:
    assert find_jar_directory(environment) == Path.home() / ".cache/pyspark-pravega/jars"
    assert find_default_cluster_directory(environment) == Path.home() / ".local/state/pyspark-pravega/local"
