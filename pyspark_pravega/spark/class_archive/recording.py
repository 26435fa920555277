"""Record an archive of Spark's classes: a session uses what most sessions use, and Java keeps what it has loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark_pravega.errors import SetupError, describe_os_error
from pyspark_pravega.local.class_archive import keep
from pyspark_pravega.spark.class_archive.archive import (
    JAVA_OPTIONS_CONF,
    SparkClassArchive,
    check_class_path,
    check_path,
)

_TIMEOUT_S = 600.0
# What would send the session elsewhere, or have it write to the user's file system and metastore.
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
"""Prefix of the environment variables for servers and logins. The session needs no server."""


def record(spark_home: Path, environment: Mapping[str, str]) -> SparkClassArchive:
    """Record the archive for a Spark and the Java that runs it, in about a minute, and return it.

    Replaces an existing archive, without disturbing programs that are starting from it.

    Raises:
        SetupError: there is no Java, Spark has a directory of confs with files, the session failed, Java wrote no
            archive, or it cannot be kept.
    """
    archive = SparkClassArchive.of(spark_home, environment)
    if archive is None:
        raise SetupError("No Java was found: set JAVA_HOME, or put a Java 17, 21 or 25 on PATH.")
    check_class_path(spark_home, environment)
    try:
        archive.file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pyspark-pravega-classes-") as folder:
            check_path(Path(folder), "TMPDIR")
            recording = Path(folder, "spark.jsa")
            _run(spark_home, environment, folder, recording)
            keep(recording, archive.file)
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
    options = f"-XX:ArchiveClassesAtExit={recording} -Xlog:cds*=error -Xlog:class+path=off"
    session = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.training", f"{JAVA_OPTIONS_CONF}={options}"],
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
            f"The session that should load Spark's classes failed ({session.returncode}): {_keep_ends(shown)}"
        )
    if not recording.exists():
        raise SetupError(f"Java wrote no archive of Spark's classes: {_keep_ends(shown)}")


def _keep_ends(text: str) -> str:
    """Keep the beginning, where Java complains, and the end, where Python does, without the options given to Java."""
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("Picked up "))
    return text if len(text) <= 2000 else f"{text[:800]} ... {text[-1200:]}"
