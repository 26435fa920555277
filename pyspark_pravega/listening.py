"""Listens on an address, or says in one sentence why that is not possible."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import SetupError, describe_os_error


@contextmanager
def name_address(host: str, port: int) -> Iterator[None]:
    """Raise SetupError with the address and the reason where the work within cannot listen on it."""
    try:
        yield
    except (OSError, UnicodeError) as error:
        reason = describe_os_error(error) if isinstance(error, OSError) else "it is not the name of a host"
        reason = reason.partition(" (while")[0]  # Python names the address as well
        raise SetupError(
            f"Cannot listen on {host} port {port}: {reason}. Choose another address or port with --host and --port."
        ) from error


def open_socket(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 is any free one. Raises SetupError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with name_address(host, port):
        return socket.create_server((host, port), family=family)
