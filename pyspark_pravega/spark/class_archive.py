"""The archive of Spark's classes on this machine, with which drivers start in two thirds of the time.

The first session that finds none leaves a process behind that records one (see `class_archive_recording`). What an
archive is, and when Java uses it, is in `pyspark_pravega.local.server_class_archive`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error
from pyspark_pravega.local.directories import find_cache_directory
from pyspark_pravega.local.java import locate_java
from pyspark_pravega.local.server_class_archive import ClassArchive
from pyspark_pravega.spark.home import find_conf_directory

PLACE = "PYSPARK_PRAVEGA_CLASSES"
"""A variable of the environment: `off`, or a directory in place of the user's cache."""

# Spark splits options as a shell does, and Java splits archives at colons.
_PLAIN_PATH = re.compile(r"[\w./+@=-]+")
PAUSE_S = 20
"""Seconds in which the session that found no archive has started."""
_AGAIN_S = 24 * 3600.0
"""Seconds from an attempt that left no archive to the next one."""


def list_archive_options(spark_home: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the options with which Java starts a driver from the archive.

    There are none without an archive, which is then recorded for later sessions unless something is against it.
    """
    try:
        archive = find_archive(spark_home, environment)
        if not (options := archive.options()):
            check_class_path(spark_home, environment)
            _record_later(archive, spark_home, environment)
        return options
    except (SetupError, OSError, subprocess.SubprocessError):  # such as a cache that cannot be written
        return []


def find_archive(spark_home: Path, environment: Mapping[str, str]) -> ClassArchive:
    """Return the archive for the Spark in `spark_home` and the Java that would run it.

    Raises SetupError if archives are turned off, without Java or a cache, or if Java cannot be passed its path.
    """
    setting = environment.get(PLACE, "").strip()
    if setting.lower() == "off":
        raise SetupError(f"{PLACE} is off.")
    java = locate_java(environment)[0].resolve()
    parts = [java, java.parent.parent / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))]
    # Java compares a jar's size and time, too, in whole seconds.
    facts = [f"{part} {(stat := part.stat()).st_size} {int(stat.st_mtime)}" for part in parts if part.exists()]
    try:
        cache = Path(setting) if setting else find_cache_directory(environment)
    except RuntimeError as error:  # a user without a home
        raise SetupError(f"There is no cache directory ({error}). Set XDG_CACHE_HOME to one.") from error
    check_path(cache, PLACE if setting else "XDG_CACHE_HOME")
    return ClassArchive.locate("spark", facts, cache)


def check_path(path: Path, variable: str) -> None:
    """Raise SetupError if a path, which an environment variable gives, cannot be passed to Java in an option."""
    if not _PLAIN_PATH.fullmatch(str(path)):
        raise SetupError(
            f"The path '{path}' cannot be passed to Spark's Java, whose options may have letters, digits and "
            f"_ . / + @ = - only. Set {variable} to another one."
        )


def check_class_path(spark_home: Path, environment: Mapping[str, str]) -> None:
    """Raise SetupError if Spark has a directory with files in front of its jars: Java archives classes of jars only."""
    confs = find_conf_directory(environment, spark_home)
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


def find_attempt(archive: ClassArchive) -> Path:
    """Return the file in which a process that records an archive says what it does; it goes when that is done."""
    return archive.file.with_suffix(".log")


def _record_later(archive: ClassArchive, spark_home: Path, environment: Mapping[str, str]) -> None:
    """Leave a process behind that records the archive, unless one did so of late. Raises OSError."""
    attempt = find_attempt(archive)
    attempt.parent.mkdir(parents=True, exist_ok=True)
    if attempt.exists() and time.time() - attempt.stat().st_mtime > _AGAIN_S:
        attempt.unlink(missing_ok=True)
    with attempt.open("x") as log:  # fails where another process records
        # A shell in between, so that this process has no child to wait for.
        subprocess.run(
            ["sh", "-c", '"$@" &', "sh", sys.executable, "-m", f"{__package__}.class_archive_recording", str(PAUSE_S)],
            env={**environment, "SPARK_HOME": str(spark_home)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            check=True,
        )
