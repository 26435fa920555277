"""Iceberg's REST catalog for tests: the server with which Iceberg tests its own clients, of `rest_catalog.lock`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from tests.spark_servers import free_port, listens

LOCK = Path(__file__).with_name("rest_catalog.lock")
_SPARK = Path(pyspark.__file__).parent / "jars" / "*"
"""Has Hadoop, Jackson and Avro, which the server needs besides."""
_PATIENCE_S = 60


@contextmanager
def rest_catalog(directory: Path) -> Iterator[dict[str, str]]:
    """Run a server with its tables in a directory, and give the properties that its clients need."""
    java, port = find_java(), free_port()
    artifacts = read_lock(LOCK)
    # Ivy fetches one jar of a module at a time, and of Iceberg's core both are needed.
    parts = [[one for one in artifacts if (one.classifier == "tests") == of_tests] for of_tests in (False, True)]
    jars = [jar for part in parts for jar in provide_class_path(part, java=java, report=print)]
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.hadoop.HadoopCatalog",
        "CATALOG_WAREHOUSE": f"file://{directory}/warehouse",
    }
    command = [str(java.executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", os.pathsep.join(map(str, [*jars, _SPARK])), "org.apache.iceberg.rest.RESTCatalogServer"]
    log = directory / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, env={**os.environ, **settings}, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not listens(port):
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)
        yield {"type": "rest", "uri": f"http://127.0.0.1:{port}", "warehouse": f"file://{directory}/warehouse"}
    finally:
        server.kill()
        server.wait()
