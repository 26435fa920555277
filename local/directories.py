"""Where this machine keeps the jar cache and the state of local clusters, by the platform's custom."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_NAME = "pyspark-pravega"


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Directory for what can be fetched again: `$XDG_CACHE_HOME/pyspark-pravega`, by default in ~/.cache."""
    return _base("XDG_CACHE_HOME", ".cache", "Library/Caches", environment) / _NAME


def jar_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Directory of the fetched jars."""
    return cache_directory(environment) / "jars"


def default_cluster_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Directory of the cluster that the command line uses without `--dir`."""
    base = _base("XDG_STATE_HOME", ".local/state", "Library/Application Support", environment)
    return base / _NAME / "local"


def _base(variable: str, fallback: str, mac_fallback: str, environment: Mapping[str, str] | None) -> Path:
    environment = os.environ if environment is None else environment
    value = environment.get(variable, "")
    # The XDG specification says that a relative path in these variables must be ignored.
    if os.path.isabs(value):
        return Path(value)
    return Path.home() / (mac_fallback if sys.platform == "darwin" else fallback)
