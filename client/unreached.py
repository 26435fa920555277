"""Servers that take no connection: how long they are tried at first, and what a user is told meanwhile."""

from __future__ import annotations

import logging
import socket
import threading
import time

from pyspark_pravega.errors import Unreached

_log = logging.getLogger(__name__)

TOLD_AFTER = 2.0
"""Seconds of tries after which a user is told that a server cannot be reached."""
TOLD_EVERY = 20.0
"""Seconds between two such lines about one server, whoever tries it in this process."""
_LEAST = 2.5
"""Seconds that each call has at least: more than the longest pause of gRPC between two connections."""
_REMEMBERED = 60.0
"""Seconds for which a first contact that failed shortens the later ones."""

_told: dict[str, float] = {}
_lock = threading.Lock()


class FirstContact:
    """Bounds how long a server is tried that has never answered, whose address may be wrong. Thread-safe.

    All calls share the time, so that a command with many of them does not wait for each.
    """

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds` of tries; None: there is no bound but that of each call."""
        self._seconds = seconds
        self._answered = False
        self._since: float | None = None
        self._lock = threading.Lock()

    def answered(self) -> None:
        """Note that the server has answered: from now on it is one that is away for a while."""
        self._answered = True

    def left(self, began: float) -> float:
        """Return how many seconds a call that `began` then (monotonic) may go on; called when a try has failed."""
        if self._seconds is None or self._answered:
            return float("inf")
        now = time.monotonic()
        with self._lock:
            if self._since is None or now - self._since > _REMEMBERED:
                self._since = now
            return max(self._since + self._seconds, began + min(_LEAST, self._seconds)) - now


def tell(unreached: Unreached, left: float) -> None:
    """Log that a server cannot be reached and is tried for `left` seconds more, unless it was told lately."""
    now = time.monotonic()
    with _lock:
        if now - _told.get(unreached.server, float("-inf")) < TOLD_EVERY:
            return
        _told[unreached.server] = now
    _log.warning("cannot reach %s (%s), trying for %.0f s more", unreached.server, unreached.why, left)


def why_unreached(error: OSError) -> str | None:
    """Return in a few words why there was no connection; None for failures of one that there was."""
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    return None
