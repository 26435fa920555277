"""Tiers a table once, as a process that may be killed at any moment; it says which step it has done.

python -m tests.catalog.lake.tiering_process CONTROLLER REGISTRY SCOPE STREAM SETTINGS
"""

from __future__ import annotations

import json
import sys

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.tiering import finish_tiering
from tests.catalog.lake.test_tierings import open_lake, write_files


def main(controller: str, registry: str, scope: str, stream: str, settings: str) -> None:
    """Do what the procedure `tier` does, without Spark."""
    with connect(ClientConfig(controller, registry_uri=registry)) as pravega:
        print("connected", flush=True)
        opened, lake = open_lake(pravega, Stream(scope, stream), json.loads(settings))
        written = write_files(opened, lake)
        print("written", flush=True)
        if written is not None:
            finish_tiering(lake, *written)
        print("committed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
