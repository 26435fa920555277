"""Tells by its `Host` whether a request was meant for this server.

A page of another site can make its own name lead to this machine, and would then be of the same origin as what this
server shows. Its requests have that name in `Host`; so only addresses and known names may be there.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::\d+)?")
REFUSAL = "This name is not one of this server's. Use its address, or start it with --allow-host NAME.\n"
"""The answer to other requests, with the status 421 (Misdirected Request)."""


class KnownHosts:
    """Addresses, `localhost` and the names that the user allows."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower() for name in names} | {"localhost"}

    def has(self, host: str) -> bool:
        """Return whether a request with this `Host` was meant for this server."""
        if (parts := _HOST.fullmatch(host)) is None:
            return False
        name = parts["address"] or parts["name"]
        if name.lower().rstrip(".") in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
