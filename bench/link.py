"""Put a link of a limited rate between a session and its servers: a network namespace of Linux, and two interfaces.

Needs root, and the programs `ip` and `tc`. The servers run outside of the namespace, what is measured inside. The rate
counts for what the inside sends, by a token bucket; answers come back without a limit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

OUTSIDE, INSIDE = "10.231.7.1", "10.231.7.2"
"""Addresses of the two ends."""
_LONGEST_WAIT = "50ms"


def describe_lack() -> str | None:
    """Return what this machine lacks for a link, None if it has all."""
    if os.geteuid() != 0:
        return "root's rights"
    return next((f"the program `{program}`" for program in ("ip", "tc") if shutil.which(program) is None), None)


@dataclass(frozen=True)
class Link:
    """A network namespace and the interface by which it reaches this machine."""

    namespace: str
    interface: str

    @property
    def enter(self) -> tuple[str, ...]:
        """Return the beginning of a command that runs inside."""
        return "ip", "netns", "exec", self.namespace

    def limit(self, megabytes: int | None) -> None:
        """Let the inside send at most so many megabytes each second; None: as much as it can."""
        change = (*self.enter, "tc", "qdisc")
        if megabytes is None:
            _run(*change, "del", "dev", self.interface, "root")
            return
        rate, burst = f"{megabytes * 8}mbit", f"{max(64, megabytes * 4)}kb"
        limits = ("rate", rate, "burst", burst, "latency", _LONGEST_WAIT)
        _run(*change, "replace", "dev", self.interface, "root", "tbf", *limits)


@contextmanager
def open_link() -> Iterator[Link]:
    """Yield a link without a limit, and remove it at the end."""
    name = f"pravega-{os.getpid()}"
    link = Link(name, f"in{os.getpid()}"[:15])
    outer = f"out{os.getpid()}"[:15]
    _run("ip", "netns", "add", name)
    try:
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", link.interface, "netns", name)
        _run("ip", "address", "add", f"{OUTSIDE}/30", "dev", outer)
        _run("ip", "link", "set", outer, "up")
        _run("ip", "-n", name, "address", "add", f"{INSIDE}/30", "dev", link.interface)
        _run("ip", "-n", name, "link", "set", link.interface, "up")
        _run("ip", "-n", name, "link", "set", "lo", "up")
        yield link
    finally:
        _run("ip", "netns", "del", name)  # takes both interfaces with it


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
