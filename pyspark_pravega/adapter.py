"""The jars of the Java adapter: where they are, and which Spark each is for."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path

import pyspark_pravega.jvm
from pyspark_pravega.errors import SetupError
from pyspark_pravega.spark_home import line_of, spark_version

CATALOG_CLASS = "io.github.pysparkpravega.PravegaCatalog"
"""The class that `spark.sql.catalog.<name>` names."""

JARS = {
    "4.1": "pyspark-pravega-adapter-4.1.jar",
    "4.2": "pyspark-pravega-adapter.jar",
    "4.3": "pyspark-pravega-adapter.jar",
}
"""The jar for each version of Spark."""


def adapter_jar(environment: Mapping[str, str] | None = None) -> Path:
    """Return the path of the jar for the Spark that runs: that of SPARK_HOME, else the installed pyspark.

    Raises SetupError when there is none for this Spark, or it was not built, as in a checkout that was not set up.
    """
    spark = spark_version(os.environ if environment is None else environment)
    name = JARS.get(line_of(spark))
    if name is None:
        *others, newest = JARS
        raise SetupError(f"The adapter does not fit Spark {spark}. It is for Spark {', '.join(others)} and {newest}.")
    jar = Path(str(pyspark_pravega.jvm.__file__)).parent / name
    if not jar.is_file():
        raise SetupError(
            f"The adapter's jar {jar} for Spark {spark} is missing. In a source checkout run `make jar` with this "
            "pyspark (it takes a JDK); otherwise install pyspark-pravega again."
        )
    return jar


def adapter_manifest() -> dict[str, str]:
    """Return what the jar says of itself: `Implementation-Version`, `Spark-Versions` and more."""
    jar = adapter_jar()
    try:
        with zipfile.ZipFile(jar) as archive:
            text = archive.read("META-INF/MANIFEST.MF").decode()
    except (KeyError, zipfile.BadZipFile) as error:
        raise SetupError(f"The adapter's jar {jar} is damaged ({error}). Install pyspark-pravega again.") from error
    return dict(HeaderParser().parsestr(text).items())
