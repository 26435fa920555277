"""Scopes for tests, which are dropped with all that is in them.

Dropping takes a third of the time of tests that use the client alone, mostly by waiting. So it is done while the next
tests run. Two thousand scopes that were left would slow down what looks into all of them, such as `doctor`.
"""

from __future__ import annotations

import base64
import pickle
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream

ROOT = Path(__file__).parent.parent


def _make_scope(config: ClientConfig) -> str:
    """Make a scope of a new name, and return the name."""
    name = f"test-{secrets.token_hex(6)}"
    with connect(config) as pravega:
        pravega.controller.create_scope(name)
    return name


def drop(config: ClientConfig, name: str) -> None:
    """Drop a scope with all streams, tables and schemas in it, if it is still there."""
    with connect(config) as pravega:
        if pravega.controller.scope_exists(name):
            _empty(pravega, name)
            if config.registry_uri is not None:
                registry = pravega.registry(name)
                for group in registry.groups():
                    registry.delete_group(group)
            pravega.controller.delete_scope(name)


def _empty(pravega: Pravega, name: str) -> None:
    for table in pravega.controller.list_key_value_tables(name):
        pravega.controller.delete_key_value_table(name, table)
    for group in (one.removeprefix("_RG") for one in pravega.controller.list_streams(name) if one[:3] == "_RG"):
        if (found := pravega.controller.reader_group(name, group)) is not None:
            pravega.controller.delete_reader_group(found)
    # A stream's internal companion goes with the stream; to drop it by itself takes as long again.
    for internal in (False, True):
        for stream in pravega.controller.list_streams(name):
            if stream.startswith("_") == internal:
                pravega.controller.seal_stream(Stream(name, stream))
                pravega.controller.delete_stream(Stream(name, stream))


@contextmanager
def new_scope(config: ClientConfig) -> Iterator[str]:
    """A new scope for the length of a `with` block."""
    name = _make_scope(config)
    yield name
    drop(config, name)


class Sweeper:
    """Makes scopes, and has them dropped by a process of its own, which no patch of a test reaches."""

    def __init__(self, failures: Path) -> None:
        self._failures = failures
        self._told = 0
        self._process: subprocess.Popen[str] | None = None

    def scope(self, config: ClientConfig) -> Iterator[str]:
        """A new scope, which is dropped some time after the generator goes on."""
        name = _make_scope(config)
        yield name
        if self._process is None:
            command = [sys.executable, "-m", "tests.scopes", str(self._failures)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdin is not None
        self._process.stdin.write(base64.b64encode(pickle.dumps((config, name))).decode() + "\n")
        self._process.stdin.flush()

    def failure(self) -> str | None:
        """Tell of scopes that could not be dropped, once."""
        if not self._failures.exists():
            return None
        with self._failures.open("rb") as file:  # it stays: its process may be about to add to it
            file.seek(self._told)
            text = file.read()
        self._told += len(text)
        return f"a scope of an earlier test could not be dropped: {text.decode()}" if text else None

    def close(self, all: bool) -> None:
        """End the process; what is left is dropped before if `all`. Raises AssertionError for what could not be."""
        if self._process is not None:
            if not all:
                self._process.kill()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        assert (failure := self.failure()) is None, failure


def _sweep(failures: Path) -> None:
    for line in sys.stdin:
        config, name = pickle.loads(base64.b64decode(line))
        try:
            drop(config, name)
        except Exception as error:
            with failures.open("a") as file:
                file.write(f"{name}: {error!r}\n")


if __name__ == "__main__":
    _sweep(Path(sys.argv[1]))
