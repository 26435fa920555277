"""The archive of Spark's classes on this machine, with which drivers start in two thirds of the time.

It is recorded once: a session uses what most sessions use, and Java keeps what it loaded. Then drivers start from it,
by options. What an archive is, and when Java uses it, is in `pyspark_pravega.local.class_archive`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error
from pyspark_pravega.local.class_archive import ClassArchive, list_recording_options
from pyspark_pravega.local.directories import find_cache_directory
from pyspark_pravega.spark.arguments import JAVA_OPTIONS_CONF
from pyspark_pravega.spark.home import find_conf_directory

# Spark splits options as a shell does, and Java splits archives at colons.
_PLAIN_PATH = re.compile(r"[\w./+@=-]+")


def find_archive(spark_home: Path, environment: Mapping[str, str]) -> ClassArchive | None:
    """Return the archive for the Spark in `spark_home` and the Java that would run it; None if there is no Java.

    Raises SetupError if the user has no cache, or its path cannot be passed to Java in an option.
    """
    java = _find_java(environment)
    if java is None:
        return None
    parts = [java, java.parent.parent / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))]
    # Java compares a jar's size and time, too, in whole seconds.
    facts = [f"{part} {found.st_size} {int(found.st_mtime)}" for part in parts if (found := _stat(part))]
    try:
        cache = find_cache_directory(environment)
    except RuntimeError as error:  # a user without a home
        raise SetupError(f"There is no cache directory ({error}). Set XDG_CACHE_HOME to one.") from error
    check_path(cache, "XDG_CACHE_HOME")
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


_TIMEOUT_S = 600.0
# Variables that would send the session elsewhere, or let it write to the user's file system and metastore.
_WITHOUT = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE",
    "PYSPARK_GATEWAY_PORT",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "HIVE_CONF_DIR",
)
_OF_PRAVEGA = "pravega_"
"""What the environment's variables for servers and logins begin with. The session asks no server."""


def record(spark_home: Path, environment: Mapping[str, str]) -> ClassArchive:
    """Record the archive for a Spark and the Java that runs it, in about a minute, and return it.

    An existing archive is replaced; programs that start from it meanwhile are not disturbed.

    Raises:
        SetupError: there is no Java, Spark has a directory of confs with files, the session failed, Java wrote no
            archive, or it cannot be kept.
    """
    archive = find_archive(spark_home, environment)
    if archive is None:
        raise SetupError("No Java was found: set JAVA_HOME, or put a Java 17, 21 or 25 on PATH.")
    check_class_path(spark_home, environment)
    try:
        archive.file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pyspark-pravega-classes-") as folder:
            check_path(Path(folder), "TMPDIR")
            recording = Path(folder, "spark.jsa")
            _run(spark_home, environment, folder, recording)
            archive.keep(recording)
    except OSError as error:
        raise SetupError(f"The archive {archive.file} cannot be written: {describe_os_error(error)}") from error
    return archive


def _run(spark_home: Path, environment: Mapping[str, str], folder: str, recording: Path) -> None:
    """Run the session whose classes Java writes to `recording`. Raises SetupError if it or Java fails."""
    given = {
        key: text
        for key, text in environment.items()
        if key not in _WITHOUT and not key.lower().startswith(_OF_PRAVEGA)
    }
    given |= {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": folder}
    options = " ".join(list_recording_options(recording, "error"))
    session = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.class_archive_training", f"{JAVA_OPTIONS_CONF}={options}"],
        env=given,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,  # so that the driver, which it starts, can be ended with it
    )
    with session:
        try:
            shown, _ = session.communicate(timeout=_TIMEOUT_S)
        except BaseException as error:
            os.killpg(session.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise SetupError(
                f"The session that should load Spark's classes has not ended after {_TIMEOUT_S:.0f} s."
            ) from error
    if session.returncode:
        raise SetupError(
            f"The session that should load Spark's classes failed ({session.returncode}): {_shorten_output(shown)}"
        )
    if not recording.exists():
        raise SetupError(f"Java wrote no archive of Spark's classes: {_shorten_output(shown)}")


def _shorten_output(text: str) -> str:
    """Keep the beginning, where Java complains, and the end, where Python does; not the options that Java was given."""
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("Picked up "))
    return text if len(text) <= 2000 else f"{text[:800]} ... {text[-1200:]}"
