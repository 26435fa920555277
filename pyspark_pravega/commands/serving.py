"""The commands that serve by HTTP until Ctrl-C: `ui` for browsers, `metrics` for Prometheus. Each needs an extra."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import click

from pyspark_pravega.errors import SetupError

from .server_commands import add_server_options, connect_client

F = TypeVar("F", bound=Callable[..., None])


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


def _add_address_options(port: int) -> Callable[[F], F]:
    """Return a decorator that adds the options of the address on which a command listens."""
    host = click.option(
        "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."
    )
    text = "Port to listen on, 0 for any."
    number = click.option("--port", type=click.IntRange(0, 65535), default=port, show_default=True, help=text)
    return lambda function: host(number(function))


def _show_address(host: str, port: int, path: str, controller: str | None) -> None:
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"http://{shown}:{port}/{path} shows {controller}. Ctrl-C ends it.")


@click.command()
@_add_address_options(9094)
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name by which browsers may reach this server."
)
@add_server_options
def ui(host: str, port: int, hosts: tuple[str, ...], settings: Mapping[str, str]) -> None:
    """Show the catalog in a browser: tables, columns, schemas, rows, segments, versions, consumers.

    The pages change nothing, and show what the login of this command may read. Whoever reaches the port sees them, so
    it listens on this machine only, unless --host says otherwise. Ctrl-C ends it.
    """
    require_extra("ui", ("jinja2", "starlette", "uvicorn"))
    from pyspark_pravega.browser.application import make_application, make_server
    from pyspark_pravega.catalog import connect
    from pyspark_pravega.doctor.server_checks import check_servers
    from pyspark_pravega.listening import open_socket
    from pyspark_pravega.sql.options import CONTROLLER_URI, resolve

    address = resolve(conf=settings, env=os.environ).require(CONTROLLER_URI)
    with connect(**settings, retry_timeout=_RETRY_TIMEOUT) as catalog, open_socket(host, port) as listening:
        _show_address(host, listening.getsockname()[1], "", address)
        if not _is_loopback(host):
            click.echo("Whoever reaches this address reads with the rights of this login.", err=True)
        check = partial(check_servers, settings, os.environ)
        application = make_application(catalog, controller=address, hosts=(*hosts, host), check=check)
        make_server(application).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@click.command()
@_add_address_options(9095)
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
def metrics(
    host: str, port: int, interval: int, scopes: tuple[str, ...], hosts: tuple[str, ...], settings: Mapping[str, str]
) -> None:
    """Show metrics to Prometheus: lags of consumers and queries, rates, retention, commits that last.

    Whoever reaches the port reads the names of streams and their numbers, so it listens on this machine only, unless
    --host says otherwise. Ctrl-C ends it.
    """
    require_extra("metrics", ("prometheus_client",))
    from pyspark_pravega.catalog.storage.catalogs import OF_STATEMENT, Catalog
    from pyspark_pravega.metrics.exporter import Exporter, serve
    from pyspark_pravega.metrics.measurement import measure
    from pyspark_pravega.sql.options import CONTROLLER_URI, resolve

    with connect_client(settings) as pravega:
        catalog = Catalog({**settings, OF_STATEMENT: "true"}, pravega)  # as `connect` has it, for `ui`
        exporter = Exporter(lambda: measure(catalog, scopes))
        server = serve(exporter, host, port, hosts)
        address = resolve(conf=settings, env=os.environ).require(CONTROLLER_URI)
        _show_address(host, server.server_port, "metrics", address)
        exporter.refresh_every(interval, threading.Event())
