"""`pyspark-pravega local`: starts, stops and describes a Pravega on this machine."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

import click

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.interrupts import undo_on_interrupt

from .cluster import DEFAULT_HEAP, LocalCluster
from .directories import find_default_cluster_directory
from .jars import ivy

_NOT_RUNNING = 3
"""The exit code of `status` and `env` if no cluster runs, which is that of service scripts."""

_directory_option = click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=find_default_cluster_directory,
    show_default="in the user's state directory",
    help="Directory of the cluster; several clusters can run side by side in different ones.",
)


class _Settings(TypedDict):
    """What `LocalCluster.start` gets from the command."""

    tls: bool
    auth: bool
    heap: str
    storage: Path | None
    ivy_settings: Path | None


@click.group()
def local() -> None:
    """Run a real Pravega and schema registry on this machine.

    Data is kept until the servers stop, and then it is gone.
    """


@local.command()
@_directory_option
@click.option("--tls", is_flag=True, help="TLS on all ports, with a certificate authority made for it.")
@click.option("--auth", is_flag=True, help="Users with passwords: admin, writer, reader, nobody.")
@click.option("--heap", default=DEFAULT_HEAP, show_default=True, help="Memory of Pravega's JVM, e.g. 512m, 4g.")
@click.option(
    "--storage",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep data in this directory rather than in memory (still gone at the end); for more than 1 GB.",
)
@click.option("--lake", is_flag=True, help="A directory for lakes of tables (still gone at the end); needs pyiceberg.")
@click.option(
    "--ivy-settings",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    envvar=ivy.SETTINGS_VARIABLE,
    show_envvar=True,
    help="Ivy settings file naming a mirror to fetch the servers from.",
)
def start(directory: Path, lake: bool, **settings: Unpack[_Settings]) -> None:
    """Start the servers and wait until they answer. Servers that run already keep their data."""
    with undo_on_interrupt(), _show_errors():
        cluster = LocalCluster.start(directory, report=_report, **settings)
        if lake:
            cluster.add_lake()
    _describe(cluster)
    option = _format_directory_argument(directory)
    click.echo("Data is kept until the servers stop, and then it is gone.", err=True)
    click.echo(f'For this shell: eval "$(pyspark-pravega local env{option})"', err=True)


@local.command()
@_directory_option
def stop(directory: Path) -> None:
    """Stop the servers; the data in them is gone then."""
    with undo_on_interrupt(), _show_errors():
        cluster = LocalCluster.find(directory)
        if cluster is None:
            click.echo(f"not running in {directory}")
            return
        cluster.stop(report=_report)
    click.echo(f"stopped; logs are in {cluster.logs}")


@local.command()
@_directory_option
@click.pass_context
def status(context: click.Context, directory: Path) -> None:
    """Say whether the servers run, and where (exit code 3 if they do not)."""
    with _show_errors():
        cluster = LocalCluster.find(directory)
    if cluster is None:
        click.echo(f"not running in {directory}")
        context.exit(_NOT_RUNNING)
    alive = cluster.state.alive()
    if not cluster.state.running:
        if cluster.state.ready:
            ended = [name for name in cluster.state.processes if name not in alive]
            click.echo(f"failed: {' and '.join(ended)} ended by itself; see {cluster.logs}")
        else:
            click.echo(f"not ready: being started, or its start was cut short; see {cluster.logs}")
        click.echo(f"pyspark-pravega local stop{_format_directory_argument(directory)} cleans it up")
        context.exit(_NOT_RUNNING)
    _describe(cluster)


@local.command()
@_directory_option
@click.option("--user", default="admin", show_default=True, help="Whose token to print (with --auth).")
def env(directory: Path, user: str) -> None:
    """Print shell lines that point programs at the servers; with users, they contain a user's token."""
    with _show_errors():
        cluster = LocalCluster.find(directory)
    if cluster is None or not cluster.state.running:
        click.echo(f"not running in {directory}: start it with pyspark-pravega local start", err=True)
        raise click.exceptions.Exit(_NOT_RUNNING)
    info = cluster.info
    values = {"PRAVEGA_CONTROLLER_URI": info.controller_uri}
    if info.registry_uri is not None:
        values["PRAVEGA_SCHEMA_REGISTRY_URI"] = info.registry_uri
    if info.ca_file is not None:
        values["PRAVEGA_TRUST_STORE"] = info.ca_file
    if info.users:
        if user not in info.users:
            raise click.ClickException(f"no user {user!r}; there are {', '.join(info.users)}")
        token = base64.b64encode(f"{user}:{info.users[user]}".encode()).decode("ascii")
        # The names that the official Java client reads.
        values["pravega_client_auth_method"] = "Basic"
        values["pravega_client_auth_token"] = token
    if cluster.lake is not None:
        values["PRAVEGA_LAKE"] = json.dumps(cluster.lake)
    for name, value in values.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _report(line: str) -> None:
    click.echo(line, err=True)


def _describe(cluster: LocalCluster) -> None:
    info = cluster.info
    click.echo(f"running in {cluster.directory} since {cluster.state.started_at}")
    click.echo(f"controller       {info.controller_uri}")
    click.echo(f"schema registry  {info.registry_uri}")
    click.echo(f"controller REST  {info.rest_uri}")
    if info.ca_file is not None:
        click.echo(f"trust store      {info.ca_file}")
    if info.users:
        click.echo(f"users            {', '.join(info.users)} (passwords: {cluster.directory / 'state.json'})")
    if cluster.lake is not None:
        click.echo(f"lakes            {cluster.lake['warehouse'].removeprefix('file://')}")
    click.echo(f"logs             {cluster.logs}")


def _format_directory_argument(directory: Path) -> str:
    return "" if directory == find_default_cluster_directory() else f" --dir {shlex.quote(str(directory))}"


@contextmanager
def _show_errors() -> Iterator[None]:
    """Show errors of this package as one message, not as a traceback."""
    try:
        yield
    except PravegaError as error:
        raise click.ClickException(error.for_user()) from error
