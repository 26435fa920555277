"""The jar of the Java adapter: where it is, and which Spark it is for."""

from __future__ import annotations

import zipfile
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

import pyspark_pravega.jvm
from pyspark_pravega.errors import SetupError

CATALOG_CLASS = "io.github.pysparkpravega.PravegaCatalog"
"""The class that `spark.sql.catalog.<name>` names."""


VERSIONS = ("4.2", "4.3")
"""The versions of Spark that the jar is for."""


def adapter_jar() -> Path:
    """Return the path of the jar.

    Raises SetupError when it is not for the installed pyspark, or was not built, as in a checkout that was not set up.
    """
    spark = metadata.version("pyspark")
    if ".".join(spark.split(".")[:2]) not in VERSIONS:
        raise SetupError(f"The adapter does not fit pyspark {spark}. It is for Spark {' and '.join(VERSIONS)}.")
    jar = Path(str(pyspark_pravega.jvm.__file__)).parent / "pyspark-pravega-adapter.jar"
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
