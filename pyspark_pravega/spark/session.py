"""Add Pravega to a PySpark session: `configure(SparkSession.builder)`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark_pravega.errors import SetupError
from pyspark_pravega.spark.arguments import JAVA_OPTIONS_CONF, SparkArguments, join_jars
from pyspark_pravega.spark.catalog_conf import DAEMON_CONF, DAEMON_MODULE, PREFIX, CatalogConf, build_catalog_conf
from pyspark_pravega.spark.driver_options import choose_driver_options
from pyspark_pravega.spark.home import check_java, find_adapter_jar, find_spark_home
from pyspark_pravega.spark.logging import make_quiet_logging, silence_query_contexts
from pyspark_pravega.sql.options import convert_keywords

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["configure"]


def configure(
    builder: SparkSession.Builder, *, catalog: str = "pravega", **options: str | int | bool | None
) -> SparkSession.Builder:
    """Add a Pravega catalog to a session that is about to be built.

    Call it once for each catalog, before `getOrCreate()`. It puts secrets into the environment of this process, which
    the driver inherits, because PySpark passes confs on a command line.

    `builder`: the builder of the session. `catalog`: the name of the catalog in SQL. `**options`: the options of
    docs/options.md that catalog conf can have, with `_` for `-` and `.`: `controller_uri`, `schema_registry_uri`.
    Options that are missing come from the environment (`PRAVEGA_CONTROLLER_URI`, ...).

    Raises InvalidOptionError if there is no such option, or its value is wrong; InvalidNameError if no catalog can have
    the name `catalog`; SetupError if the adapter's jar is missing, or Spark's Java is missing or too old, or a session
    without the adapter runs.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from pyspark_pravega import configure
    >>> spark = configure(SparkSession.builder, controller_uri="tcp://localhost:9090").getOrCreate()
    >>> spark.sql("SHOW NAMESPACES IN pravega").show()
    """
    from pyspark import SparkContext

    silence_query_contexts()
    conf = build_catalog_conf(catalog, convert_keywords(options), os.environ)
    running = SparkContext._active_spark_context
    if "spark.remote" in builder._options or os.environ.get("SPARK_REMOTE"):
        _apply(builder, conf, hide=False)  # the jar and the interpreter are the server's business
        return builder
    if running is not None and find_adapter_jar().name not in (running.getConf().get("spark.jars") or ""):
        raise SetupError(
            "A Spark session already runs without the Pravega adapter, and its class path cannot be changed. "
            "Call configure() before the first getOrCreate(), stop that session, or start this program by "
            "`pyspark-pravega submit`."
        )
    driver_started = SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    if not driver_started:
        check_java(os.environ, find_spark_home(os.environ))
        _join_submit_arguments()
        _choose_java_options(builder)
        # The driver logs warnings and errors, unless the user has a Log4j configuration.
        confs = [part for key, text in builder._options.items() for part in ("--conf", f"{key}={text}")]
        os.environ.update(make_quiet_logging(_read_submit_arguments(confs)))
    _apply(builder, conf, hide=not driver_started)
    jars = _find_setting_so_far("--jars", "spark.jars", builder, driver_started)
    builder.config("spark.jars", join_jars(jars, find_adapter_jar()))
    if running is None:
        _choose_pythons(builder, driver_started)
    return builder


def _apply(builder: SparkSession.Builder, conf: CatalogConf, *, hide: bool) -> None:
    if hide:
        os.environ.update(conf.secrets)
    for key, text in conf.conf.items():
        reference = text.removeprefix("${env:").removesuffix("}") if key.startswith(PREFIX) else ""
        builder.config(key, text if hide else conf.secrets.get(reference, text))


def _choose_pythons(builder: SparkSession.Builder, driver_started: bool) -> None:
    """Have this Python run the catalog service and, unless the user chose another, the tasks."""
    if "spark.pyspark.python" not in builder._options:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if sys.executable and "spark.pyspark.driver.python" not in builder._options:
        builder.config("spark.pyspark.driver.python", sys.executable)
    if not _find_setting_so_far("", DAEMON_CONF, builder, driver_started):
        builder.config(DAEMON_CONF, DAEMON_MODULE)


def _choose_java_options(builder: SparkSession.Builder) -> None:
    """Have the driver start with our options of Java, unless the user chose its default ones."""
    read_setting = partial(_find_setting_so_far, builder=builder, driver_started=False)
    if read_setting("", JAVA_OPTIONS_CONF):
        return
    if options := choose_driver_options(find_spark_home(os.environ), os.environ, read_setting):
        builder.config(JAVA_OPTIONS_CONF, options)


def _find_setting_so_far(option: str, conf: str, builder: SparkSession.Builder, driver_started: bool) -> str:
    """Return a conf of the builder, else that with which the driver is or will be started; empty if it is not set.

    `option` is the option of spark-submit that says the same, or empty.
    """
    from pyspark import SparkConf, SparkContext

    if conf in builder._options:
        return str(builder._options[conf])
    if driver_started:
        SparkContext._ensure_initialized()
        return SparkConf().get(conf, "") or ""
    return _read_submit_arguments().find_setting(option, conf)


def _read_submit_arguments(before: Sequence[str] = ()) -> SparkArguments:
    """Return the arguments in PySpark's own environment variable, after others."""
    arguments = [*before, *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))]
    return SparkArguments(arguments, mixed=False, environment=os.environ, spark_home=find_spark_home(os.environ))


def _join_submit_arguments() -> None:
    """Add the jar to a `--jars` in PySpark's own environment variable, which overrides the conf `spark.jars`."""
    submitted = _read_submit_arguments()
    if submitted.find_option_value("--jars"):
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(submitted.add_jar(find_adapter_jar()).arguments)
