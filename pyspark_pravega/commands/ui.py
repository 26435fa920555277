"""The command `pyspark-pravega ui`: show the catalog in a browser."""

from __future__ import annotations

import ipaddress
import os

import click

from pyspark_pravega.errors import PravegaError

from .extras import require_extra

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
@click.option("--schema-registry-uri", metavar="URI", help="Schema registry, e.g. http://host:9092.")
@click.option("--controller-uri", metavar="URI", help="Controller of Pravega, e.g. tcp://host:9090.")
def ui(
    host: str, port: int, hosts: tuple[str, ...], schema_registry_uri: str | None, controller_uri: str | None
) -> None:
    """Show the catalog in a browser: tables, columns, schemas, rows, segments, versions, consumers.

    The pages change nothing, and show what the login of this command may read. Whoever reaches the port sees them, so
    it listens on this machine only, unless --host says otherwise. Ctrl-C ends it.
    """
    try:
        require_extra("ui", ("jinja2", "starlette", "uvicorn"))
        from pyspark_pravega.browser.serving import make_server, open_socket
        from pyspark_pravega.catalog import connect
        from pyspark_pravega.sql.options import CONTROLLER_URI, resolve

        given = {} if controller_uri is None else {CONTROLLER_URI.key: controller_uri}
        address = resolve(conf=given, env=os.environ).require(CONTROLLER_URI)
        catalog = connect(
            controller_uri=controller_uri, schema_registry_uri=schema_registry_uri, retry_timeout=_RETRY_TIMEOUT
        )
        with catalog, open_socket(host, port) as listening:
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"http://{shown}:{listening.getsockname()[1]}/ shows {address}. Ctrl-C ends it.")
            if not _is_loopback(host):
                click.echo("Whoever reaches this address reads with the rights of this login.", err=True)
            make_server(catalog, controller=str(address), hosts=(*hosts, host)).run(sockets=[listening])
    except PravegaError as error:
        raise click.ClickException(error.for_user()) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
