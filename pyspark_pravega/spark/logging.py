"""Have shells and submitted programs log only warnings and errors, unless the user has chosen otherwise.

Spark's own profile logs lines at every start that need no action, and makes `spark-submit` log each step of
a job. `log4j2.properties` next to this module takes its place.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES, find_conf, find_option_value, find_switches
from pyspark_pravega.spark.home import find_conf_directory

QUERY_CONTEXTS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers that print each error of a statement again, as a line of JSON with its stack."""

PROFILE = Path(__file__).with_name("log4j2.properties")

_CONFS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_OWN_FILE = re.compile(r"-Dlog4j2?\.configuration(File)?=")
_OWN_FILES = ("log4j2*.properties", "log4j2*.xml", "log4j2*.y*ml", "log4j2*.js*n")


def silence_query_contexts() -> None:
    """Keep PySpark from printing errors that it raises, unless the program already uses those loggers.

    `logging.getLogger("SQLQueryContextLogger").setLevel("ERROR")` brings the lines back.
    """
    from pyspark.logger import PySparkLogger

    for name in QUERY_CONTEXTS:
        if name not in logging.root.manager.loggerDict:
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def make_quiet_logging(
    arguments: Sequence[str], *, mixed: bool, environment: Mapping[str, str], spark_home: Path
) -> dict[str, str]:
    """Return the environment variable with which Spark's JVM uses our profile.

    It is empty with `--verbose` among Spark's arguments, and where the user has a Log4j configuration: by an option of
    the JVM, by LOG4J_CONFIGURATION_FILE, in Spark's configuration directory, or by structured logging.
    """

    def read_conf(key: str) -> str:
        return find_conf(key, arguments, mixed=mixed, environment=environment, spark_home=spark_home)

    ours = f"-Dlog4j2.configurationFile={PROFILE.as_uri()}"
    # Programs that a session of this package has started already have it.
    before = environment.get("SPARK_SUBMIT_OPTS", "").replace(ours, "").strip()
    options = [environment.get(name, "").replace(ours, "") for name in JAVA_OPTION_VARIABLES]
    options += [read_conf(key) for key in _CONFS]
    options.append(find_option_value("--driver-java-options", arguments, mixed=mixed))
    directories = [str(find_conf_directory(environment, spark_home))]
    directories += find_option_value("--driver-class-path", arguments, mixed=mixed).split(os.pathsep)
    if (
        find_switches(arguments, mixed=mixed) & {"--verbose", "-v"}
        or any(_OWN_FILE.search(text) for text in options)
        or "LOG4J_CONFIGURATION_FILE" in environment
        or read_conf("spark.log.structuredLogging.enabled") == "true"
        or any(
            file
            for directory in filter(None, directories)
            for name in _OWN_FILES
            for file in Path(directory).glob(name)
        )
    ):
        return {}
    return {"SPARK_SUBMIT_OPTS": f"{before} {ours}".strip()}
