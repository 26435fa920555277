"""Have shells and submitted programs log only warnings and errors, unless the user has chosen otherwise.

Spark's own profile logs lines at every start that need no action, and makes `spark-submit` log each step of
a job. `log4j2.properties` next to this module takes its place.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from pyspark_pravega.spark.arguments import JAVA_OPTION_VARIABLES, SparkArguments
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


def make_quiet_logging(arguments: SparkArguments) -> dict[str, str]:
    """Return the environment variable with which Spark's JVM uses our profile.

    It is empty with `--verbose` among Spark's arguments, and where the user has a Log4j configuration: by an option of
    the JVM, by LOG4J_CONFIGURATION_FILE, in Spark's configuration directory, or by structured logging.
    """
    environment = arguments.environment
    ours = f"-Dlog4j2.configurationFile={PROFILE.as_uri()}"
    # Programs that a session of this package has started already have it.
    before = environment.get("SPARK_SUBMIT_OPTS", "").replace(ours, "").strip()
    options = [environment.get(name, "").replace(ours, "") for name in JAVA_OPTION_VARIABLES]
    options += [arguments.find_conf(key) for key in _CONFS]
    options.append(arguments.find_option_value("--driver-java-options"))
    directories = [str(find_conf_directory(environment, arguments.spark_home))]
    directories += arguments.find_option_value("--driver-class-path").split(os.pathsep)
    if (
        arguments.find_switches() & {"--verbose", "-v"}
        or any(_OWN_FILE.search(text) for text in options)
        or "LOG4J_CONFIGURATION_FILE" in environment
        or arguments.find_conf("spark.log.structuredLogging.enabled") == "true"
        or any(any(Path(directory).glob(name)) for directory in filter(None, directories) for name in _OWN_FILES)
    ):
        return {}
    return {"SPARK_SUBMIT_OPTS": f"{before} {ours}".strip()}
