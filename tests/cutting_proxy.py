"""A network that can be cut, for tests."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Literal

from pyspark_pravega.client.config import Endpoint


class CuttingProxy:
    """A TCP proxy in front of one server. Each connection in turn is cut after a given number of bytes.

    `limits` holds (bytes to the server, bytes to the client) for the next connections, None for no limit; when it is
    empty, connections live for ever. A cut closes both sides, so that bytes on their way are lost.
    """

    def __init__(self, target: Endpoint, host: str = "localhost") -> None:
        self.target = target
        self.limits: deque[tuple[int | None, int | None]] = deque()
        self.connections = 0
        self.away = threading.Event()
        """While it is set, new connections are closed at once."""
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._mute: set[tuple[socket.socket, socket.socket]] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, 0))
        self.endpoint = Endpoint(host, self._listener.getsockname()[1])
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.away.is_set():
                client.close()
                continue
            try:
                server = socket.create_connection((self.target.host, self.target.port))
            except ConnectionRefusedError:
                client.close()  # as the server does to those who ask it directly
                continue
            pair = (client, server)
            with self._lock:
                self.connections += 1
                self._pairs.add(pair)
                to_server, to_client = self.limits.popleft() if self.limits else (None, None)
            self._start(self._forward, pair, client, server, to_server, self._watch())
            self._start(self._forward, pair, server, client, to_client, no_cut)

    def _watch(self) -> Callable[[bytes], int | None]:
        """Return what says after how many of the next bytes to the server a connection is to be cut."""
        return no_cut

    def _forward(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        target: socket.socket,
        limit: int | None,
        watch: Callable[[bytes], int | None],
    ) -> None:
        left = float("inf") if limit is None else limit
        with contextlib.suppress(OSError):
            while left > 0 and (data := source.recv(int(min(left, 65536)))):
                cut = watch(data)
                if pair not in self._mute:
                    target.sendall(data[:cut])
                if cut is not None:
                    break
                left -= len(data)
        self._cut(pair)

    def _cut(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            self._pairs.discard(pair)
        for side in pair:
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def mute_all(self) -> None:
        """Let nothing more through on every connection there is, and tell nobody."""
        with self._lock:
            self._mute |= self._pairs

    def cut_all(self) -> None:
        """Cut every connection there is."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._cut(pair)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for thread in self._threads:
            thread.join()


def no_cut(_: bytes) -> int | None:
    """Never cut."""
    return None


Moment = Literal["before", "after"]


class CommandProxy(CuttingProxy):
    """A proxy in front of a segment store that also cuts at commands: before they reach it, or before their reply does.

    `cuts` holds what is cut once, by the number of the command; `refused` are commands that never come through.
    """

    def __init__(self, target: Endpoint, host: str = "localhost") -> None:
        self.cuts: dict[int, Moment] = {}
        self.refused: frozenset[int] = frozenset()
        super().__init__(target, host)

    def moment(self, command: int) -> Moment | None:
        """Return when this command is to be cut, if at all."""
        return "before" if command in self.refused else self.cuts.pop(command, None)

    def _watch(self) -> Callable[[bytes], int | None]:
        return _Commands(self).cut


class _Commands:
    """The frames of one connection to a segment store: a command's number, a length, and so many bytes."""

    def __init__(self, proxy: CommandProxy) -> None:
        self._proxy = proxy
        self._header = b""
        self._left = 0
        self._cut_at_end = False

    def cut(self, data: bytes) -> int | None:
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                at += step
            else:
                begin, missing = at, 8 - len(self._header)
                self._header += data[at : at + missing]
                at = min(at + missing, len(data))
                if len(self._header) < 8:
                    return None
                command, self._left = struct.unpack(">ii", self._header)
                self._header = b""
                moment = self._proxy.moment(command)
                if moment == "before":
                    return begin
                self._cut_at_end = moment == "after"
            if self._cut_at_end and not self._left:
                return at
        return None
