"""Finds free TCP ports for the servers of a cluster."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from dataclasses import dataclass, fields

from pyspark_pravega.errors import SetupError

# Below the ranges from which Linux (32768) and macOS (49152) take the ports of outgoing connections: any connection,
# even of the servers themselves, could take a port inside them before it is bound.
_FIRST, _LAST = 12_000, 32_000
_TRIES = 500


@dataclass(frozen=True)
class Ports:
    """The port of each listener."""

    controller: int
    controller_rest: int
    segment_store: int
    zookeeper: int
    registry: int


def find_free_ports() -> Ports:
    """Return ports that no program listens on now. Raises SetupError if too few are free.

    Another process can still take a port before its server binds it: then the start is repeated with other ports.
    """
    names = [field.name for field in fields(Ports)]
    chosen: list[int] = []
    # All stay bound until the last one is found, so that no port is found twice.
    with ExitStack() as bound:
        for port in random.SystemRandom().sample(range(_FIRST, _LAST), _TRIES):
            listener = bound.enter_context(_open_socket())
            try:
                listener.bind(("", port))
            except OSError:
                continue
            chosen.append(port)
            if len(chosen) == len(names):
                return Ports(**dict(zip(names, chosen, strict=True)))
    raise SetupError(
        f"found only {len(chosen)} of {len(names)} free TCP ports between {_FIRST} and {_LAST} "
        f"in {_TRIES} tries: stop programs that hold ports there"
    )


def _open_socket() -> socket.socket:
    """Return a socket that is bound on all interfaces by IPv4 and, if there is IPv6, by IPv6 at once."""
    if not socket.has_dualstack_ipv6():
        return socket.socket(socket.AF_INET)
    listener = socket.socket(socket.AF_INET6)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return listener
