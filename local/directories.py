"""Directories and files of local clusters, such as certificates: their places, who may read them, and locks on them."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

_NAME = "pyspark-pravega"


def find_cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory of files that can be recreated: `$XDG_CACHE_HOME/pyspark-pravega`, or in ~/.cache."""
    return _find_base("XDG_CACHE_HOME", ".cache", "Library/Caches", environment) / _NAME


def find_jar_directory(environment: Mapping[str, str] | None = None) -> Path:
    return find_cache_directory(environment) / "jars"


def find_default_cluster_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the directory of the cluster that the command line uses without `--dir`."""
    base = _find_base("XDG_STATE_HOME", ".local/state", "Library/Application Support", environment)
    return base / _NAME / "local"


def _find_base(variable: str, fallback: str, mac_fallback: str, environment: Mapping[str, str] | None) -> Path:
    environment = os.environ if environment is None else environment
    value = environment.get(variable, "")
    # The XDG specification requires that a relative path in these variables is ignored.
    if os.path.isabs(value):
        return Path(value)
    return Path.home() / (mac_fallback if sys.platform == "darwin" else fallback)


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 in one step: a reader sees either the old content or the whole new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create_private_directory(path: Path) -> Path:
    """Create a directory with mode 0700, unless it exists, and return it; parents get the usual mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


@contextmanager
def hold_lock(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock file during a `with` block. Waits without limit if another process holds it.

    The file is created but kept: deleting it would let in two holders. `waiting` is called once if another holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


STORE_PASSWORD = "1111_aaaa"
"""The password of both key stores, which the server's ZooKeeper client requires: only the owner can read the files."""

DEFAULT_LIFETIME = timedelta(days=825)


@dataclass(frozen=True)
class Certificates:
    """The certificate files of a cluster; only the owner can read them, except for `ca`."""

    ca: Path
    chain: Path
    key: Path
    key_store: Path
    trust_store: Path
    store_password: Path
