"""The options of Java with which drivers start: from the archive of Spark's classes, and with a heap that grows late.

Spark has a conf for such options besides the one that is left to the user. What the user has chosen stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES
from pyspark_pravega.spark.class_archive import list_archive_options
from pyspark_pravega.spark.home import find_conf_directory

GROWS_LATE = "-XX:GCTimeRatio=3"
"""The heap grows when collections take a quarter of the time; with Java's own 12, when they take a thirteenth.

The limit is the same, and a program that needs the memory gets it. Others keep a heap that is half as large, which
matters because Python workers need memory beside it.
"""

# These start a driver in another way, or record an archive themselves.
_OF_ARCHIVES = (
    "-XX:ArchiveClassesAtExit",
    "-XX:SharedArchiveFile",
    "-XX:DumpLoadedClassList",
    "-XX:+RecordDynamicDumpInfo",
    "-XX:AOT",
    "-Xshare:",
)
# Whoever chooses a collector or sizes has an opinion on the heap; other collectors understand the ratio differently.
_OF_HEAPS = re.compile(
    r"-Xm[sn]|-XX:\+Use\w+GC\b|-XX:\+AggressiveHeap|-XX:(GCTimeRatio|NewRatio|(Initial|Min)HeapSize|(Max)?NewSize"
    r"|InitialRAMPercentage|(Min|Max)HeapFreeRatio)="
)


def choose_driver_options(spark_home: Path, environment: Mapping[str, str], setting: Callable[[str, str], str]) -> str:
    """Return the options for JAVA_OPTIONS_CONF, separated by spaces; empty for a driver that is started elsewhere.

    Args:
        spark_home: the Spark that is started.
        environment: of the process that starts it.
        setting: returns what the user has set by an option of spark-submit, or the conf that says the same.
    """
    if setting("--deploy-mode", "spark.submit.deployMode") == "cluster":
        return ""
    of_user = "\n".join(
        [
            setting("--driver-java-options", "spark.driver.extraJavaOptions"),
            *(environment.get(name, "") for name in JAVA_OPTION_VARIABLES),
            _read_options_of_every_program(spark_home, environment),
        ]
    )
    options = [] if _OF_HEAPS.search(of_user) else [GROWS_LATE]
    # A class path of the user stands in front of what was archived.
    has_class_path = setting("--driver-class-path", "spark.driver.extraClassPath")
    if not has_class_path and not any(option in of_user for option in _OF_ARCHIVES):
        options += list_archive_options(spark_home, environment)
    return " ".join(options)


def _read_options_of_every_program(spark_home: Path, environment: Mapping[str, str]) -> str:
    """Read the file from which Spark takes options for each Java that it starts."""
    try:
        return (find_conf_directory(environment, spark_home) / "java-opts").read_text(errors="replace")
    except OSError:
        return ""
