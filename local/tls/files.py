"""The files of a local cluster's TLS set-up, and what is fixed of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

STORE_PASSWORD = "1111_aaaa"
"""Password of both key stores. Not ours to choose: the standalone server has it built in for its
ZooKeeper client. It protects nothing; the files are readable by their owner only."""

DEFAULT_LIFETIME = timedelta(days=825)


@dataclass(frozen=True)
class Certificates:
    """Files of one cluster's TLS set-up; all but `ca` are readable by their owner only."""

    ca: Path
    chain: Path
    key: Path
    key_store: Path
    trust_store: Path
    store_password: Path
