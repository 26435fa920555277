"""Listens on an address, or says why that is not possible, and tells by its `Host` whether a request was meant for it.

A page of another site can make its own name lead to this machine, and would then be of the same origin as what this
server shows. Its requests have that name in `Host`; so only addresses and known names may be there.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from .errors import SetupError, describe_os_error

_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::\d+)?")
REFUSAL = "This name is not one of this server's. Use its address, or start it with --allow-host NAME.\n"
"""The answer to other requests, with the status 421 (Misdirected Request)."""


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


def is_known_host(host: str, names: Iterable[str]) -> bool:
    """Return whether a `Host` is an address, `localhost` or one of the names that the user allows."""
    if (parts := _HOST.fullmatch(host)) is None:
        return False
    name = parts["address"] or parts["name"]
    if name.lower().rstrip(".") in {"localhost", *map(str.lower, names)}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
