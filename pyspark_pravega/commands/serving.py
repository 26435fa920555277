"""The commands that serve by HTTP until Ctrl-C: `ui` for browsers, `metrics` for Prometheus. Each needs an extra."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import sys
import threading
from collections.abc import Iterable
from functools import partial

import click

from pyspark_pravega.errors import SetupError

from .command_failures import show_errors
from .server_options import add_server_options, collect_settings


def require_extra(extra: str, modules: Iterable[str]) -> None:
    """Raise SetupError if this Python lacks a module of an extra of this package."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise SetupError(
            f"`pyspark-pravega {extra}` needs packages that {sys.executable} does not have: {', '.join(missing)}. "
            f'Run: pip install "pyspark-pravega[{extra}]"'
        )


_RETRY_TIMEOUT = "5s"
"""Somebody waits for a page."""


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9094, show_default=True, help="Port to listen on, 0 for any."
)
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name by which browsers may reach this server."
)
@add_server_options
def ui(
    host: str, port: int, hosts: tuple[str, ...], schema_registry_uri: str | None, controller_uri: str | None
) -> None:
    """Show the catalog in a browser: tables, columns, schemas, rows, segments, versions, consumers.

    The pages change nothing, and show what the login of this command may read. Whoever reaches the port sees them, so
    it listens on this machine only, unless --host says otherwise. Ctrl-C ends it.
    """
    with show_errors():
        require_extra("ui", ("jinja2", "starlette", "uvicorn"))
        from pyspark_pravega.browser.application import make_server
        from pyspark_pravega.catalog import connect
        from pyspark_pravega.doctor.server_checks import check_servers
        from pyspark_pravega.listening import open_socket
        from pyspark_pravega.sql.options import CONTROLLER_URI, resolve

        settings = collect_settings(controller_uri, schema_registry_uri)
        address = resolve(conf=settings, env=os.environ).require(CONTROLLER_URI)
        catalog = connect(
            controller_uri=controller_uri, schema_registry_uri=schema_registry_uri, retry_timeout=_RETRY_TIMEOUT
        )
        with catalog, open_socket(host, port) as listening:
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"http://{shown}:{listening.getsockname()[1]}/ shows {address}. Ctrl-C ends it.")
            if not _is_loopback(host):
                click.echo("Whoever reaches this address reads with the rights of this login.", err=True)
            check = partial(check_servers, settings, os.environ)
            make_server(catalog, controller=str(address), hosts=(*hosts, host), check=check).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9095, show_default=True, help="Port to listen on, 0 for any."
)
@click.option(
    "--interval",
    type=click.IntRange(1, 3600),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="Time from the beginning of a measurement to the next.",
)
@click.option("--scope", "scopes", multiple=True, metavar="NAME", help="Only streams of this scope; may be repeated.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name by which Prometheus may reach it.")
@add_server_options
def metrics(  # noqa: PLR0913  (as many as the command has)
    host: str,
    port: int,
    interval: int,
    scopes: tuple[str, ...],
    hosts: tuple[str, ...],
    schema_registry_uri: str | None,
    controller_uri: str | None,
) -> None:
    """Show metrics to Prometheus: lags of consumers and queries, rates, retention, commits that last.

    Whoever reaches the port reads the names of streams and their numbers, so it listens on this machine only, unless
    --host says otherwise. Ctrl-C ends it.
    """
    with show_errors():
        require_extra("metrics", ("prometheus_client",))
        from pyspark_pravega.catalog.storage.catalogs import Catalog
        from pyspark_pravega.client import connect
        from pyspark_pravega.datasource.connecting import read_client_config, read_first_contact
        from pyspark_pravega.metrics.exporter import Exporter, serve
        from pyspark_pravega.metrics.measurement import measure
        from pyspark_pravega.sql.options import CONTROLLER_URI, resolve

        settings = collect_settings(controller_uri, schema_registry_uri)
        options = resolve(conf=settings, env=os.environ)
        controller = options.require(CONTROLLER_URI)
        with connect(read_client_config(options), first_contact=read_first_contact(options)) as pravega:
            catalog = Catalog(settings, pravega)
            exporter = Exporter(lambda: measure(catalog, scopes))
            server = serve(exporter, host, port, hosts)
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"http://{shown}:{server.server_port}/metrics shows {controller}. Ctrl-C ends it.")
            exporter.refresh_every(interval, threading.Event())
