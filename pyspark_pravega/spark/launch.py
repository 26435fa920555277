"""Start Spark's own programs with Pravega in them: `pyspark-pravega sql|thriftserver|beeline|pyspark|submit|...`.

A command becomes Spark's program: same process, same signals, same exit code. All arguments are passed on.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from pyspark_pravega.errors import SetupError
from pyspark_pravega.spark.arguments import (
    JAVA_OPTIONS_CONF,
    SparkArguments,
    hide_secrets,
    list_leading_options,
    split_mixed,
)
from pyspark_pravega.spark.catalog_conf import DAEMON_CONF, DAEMON_MODULE, PREFIX, build_catalog_conf
from pyspark_pravega.spark.driver_options import choose_driver_options
from pyspark_pravega.spark.home import check_java, find_adapter_jar, find_spark_home
from pyspark_pravega.spark.logging import make_quiet_logging
from pyspark_pravega.sql.options import ADDRESSES, CONTROLLER_URI, SESSION_CONNECTIONS, resolve


@dataclass(frozen=True)
class Program:
    """One of Spark's programs: its script below `bin`, leading arguments, whether its options mix with Spark's."""

    script: str
    leading: tuple[str, ...] = ()
    mixed: bool = True
    spark: bool = True
    """False: it does not start Spark, and does not accept Spark's arguments."""
    confs: Mapping[str, str] = field(default_factory=dict)
    """Confs that are set unless the user sets them."""
    resource: str = ""
    """The argument between Spark's options and the program's own; empty if Spark accepts them mixed."""


PROGRAMS: Mapping[str, Program] = {
    "sql": Program("spark-sql", confs={"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}),
    "thriftserver": Program(
        "spark-submit",
        ("--class", "io.github.pysparkpravega.thriftserver.BrowsableThriftServer", "--name", "Thrift JDBC/ODBC Server"),
        confs={"spark.sql.thriftServer.catalogMetadata.enabled": "true"},
        # The launcher mixes arguments only for Spark's own classes.
        resource="spark-internal",
    ),
    "connect-server": Program(
        "spark-submit",
        ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--name", "Spark Connect server"),
    ),
    "beeline": Program("beeline", spark=False),
    "pyspark": Program("pyspark", mixed=False),
    "shell": Program("spark-shell", mixed=False),
    "submit": Program("spark-submit", mixed=False),
    "pipelines": Program("spark-pipelines", mixed=False),
    # The script's own program, which starts Spark's driver with the arguments of spark-submit.
    # Whoever runs a script has started the driver, and translated scripts have their catalogs in them.
    "run": Program("spark-submit", confs={SESSION_CONNECTIONS: "true"}),
}


_PRAVEGA_ONLY = ("sql", "pyspark", "thriftserver", "connect-server")
"""Programs whose sessions have no addresses of their own, as a program or a script may have."""


@dataclass(frozen=True)
class Launch:
    """A command line that is ready to run, and additions to the environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)

    def arguments_of(self, name: str) -> SparkArguments:
        """Return the arguments, which are those of the program `name`."""
        spark_home = Path(self.environment["SPARK_HOME"])
        return SparkArguments(self.command[1:], PROGRAMS[name].mixed, os.environ, spark_home)


def check_start(name: str, launch: Launch, catalog: str) -> None:
    """Raise what Spark would find out after half a minute.

    Raises SetupError if there is no Java that Spark can use, InvalidOptionError if no controller is set for a program
    that is of no use without.
    """
    arguments = launch.arguments_of(name)
    check_java(os.environ, arguments.spark_home)
    if name not in _PRAVEGA_ONLY or arguments.find_switches() & {"--help", "-h", "--version", "--usage-error"}:
        return
    if any(f".{CONTROLLER_URI.key}=" in argument for argument in launch.command):
        return
    if arguments.find_conf(SESSION_CONNECTIONS) != "true":
        environment = {**os.environ, **launch.environment}
        resolve(conf=read_catalog_conf(name, launch, catalog), env=environment).require(CONTROLLER_URI)


def read_catalog_conf(name: str, launch: Launch, catalog: str) -> dict[str, str]:
    """Return a catalog's conf: that of the command line, and the addresses of Spark's file of defaults."""
    prefix, arguments = f"{PREFIX}{catalog}.", launch.arguments_of(name)
    addresses = {option.key: arguments.find_conf(prefix + option.key) for option in ADDRESSES}
    settings = {key: setting for key, setting in addresses.items() if setting}
    for option, conf in pairwise(launch.command):
        key, sign, text = conf.partition("=")
        if option == "--conf" and sign and key.startswith(prefix):
            settings[key.removeprefix(prefix)] = text
    return settings


def plan(
    name: str, arguments: Sequence[str], *, catalog: str, settings: Mapping[str, str], environment: Mapping[str, str]
) -> Launch:
    """Plan how to run one of PROGRAMS. Secrets among settings and arguments move to the environment."""
    program = PROGRAMS[name]
    spark_home = find_spark_home(environment)
    script = str(spark_home / "bin" / program.script)
    added = {"SPARK_HOME": str(spark_home)}
    # Spark looks for Python data sources with this interpreter: it must be one that has this package.
    added["PYSPARK_PYTHON"] = environment.get("PYSPARK_PYTHON") or sys.executable
    added["PYSPARK_DRIVER_PYTHON"] = environment.get("PYSPARK_DRIVER_PYTHON") or added["PYSPARK_PYTHON"]
    if not program.spark:
        return Launch((script, *program.leading, *arguments), added)
    conf = build_catalog_conf(catalog, settings, environment)
    passed_on, secrets = hide_secrets(arguments, mixed=program.mixed)
    confs = [part for key, text in conf.conf.items() for part in ("--conf", f"{key}={text}")]
    jar = find_adapter_jar(environment)
    of_user = SparkArguments(passed_on, program.mixed, environment, spark_home)
    with_jar = of_user.add_jar(jar)
    if name in ("thriftserver", "pipelines"):
        with_jar = with_jar.add_driver_class_path(jar)
    java_options = choose_driver_options(spark_home, environment, with_jar.find_setting)
    for key, text in {DAEMON_CONF: DAEMON_MODULE, JAVA_OPTIONS_CONF: java_options, **program.confs}.items():
        if text and not of_user.find_conf(key):
            confs += ["--conf", f"{key}={text}"]
    if name == "pipelines":
        # The program's confs do not reach the Spark Connect server that it starts; these do.
        options = list_leading_options(with_jar.arguments, without=("--remote",))
        added["PYSPARK_SUBMIT_ARGS"] = shlex.join([*confs, *options, "pyspark-shell"])
    added |= {**make_quiet_logging(of_user), **conf.secrets, **secrets}
    if name == "thriftserver" and (memory := environment.get("SPARK_DAEMON_MEMORY")):
        # The launcher uses it only for Spark's own class.
        confs += ["--driver-memory", memory]
    last = with_jar.arguments
    if program.resource:
        of_spark, of_server = split_mixed(last)
        last = [*of_spark, program.resource, *of_server]
    # Later confs win, so the user's own take precedence.
    return Launch((script, *program.leading, *confs, *last), added)


def run(launch: Launch) -> NoReturn:
    """Become the program."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(launch.command[0], launch.command, {**os.environ, **launch.environment})


def check_packages_of_pipelines(environment: Mapping[str, str]) -> None:
    """Raise SetupError if this Python lacks packages of declarative pipelines. Other Pythons are not checked."""
    if "PYSPARK_PYTHON" in environment or "PYSPARK_DRIVER_PYTHON" in environment:
        return
    needed = {"pandas": "pandas", "grpc": "grpcio", "grpc_status": "grpcio-status", "yaml": "pyyaml"}
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise SetupError(
            f"Declarative pipelines need packages that {sys.executable} does not have: {', '.join(missing)}. "
            'Run: pip install "pyspark[connect]" "pandas<3" pyyaml'
        )
