"""Add Pravega to a PySpark session: `configure(SparkSession.builder)`."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from pyspark_pravega.errors import SetupError
from pyspark_pravega.spark.arguments import JAVA_OPTIONS_CONF, add_jar, find_conf, find_jars, find_setting, join_jars
from pyspark_pravega.spark.catalog_conf import DAEMON_CONF, DAEMON_MODULE, PREFIX, CatalogConf, build_catalog_conf
from pyspark_pravega.spark.driver_options import choose_driver_options
from pyspark_pravega.spark.home import check_java, find_adapter_jar, find_spark_home
from pyspark_pravega.spark.logging import make_quiet_logging, silence_query_contexts
from pyspark_pravega.sql.keywords import convert_keywords

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
    if _is_remote(builder):
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
        _log_quietly(builder)
    _apply(builder, conf, hide=not driver_started)
    builder.config("spark.jars", join_jars(_find_jars_so_far(builder, driver_started), find_adapter_jar()))
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
    if not _find_conf_so_far(DAEMON_CONF, builder, driver_started):
        builder.config(DAEMON_CONF, DAEMON_MODULE)


def _choose_java_options(builder: SparkSession.Builder) -> None:
    """Have the driver start with our options of Java, unless the user chose its default ones."""
    if _find_conf_so_far(JAVA_OPTIONS_CONF, builder, False):
        return
    spark_home = find_spark_home(os.environ)

    def read_setting(option: str, conf: str) -> str:
        of_builder = str(builder._options.get(conf, ""))
        return of_builder or find_setting(
            option, conf, _read_submit_arguments(), mixed=False, environment=os.environ, spark_home=spark_home
        )

    if options := choose_driver_options(spark_home, os.environ, read_setting):
        builder.config(JAVA_OPTIONS_CONF, options)


def _log_quietly(builder: SparkSession.Builder) -> None:
    """Have the driver log warnings and errors, unless the user has a Log4j configuration."""
    confs = [part for key, text in builder._options.items() for part in ("--conf", f"{key}={text}")]
    arguments = [*confs, *_read_submit_arguments()]
    os.environ.update(
        make_quiet_logging(arguments, mixed=False, environment=os.environ, spark_home=find_spark_home(os.environ))
    )


def _is_remote(builder: SparkSession.Builder) -> bool:
    return "spark.remote" in builder._options or bool(os.environ.get("SPARK_REMOTE"))


def _find_jars_so_far(builder: SparkSession.Builder, driver_started: bool) -> str:
    """Return the `spark.jars` that ours must join: the builder's, else those of a running or future driver."""
    from pyspark import SparkConf, SparkContext

    if "spark.jars" in builder._options:
        return str(builder._options["spark.jars"])
    if driver_started:
        SparkContext._ensure_initialized()
        return SparkConf().get("spark.jars", "") or ""
    return find_jars(
        _read_submit_arguments(), mixed=False, environment=os.environ, spark_home=find_spark_home(os.environ)
    )


def _find_conf_so_far(key: str, builder: SparkSession.Builder, driver_started: bool) -> str:
    """Return a conf of the builder, else that with which the driver is or will be started; empty if it is not set."""
    from pyspark import SparkConf, SparkContext

    if key in builder._options:
        return str(builder._options[key])
    if driver_started:
        SparkContext._ensure_initialized()
        return SparkConf().get(key, "") or ""
    spark_home = find_spark_home(os.environ)
    return find_conf(key, _read_submit_arguments(), mixed=False, environment=os.environ, spark_home=spark_home)


def _read_submit_arguments() -> list[str]:
    return shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))


def _join_submit_arguments() -> None:
    """Add the jar to a `--jars` in PySpark's own environment variable, which overrides the conf `spark.jars`."""
    if any(argument == "--jars" or argument.startswith("--jars=") for argument in _read_submit_arguments()):
        spark_home = find_spark_home(os.environ)
        os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(
            add_jar(
                _read_submit_arguments(), find_adapter_jar(), mixed=False, environment=os.environ, spark_home=spark_home
            )
        )
