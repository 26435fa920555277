"""Find the Spark that runs, its version, and the jar of the Java adapter for it."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path

import pyspark_pravega.jvm
from pyspark_pravega.errors import SetupError
from pyspark_pravega.local.java import find_java

CATALOG_CLASS = "io.github.pysparkpravega.PravegaCatalog"
"""The class that `spark.sql.catalog.<name>` names."""
JARS = {
    "4.1": "pyspark-pravega-adapter-4.1.jar",
    "4.2": "pyspark-pravega-adapter.jar",
    "4.3": "pyspark-pravega-adapter.jar",
}
"""The jar for each version of Spark."""


def find_spark_home(environment: Mapping[str, str]) -> Path:
    """Return the Spark of SPARK_HOME, else that of the installed pyspark. Raises SetupError if there is none."""
    home = _choose_home(environment)
    if not (home / "bin" / "spark-submit").is_file():
        named = environment.get("SPARK_HOME")
        raise SetupError(
            f"There is no Spark in {home}: bin/spark-submit is missing. "
            + ("Correct or unset SPARK_HOME." if named else "Install pyspark again.")
        )
    return home


def find_conf_directory(environment: Mapping[str, str], spark_home: Path) -> Path:
    """Return where Spark looks for its files of confs, whether it exists or not."""
    return Path(environment.get("SPARK_CONF_DIR") or spark_home / "conf")


def check_java(environment: Mapping[str, str], spark_home: Path) -> None:
    """Raise SetupError if the Java that Spark's scripts would start is missing or too old."""
    # That file may choose another Java.
    if not (find_conf_directory(environment, spark_home) / "spark-env.sh").exists():
        find_java(environment)


def find_spark_version(environment: Mapping[str, str]) -> str:
    """Return the version of the Spark that runs, as `4.3.0`.

    The driver of a cluster may have PySpark alone, in an archive without Spark's jars; then it is PySpark's version.
    """
    version = read_jar_version(_choose_home(environment))
    if version is not None:
        return version
    import pyspark

    return str(pyspark.__version__)


def read_jar_version(home: Path) -> str | None:
    """Return the version that the jars of a Spark have, or None if it has no jars."""
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    match = re.search(r"-(\d+(?:\.\d+)+)", jars[0].name.partition("_")[2]) if jars else None
    return None if match is None else match[1]


def get_release_line(version: str) -> str:
    """Return the part of a version that releases of one line share: `4.3` of `4.3.0`."""
    return ".".join(version.split(".")[:2])


def find_adapter_jar(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the jar for the Spark that runs: that of SPARK_HOME, else the installed pyspark.

    Raises SetupError when there is none for this Spark, or it was not built, as in a checkout that was not set up.
    """
    environment = os.environ if environment is None else environment
    spark = find_spark_version(environment)
    name = JARS.get(get_release_line(spark))
    if name is None:
        *others, newest = JARS
        major, minor = newest.split(".")
        cure = (
            "Unset SPARK_HOME, or set it to one of these"
            if environment.get("SPARK_HOME")
            else f'Run: {sys.executable} -m pip install "pyspark>={next(iter(JARS))},<{major}.{int(minor) + 1}"'
        )
        raise SetupError(
            f"There is no adapter for Spark {spark}, only for Spark {', '.join(others)} and {newest}. {cure}"
        )
    # In a checkout the folder is a link. Spark resolves links, and would take two paths of one jar for two jars.
    jar = Path(str(pyspark_pravega.jvm.__file__)).resolve().parent / name
    if not jar.is_file():
        raise SetupError(
            f"The adapter's jar {jar} for Spark {spark} is missing. In a source checkout run `make jar` with this "
            "pyspark (it needs a JDK); otherwise install pyspark-pravega again."
        )
    return jar


def read_adapter_manifest() -> dict[str, str]:
    """Return the jar's manifest: `Implementation-Version`, `Spark-Versions` and more."""
    jar = find_adapter_jar()
    try:
        with zipfile.ZipFile(jar) as archive:
            text = archive.read("META-INF/MANIFEST.MF").decode()
    except (KeyError, zipfile.BadZipFile) as error:
        raise SetupError(f"The adapter's jar {jar} is damaged ({error}). Install pyspark-pravega again.") from error
    return dict(HeaderParser().parsestr(text).items())


def _choose_home(environment: Mapping[str, str]) -> Path:
    if named := environment.get("SPARK_HOME"):
        return Path(named)
    import pyspark

    return Path(str(pyspark.__file__)).parent
