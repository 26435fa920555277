"""The table of features by version of Spark is that of the results, and names test modules that there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark_versions import FEATURES, RESULTS, TESTS, with_features

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-versions.md"


def test_the_table_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert with_features(page) == page, "run `make docs/spark-versions.md`"


def test_every_module_of_a_feature_is_there() -> None:
    assert [path for paths in FEATURES.values() for path in paths if not (TESTS / path).is_file()] == []


@pytest.mark.parametrize("name", [path.name for path in RESULTS.glob("*.json")])
def test_nothing_failed(name: str) -> None:
    results = json.loads((RESULTS / name).read_text())
    assert [feature for feature, counts in results["features"].items() if "failed" in counts] == []
