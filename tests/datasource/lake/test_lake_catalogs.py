"""The errors of catalogs of lakes, without any server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_pravega.datasource.lake.lake_catalogs import errors_of_lake, open_catalog
from pyspark_pravega.errors import InvalidOptionError, LakeError

pytest.importorskip("pyiceberg")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the properties: these may be right. Without a package, pyiceberg has no catalog of their type."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "pyiceberg.catalog.dynamodb", raising=False)
    with pytest.raises(InvalidOptionError, match=r"missing.*boto3.*pip install 'pyiceberg\[dynamodb\]'"):
        open_catalog(json.dumps({"type": "dynamodb", "uri": "http://localhost:1/never-opened"}))


def test_a_text_without_an_upper_bound_is_explained(tmp_path: Path) -> None:
    catalog = open_catalog(
        json.dumps({"type": "sql", "uri": f"sqlite:///{tmp_path}/a", "warehouse": f"file://{tmp_path}"})
    )
    catalog.create_namespace("iot")
    rows = pa.table({"text": ["\ud7ff" * 20]})
    table = catalog.create_table("iot.texts", rows.schema)
    with (
        pytest.raises(LakeError, match=r"U\+D7FF.*write.metadata.metrics.column.<column>"),
        errors_of_lake("iot.texts"),
    ):
        table.append(rows)
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.column.text": "counts"})
    table.append(rows)
    assert table.scan().to_arrow() == rows
