"""The errors of catalogs of lakes, without any server."""

from __future__ import annotations

import json
import sys

import pytest

from pyspark_pravega.datasource.lake.lake_catalogs import open_catalog
from pyspark_pravega.errors import InvalidOptionError

pytest.importorskip("pyiceberg")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the properties: these may be right. Without a package, pyiceberg has no catalog of their type."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "pyiceberg.catalog.dynamodb", raising=False)
    with pytest.raises(InvalidOptionError, match=r"missing.*boto3.*pip install 'pyiceberg\[dynamodb\]'"):
        open_catalog(json.dumps({"type": "dynamodb", "uri": "http://localhost:1/never-opened"}))
