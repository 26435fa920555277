"""Find the archive of Spark's classes, and the options by which a driver starts from it.

Java's "application class data sharing" (https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html): an
archive belongs to one Java and one class path. Java itself compares both and ignores an archive that does not fit,
so the archive affects nothing but time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error
from pyspark_pravega.local.directories import cache_directory
from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES

JAVA_OPTIONS_CONF = "spark.driver.defaultJavaOptions"
"""Spark puts these options before `spark.driver.extraJavaOptions`, which is left to the user."""

# These start a driver in another way, or record an archive themselves.
_OF_USER = (
    "-XX:ArchiveClassesAtExit",
    "-XX:SharedArchiveFile",
    "-XX:DumpLoadedClassList",
    "-XX:+RecordDynamicDumpInfo",
    "-XX:AOT",
    "-Xshare:",
)
# Spark splits options as a shell does, and Java splits archives at colons.
_PLAIN_PATH = re.compile(r"[\w./+@=-]+")


@dataclass(frozen=True)
class SparkClassArchive:
    """The archive for one Spark and one Java.

    Attributes:
        file: its place in the user's cache, whether it is there or not.
    """

    file: Path

    @classmethod
    def of(cls, spark_home: Path, environment: Mapping[str, str]) -> SparkClassArchive | None:
        """Find the archive for the Spark in `spark_home` and the Java that would run it; None if there is no Java.

        Raises SetupError if the user has no cache, or its path cannot stand in an option of Java.
        """
        java = _find_java(environment)
        if java is None:
            return None
        parts = [java, java.parent.parent / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))]
        # Java compares a jar's size and time, too, in whole seconds.
        known = [f"{part} {found.st_size} {int(found.st_mtime)}" for part in parts if (found := _stat(part))]
        key = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
        try:
            cache = cache_directory(environment)
        except RuntimeError as error:  # a user without a home
            raise SetupError(f"There is no cache directory ({error}). Set XDG_CACHE_HOME to one.") from error
        check_path(cache, "XDG_CACHE_HOME")
        return cls(cache / "classes" / f"spark-{key}.jsa")

    def options(self) -> str:
        """Return the options by which Java starts from the archive; empty if it is missing or unreadable."""
        if _stat(self.file) is None or not os.access(self.file, os.R_OK):
            return ""
        with contextlib.suppress(OSError):  # a cache of another user, or on a file system that is read-only
            os.utime(self.file)  # archives that nobody uses are deleted
        return f"-XX:SharedArchiveFile={self.file} -Xlog:cds*=off -Xlog:class+path=off"

    def delete(self) -> bool:
        """Delete the archive, and return whether there was one. Raises SetupError if it cannot be deleted."""
        try:
            self.file.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise SetupError(f"The archive {self.file} cannot be deleted: {describe_os_error(error)}") from error
        return True


def check_path(path: Path, variable: str) -> None:
    """Raise SetupError if a path, set by an environment variable, cannot be part of an option of Java."""
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise SetupError(
            f"The path '{path}' cannot stand in an option of Spark's Java, which may have only letters, digits and _ . "
            f"/ + @ = -. Set {variable} to another one."
        )


def check_class_path(spark_home: Path, environment: Mapping[str, str]) -> None:
    """Raise SetupError if Spark has a directory with files before its jars: Java archives classes of jars only."""
    confs = Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")
    try:
        stands_in_front = confs.is_dir() and any(confs.iterdir())
    except OSError as error:
        raise SetupError(f"Spark's directory of confs cannot be read: {describe_os_error(error)}") from error
    if stands_in_front:
        raise SetupError(
            f"Spark's classes cannot be archived while '{confs}', which Spark puts in front of its jars, holds files: "
            "Java archives classes of jars only. Empty it, or set SPARK_CONF_DIR to an empty directory, here and where "
            "you start Spark."
        )


def choose_driver_options(spark_home: Path, environment: Mapping[str, str], setting: Callable[[str, str], str]) -> str:
    """Return the options, for JAVA_OPTIONS_CONF, by which a driver starts from the archive; empty if it cannot.

    Args:
        spark_home: the Spark that is started.
        environment: of the process that starts it.
        setting: returns what the user has set by an option of spark-submit, or the conf that says the same.
    """
    of_user = [
        setting("--driver-java-options", "spark.driver.extraJavaOptions"),
        *(environment.get(name, "") for name in JAVA_OPTION_VARIABLES),
    ]
    if (
        any(option in text for option in _OF_USER for text in of_user)
        or setting("--deploy-mode", "spark.submit.deployMode") == "cluster"  # a driver on another machine
        or setting("--driver-class-path", "spark.driver.extraClassPath")  # stands in front of what was archived
    ):
        return ""
    try:
        archive = SparkClassArchive.of(spark_home, environment)
    except SetupError:
        return ""
    return archive.options() if archive is not None else ""


def _find_java(environment: Mapping[str, str]) -> Path | None:
    """Return the Java that bin/spark-class starts, links resolved."""
    home = environment.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    return Path(found).resolve() if found else None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
