"""The options of Java with which drivers start: from the archive of Spark's classes, and with a heap that grows late.

Spark has a conf for such options besides the one that is left to the user. What the user has chosen stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark_pravega.errors import SetupError
from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES
from pyspark_pravega.spark.class_archive import find_archive

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
_OF_HEAPS = (
    "GC ",
    "-XX:GCTimeRatio",
    "-Xms",
    "-Xmn",
    "-XX:InitialHeapSize",
    "-XX:InitialRAMPercentage",
    "HeapFreeRatio",
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
    of_user = [
        setting("--driver-java-options", "spark.driver.extraJavaOptions"),
        *(environment.get(name, "") for name in JAVA_OPTION_VARIABLES),
    ]
    options = []
    if not _has_any(_OF_HEAPS, of_user):
        options.append(GROWS_LATE)
    # A class path of the user stands in front of what was archived.
    has_class_path = setting("--driver-class-path", "spark.driver.extraClassPath")
    if not has_class_path and not _has_any(_OF_ARCHIVES, of_user):
        options += _list_archive_options(spark_home, environment)
    return " ".join(options)


def _has_any(options: tuple[str, ...], texts: list[str]) -> bool:
    return any(option in f"{text} " for option in options for text in texts)


def _list_archive_options(spark_home: Path, environment: Mapping[str, str]) -> list[str]:
    try:
        archive = find_archive(spark_home, environment)
    except SetupError:
        return []
    return archive.options() if archive is not None else []
