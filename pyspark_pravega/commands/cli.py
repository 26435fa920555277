"""The command `pyspark-pravega`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from pyspark_pravega import __version__
from pyspark_pravega.errors import PravegaError

from .server_commands import add_server_options

# `-h` alone would take `-hiveconf` for itself.
_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["--help"]}
_ABOUT = {
    "sql": "The SQL shell (spark-sql).",
    "thriftserver": "The JDBC server, in the foreground.",
    "connect-server": "The Spark Connect server, in the foreground.",
    "beeline": "The JDBC shell; all arguments are beeline's.",
    "pyspark": "The Python shell.",
    "shell": "The Scala shell (spark-shell).",
    "submit": "Run a program (spark-submit).",
    "pipelines": "Declarative pipelines (spark-pipelines): `pyspark-pravega pipelines run`.",
}


_ELSEWHERE = {
    "local": "pyspark_pravega.local.command",
    "show": "pyspark_pravega.commands.show",
    "ui": "pyspark_pravega.commands.serving",
    "metrics": "pyspark_pravega.commands.serving",
    "consumers": "pyspark_pravega.commands.consumer_commands",
    "translate": "pyspark_pravega.commands.translate",
}
"""The modules of the commands that are loaded only when needed."""


class _Commands(click.Group):
    """Loads some commands only when needed, keeps the order of definition in the help, and shows errors in a line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        first, *others = _ELSEWHERE
        return [first, *self.commands, *others]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _ELSEWHERE:
            command: click.Command = getattr(import_module(_ELSEWHERE[name]), name)
            return command
        return super().get_command(ctx, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PravegaError as error:
            raise click.ClickException(error.for_user()) from error


class _ProgramCommand(click.Command):
    """Passes arguments on to a program of Spark's, but finds our options anywhere among them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from pyspark_pravega.spark.arguments import take_options
        from pyspark_pravega.spark.launch import PROGRAMS

        options = [option for option in self.params if isinstance(option, click.Option)]
        names = {name for option in options if not option.is_flag for name in option.opts}
        if self.name is None or not PROGRAMS[self.name].spark:
            return super().parse_args(ctx, args)
        ours, rest = take_options(args, names, mixed=PROGRAMS[self.name].mixed)
        # A name without a value can only be at the end: click reports it.
        return super().parse_args(ctx, ours if len(ours) % 2 else [*ours, *rest])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="pyspark-pravega")
def main() -> None:
    """Pravega as a catalog of Spark SQL.

    Servers, logins and lakes come from the environment: PRAVEGA_CONTROLLER_URI, PRAVEGA_SCHEMA_REGISTRY_URI,
    pravega_client_auth_method, pravega_client_auth_token, PRAVEGA_TRUST_STORE, PRAVEGA_LAKE.

    \b
    Examples:
      pyspark-pravega local start
      pyspark-pravega sql --controller-uri tcp://localhost:9090 -e "SHOW NAMESPACES IN pravega"
      pyspark-pravega doctor --controller-uri tcp://localhost:9090
      pyspark-pravega show head iot.sensor
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # the errors say better what it would log


def _add_connection_options(function: Callable[..., None]) -> Callable[..., None]:
    text = "Catalog's name in SQL."
    return click.option("--catalog", metavar="NAME", default="pravega", show_default=True, help=text)(
        add_server_options(function)
    )


def _add_program(name: str) -> None:
    from pyspark_pravega.spark.launch import PROGRAMS

    program = PROGRAMS[name]
    takes_ports = name == "thriftserver"

    def start(
        arguments: tuple[str, ...],
        settings: Mapping[str, str],
        catalog: str = "pravega",
        host: str | None = None,
        port: int | None = None,
    ) -> None:
        from pyspark_pravega.spark.launch import check_packages_of_pipelines, check_start, plan, run

        if name == "pipelines" and "--help" not in arguments:
            check_packages_of_pipelines(os.environ)
        of_hive = {"port": port, "bind.host": host}
        confs = [f"hive.server2.thrift.{key}={text}" for key, text in of_hive.items() if text is not None]
        extra = [part for conf in confs for part in ("--hiveconf", conf)]
        launch = plan(name, [*arguments, *extra], catalog=catalog, settings=settings, environment=os.environ)
        check_start(name, launch, catalog)
        if takes_ports:
            _check_port(arguments, host, port)
        uri = settings.get("controller-uri") or os.environ.get("PRAVEGA_CONTROLLER_URI")
        if program.spark and not uri and ".controller-uri=" not in " ".join(arguments):
            click.echo(
                f"The catalog '{catalog}' has no controller yet: set PRAVEGA_CONTROLLER_URI or give --controller-uri "
                "(`pyspark-pravega local start` runs one here).",
                err=True,
            )
        run(launch)

    command: Callable[..., Any] = start
    if takes_ports:
        command = click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for any.")(command)
        command = click.option("--host", help="Address to listen on.")(command)
    command = _add_connection_options(command) if program.spark else partial(command, settings={})
    command = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)(command)
    about = _ABOUT[name]
    if program.spark:
        about += f"\n\nAll arguments but the options below go to {program.script}, unchanged."
        about += " With Spark's --verbose it logs all that Spark logs by default."
    main.command(name, cls=_ProgramCommand, context_settings=_PASS_ON, help=about, add_help_option=program.spark)(
        command
    )


def _check_port(arguments: tuple[str, ...], host: str | None, port: int | None) -> None:
    """Raise SetupError if the Thrift server could not listen. Settings of Hive's own are left to Hive."""
    from pyspark_pravega.listening import open_socket

    if {"--help", "-h", "--version"} & set(arguments) or "hive.server2." in " ".join(arguments):
        return
    of_hive = os.environ.get("HIVE_SERVER2_THRIFT_PORT", "") or "10000"
    if port is not None or of_hive.isdecimal():
        open_socket(host or "0.0.0.0", int(of_hive) if port is None else port).close()


for _name in _ABOUT:
    _add_program(_name)


@main.command(cls=_ProgramCommand, context_settings=_PASS_ON)
@_add_connection_options
@click.option("--check", is_flag=True, help="Look for wrong syntax, wrong settings and missing tables; run nothing.")
@click.option(
    "--from",
    "begin",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    help="Begin with statement N; before it, only settings, USE and what is temporary.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...], catalog: str, settings: Mapping[str, str], check: bool, begin: int) -> None:
    """Run a SQL script; statements that read a STREAM run as streaming queries.

    All arguments but the options below and the script's path go to spark-submit, unchanged. Ctrl-C stops the queries;
    run the script again to continue from there. Other statements are repeated, unless --from leaves them out. Exit
    code: 0 when the script has ended, 1 when a statement or a query failed, 130 and 143 when a signal stopped it.

    \b
    Example:
      pyspark-pravega run --master "local[2]" job.sql
    """
    from pyspark_pravega.script.program import run_script
    from pyspark_pravega.spark.arguments import find_unknown_option, take_program
    from pyspark_pravega.spark.launch import check_start, plan

    options = [param for param in click.get_current_context().command.params if isinstance(param, click.Option)]
    if unknown := find_unknown_option(arguments, [name for option in options for name in option.opts]):
        name, nearest = unknown
        hint = f"Did you mean '{nearest}'?" if nearest else "Valid options are those of --help and of spark-submit."
        raise click.UsageError(f"There is no option '{name}'. {hint}")
    # Click sees only options before all arguments.
    script, rest = take_program([argument for argument in arguments if argument != "--check"])
    if script is None:
        raise click.UsageError("Name the script: pyspark-pravega run script.sql")
    if (second := take_program(rest)[0]) is not None:
        raise click.UsageError(f"Name one script: '{script}' and '{second}' are two.")
    launch = plan("run", rest, catalog=catalog, settings=settings, environment=os.environ)
    check_start("run", launch, catalog)
    sys.exit(run_script(Path(script), launch, catalog=catalog, check=check or "--check" in arguments, begin=begin))


@main.command()
@_add_connection_options
@click.option(
    "--arguments", is_flag=True, help="Print arguments of spark-submit instead of lines for spark-defaults.conf."
)
def conf(catalog: str, settings: dict[str, str], arguments: bool) -> None:
    """Print the confs that make Pravega a catalog of a Spark that you start yourself.

    Add the lines to spark-defaults.conf. They refer to secrets in the environment, and do not contain them.
    """
    from pyspark_pravega.spark.catalog_conf import DAEMON_CONF, DAEMON_MODULE, PREFIX, build_catalog_conf
    from pyspark_pravega.spark.home import find_adapter_jar
    from pyspark_pravega.sql.options import OPTIONS, resolve

    resolve(conf=settings)
    for option in OPTIONS.values():
        if option.env and option.key not in settings and os.environ.get(option.env):
            settings[option.key] = "${env:" + option.env + "}" if option.secret else os.environ[option.env]
    lines = {
        "spark.jars": str(find_adapter_jar()),
        "spark.pyspark.python": sys.executable,
        DAEMON_CONF: DAEMON_MODULE,
        **build_catalog_conf(catalog, settings, os.environ).conf,
    }
    if arguments:
        click.echo(shlex.join(part for key, text in lines.items() for part in ("--conf", f"{key}={text}")))
        return
    width = max(len(key) for key in lines if key.startswith(PREFIX))
    for key, text in lines.items():
        click.echo(f"{key:<{width}}  {text}")


@main.command()
def jar() -> None:
    """Print the path of the jar that Spark needs (spark.jars)."""
    from pyspark_pravega.spark.home import find_adapter_jar

    click.echo(find_adapter_jar())


@main.command()
@_add_connection_options
def doctor(catalog: str, settings: Mapping[str, str]) -> None:
    """Check this machine and the connections to both servers, and say how to fix what is wrong."""
    from pyspark_pravega.doctor import examine, summarize

    findings = []
    for finding in examine(settings, os.environ):
        findings.append(finding)
        mark = "FAIL" if not finding.good else "ok  " if finding.sure else "warn"
        click.echo(f"{mark}  {finding.subject}: {finding.text}")
        if finding.advice:
            click.echo(f"      -> {finding.advice}")
    click.echo(summarize(findings))
    sys.exit(0 if all(finding.good for finding in findings) else 1)


if __name__ == "__main__":
    main(prog_name="pyspark-pravega")
