"""The certificate files of a local cluster, and their fixed password and lifetime."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

STORE_PASSWORD = "1111_aaaa"
"""The password of both key stores, which the standalone server's ZooKeeper client requires. It protects nothing: only
the owner can read the files."""

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
