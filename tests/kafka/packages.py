"""Spark's packages for Kafka and Avro, and the lines of Spark for which they are published."""

from __future__ import annotations

from pathlib import Path

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from tests.spark_versions import VERSION

PACKAGES: dict[tuple[int, ...], str] = {(4, 1): "4.1.1", (4, 2): "4.2.0"}
"""The packages' version for a line of Spark."""
PUBLISHED = VERSION in PACKAGES
"""Whether the running Spark has these packages."""
_LOCK = Path(__file__).with_name("packages.lock")


def provide_jars() -> str:
    """Download what is missing, and return the packages' jars as `spark.jars` takes them."""
    version = PACKAGES[VERSION]
    artifacts = [each for each in read_lock(_LOCK) if each.group != "org.apache.spark" or each.version == version]
    return ",".join(map(str, provide_class_path(artifacts, java=find_java(), report=print)))
