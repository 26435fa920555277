"""The jars of the Java adapter: where they are, and which Spark each of them was compiled for."""

from __future__ import annotations

import zipfile
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

import pyspark_pravega.jvm
from pyspark_pravega.errors import SetupError

CATALOG_CLASS = "io.github.pysparkpravega.PravegaCatalog"
"""The class that `spark.sql.catalog.<name>` names."""


JARS = {
    "4.3": "pyspark-pravega-adapter.jar",
    "4.2": "pyspark-pravega-adapter.jar",
    "4.1": "pyspark-pravega-adapter-4.1.jar",
}
"""The names of the jars, by the version of Spark that they are for."""


def adapter_jar() -> Path:
    """Return the path of the jar for the installed pyspark.

    Raises SetupError when there is none for it, or when it was not built, as in a checkout that was not set up.
    """
    spark = metadata.version("pyspark")
    name = JARS.get(".".join(spark.split(".")[:2]))
    if name is None:
        raise SetupError(f"pyspark-pravega has no adapter for pyspark {spark}. It is for {', '.join(JARS)}.")
    jar = Path(str(pyspark_pravega.jvm.__file__)).parent / name
    if not jar.is_file():
        raise SetupError(
            f"The adapter's jar {jar} is missing. In a source checkout run `make jar` (it takes a JDK); "
            "otherwise install pyspark-pravega again."
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
