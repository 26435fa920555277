"""Recording an archive of Spark's classes: a session uses what most sessions use, and Java keeps what it loaded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local.class_archive import keep

from .archive import JAVA_OPTIONS_CONF, ClassArchive

_TIMEOUT_S = 600.0
# What would send the session elsewhere, or change the class path.
_WITHOUT = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE", "PYSPARK_GATEWAY_PORT", "SPARK_LOCAL_DIRS")


def record(spark_home: Path, environment: Mapping[str, str]) -> ClassArchive:
    """Record the archive for a Spark and the Java that runs it, in about a minute, and return it.

    One that is there is replaced; who starts from it meanwhile is not disturbed.

    Raises:
        SetupError: there is no Java, the session failed, or Java wrote no archive.
    """
    archive = ClassArchive.of(spark_home, environment)
    if archive is None:
        raise SetupError("No Java was found: set JAVA_HOME, or put a Java 17 or 21 on PATH.")
    with tempfile.TemporaryDirectory(prefix="pyspark-pravega-classes-") as folder:
        recording = Path(folder, "spark.jsa")
        given = {key: text for key, text in environment.items() if key not in _WITHOUT}
        given |= {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": folder}
        options = archive.recording_options(recording)
        ended = subprocess.run(
            [sys.executable, "-m", f"{__package__}.training", f"{JAVA_OPTIONS_CONF}={options}"],
            env=given,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if ended.returncode:
            raise SetupError(
                f"The session that should load Spark's classes failed ({ended.returncode}): {ended.stdout[-1500:]}"
            )
        if not recording.exists():
            raise SetupError(
                "Java wrote no archive of Spark's classes. It archives classes of jars only: a directory with files in "
                f"the class path, as SPARK_CONF_DIR ({environment.get('SPARK_CONF_DIR') or 'not set'}) may be, "
                "prevents it."
            )
        keep(recording, archive.file)
    return archive
