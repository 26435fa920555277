"""Serves the pages by HTTP until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Collection

import uvicorn

from pyspark_pravega.catalog import PravegaCatalog
from pyspark_pravega.errors import SetupError, describe_os_error

from .application import PATIENCE, make_application


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 is any free one. Raises SetupError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else "it is not the name of a host"
        raise SetupError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another address or port with --host and --port."
        ) from error


def make_server(
    catalog: PravegaCatalog, *, controller: str, hosts: Collection[str] = (), patience: float = PATIENCE
) -> uvicorn.Server:
    """Make the server of the pages; `run(sockets=[...])` serves them until it is told to exit.

    The other parameters are those of `make_application`.
    """
    application = make_application(catalog, controller=controller, hosts=hosts, patience=patience)
    config = uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, lifespan="off", ws="none"
    )
    return uvicorn.Server(config)
