"""The socket over which Spark sends tasks to this worker, and their rows.

Spark sends small pieces, each of which waits until the one before it is acknowledged. Linux delays that by 40 ms on a
connection on which answers were sent, unless quick acknowledgements are set, which lasts for some pieces only.
"""

from __future__ import annotations

import socket
import sys

_LINUX_TCP: list[socket.socket] = []


def answer_at_once(sock: socket.socket) -> None:
    """Keep both sides from waiting for acknowledgements while a task begins."""
    _LINUX_TCP.clear()
    if sys.platform == "linux" and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _LINUX_TCP.append(sock)
        acknowledge()


def acknowledge() -> None:
    """Acknowledge what has come, so that Spark sends the next piece."""
    for sock in _LINUX_TCP:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
