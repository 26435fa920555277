"""Rules between folders that import-linter cannot say: which parts of Spark a folder may know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The types of columns and their mapping to Arrow, but never a session.
ALLOWED = ("pyspark.sql.types", "pyspark.sql.pandas.types")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", sorted((ROOT / "formats").rglob("*.py")), ids=lambda path: path.name)
def test_formats_know_types_of_spark_only(path: Path) -> None:
    spark = {name for name in imported(path) if name.split(".")[0] in ("pyspark", "py4j")}
    assert spark <= set(ALLOWED)


@pytest.mark.parametrize("path", sorted((ROOT / "jvm" / "src").rglob("*.java")), ids=lambda path: path.name)
def test_the_adapter_stays_thin(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400
