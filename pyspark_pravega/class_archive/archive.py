"""Where the archive of Spark's classes is, and the options by which a driver starts from it.

Java's "application class data sharing" (https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html): an
archive belongs to one Java and one class path. Java compares both itself and ignores an archive that does not fit,
so that nothing depends on it but time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.local.directories import cache_directory

JAVA_OPTIONS_CONF = "spark.driver.defaultJavaOptions"
"""Spark puts these options in front of `spark.driver.extraJavaOptions`, which is left to the user."""

_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"
# These start a driver in another way, or record an archive themselves.
_OF_USER = ("-XX:ArchiveClassesAtExit", "-XX:SharedArchiveFile", "-XX:DumpLoadedClassList", "-Xshare:")


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Spark and one Java.

    Attributes:
        file: its place in the user's cache, whether it is there or not.
    """

    file: Path

    @classmethod
    def of(cls, spark_home: Path, environment: Mapping[str, str]) -> ClassArchive | None:
        """The archive for the Spark in `spark_home` and the Java that would run it; None if there is no Java."""
        java = _java(environment)
        if java is None:
            return None
        parts = [java, java.parent.parent / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))]
        # Java compares a jar's size and time, too, in whole seconds.
        known = [f"{part} {found.st_size} {int(found.st_mtime)}" for part in parts if (found := _stat(part))]
        key = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
        return cls(cache_directory(environment) / "classes" / f"spark-{key}.jsa")

    def options(self) -> str:
        """The options by which Java starts from the archive; empty if it has not been recorded."""
        if not self.file.is_file():
            return ""
        with contextlib.suppress(PermissionError):  # a cache that all users share, in an image
            os.utime(self.file)  # archives that nobody uses are deleted
        return f"-XX:SharedArchiveFile={self.file} {_QUIET}"

    def recording_options(self, recording: Path) -> str:
        """The options by which Java writes an archive to `recording` when it ends."""
        return f"-XX:ArchiveClassesAtExit={recording} {_QUIET}"


def driver_options(spark_home: Path, environment: Mapping[str, str], options_of_user: str, deploy_mode: str) -> str:
    """The options by which a driver on this machine starts from the archive, for JAVA_OPTIONS_CONF; empty if none do.

    Args:
        spark_home: the Spark that is started.
        environment: of the process that starts it.
        options_of_user: what `spark.driver.extraJavaOptions` holds; it may have an archive of its own.
        deploy_mode: "cluster" if the driver runs on another machine.
    """
    if deploy_mode == "cluster" or any(option in options_of_user for option in _OF_USER):
        return ""
    archive = ClassArchive.of(spark_home, environment)
    # Spark splits the options at spaces.
    return archive.options() if archive is not None and " " not in str(archive.file) else ""


def _java(environment: Mapping[str, str]) -> Path | None:
    """Return the Java that bin/spark-class starts, links resolved."""
    home = environment.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    return Path(found).resolve() if found else None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
