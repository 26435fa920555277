"""Programs of the tests that make a Spark session of their own, with jars that the tests' session lacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark_pravega.local.state import ClusterInfo

ROOT = Path(__file__).resolve().parents[1]


def run_driver(cluster: ClusterInfo, module: str, *arguments: str) -> dict[str, Any]:
    """Run a module of the tests on a cluster, and return what its last line says, as JSON."""
    environment = {
        **os.environ,
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
