"""The Spark that runs: where it is, and its version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pyspark_pravega.errors import SetupError


def find_spark_home(environment: Mapping[str, str]) -> Path:
    """Return the Spark that SPARK_HOME names, else the one inside the installed pyspark.

    Raises SetupError when there is none.
    """
    home = _home(environment)
    if not (home / "bin" / "spark-submit").is_file():
        named = environment.get("SPARK_HOME")
        raise SetupError(
            f"There is no Spark in {home}: bin/spark-submit is missing. "
            + ("Correct or unset SPARK_HOME." if named else "Install pyspark again.")
        )
    return home


def spark_version(environment: Mapping[str, str]) -> str:
    """Return the version of the Spark that runs, as `4.3.0`.

    The driver of a cluster may have PySpark alone, in an archive without Spark's jars; then it is PySpark's version.
    """
    found = version_of_jars(_home(environment))
    if found is not None:
        return found
    import pyspark

    return str(pyspark.__version__)


def version_of_jars(home: Path) -> str | None:
    """Return the version that the jars of a Spark have, or None if it has no jars."""
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    found = re.search(r"-(\d+(?:\.\d+)+)", jars[0].name.partition("_")[2]) if jars else None
    return None if found is None else found[1]


def line_of(version: str) -> str:
    """Return what releases of one line share: `4.3` of `4.3.0`."""
    return ".".join(version.split(".")[:2])


def _home(environment: Mapping[str, str]) -> Path:
    if named := environment.get("SPARK_HOME"):
        return Path(named)
    import pyspark

    return Path(str(pyspark.__file__)).parent
