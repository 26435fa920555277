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

    Another process can still take a port before its server binds it; the start then fails, and is repeated with other
    ports.
    """
    names = [field.name for field in fields(Ports)]
    chosen: list[int] = []
    # All stay bound until the last one is found, so that no port is found twice.
    with ExitStack() as bound:
        for port in random.SystemRandom().sample(range(_FIRST, _LAST), _TRIES):
            if _bind(port, bound):
                chosen.append(port)
                if len(chosen) == len(names):
                    return Ports(**dict(zip(names, chosen, strict=True)))
    raise SetupError(
        f"found only {len(chosen)} of {len(names)} free TCP ports between {_FIRST} and {_LAST} "
        f"in {_TRIES} tries: stop programs that hold ports there"
    )


def _bind(port: int, bound: ExitStack) -> bool:
    """Bind the port on all interfaces, by IPv4 and, if there is IPv6, by IPv6, until `bound` is closed."""
    families = [(socket.AF_INET, "0.0.0.0")]
    if socket.has_ipv6:
        families.append((socket.AF_INET6, "::"))
    with ExitStack() as stack:
        for family, address in families:
            try:
                listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            except OSError:
                continue  # Python was built with IPv6, the kernel runs without it.
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                listener.bind((address, port))
            except OSError:
                if family == socket.AF_INET6 and not _has_ipv6():
                    continue
                return False
        bound.push(stack.pop_all())
    return True


def _has_ipv6() -> bool:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("::", 0))
        except OSError:
            return False
    return True
