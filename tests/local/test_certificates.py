"""Certificates of a local cluster, and what is said where they cannot be made."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from pyspark_pravega.errors import SetupError
from pyspark_pravega.local import certificates
from pyspark_pravega.local.cluster import LocalCluster


def test_files_are_their_owners(tmp_path: Path) -> None:
    files = certificates.create_certificates(tmp_path)
    secret = {files.chain, files.key, files.key_store, files.trust_store, files.store_password}
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert files.ca.read_text().startswith("-----BEGIN CERTIFICATE-----")


def test_without_the_extra_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark_pravega.local.certificate_authority", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(SetupError, match=r"'cryptography', which is not installed.* pip install '\.\[local\]'"):
        LocalCluster.start(tmp_path / "cluster", tls=True)
    assert LocalCluster.find(tmp_path / "cluster") is None
