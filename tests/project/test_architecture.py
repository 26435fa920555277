"""Rules between folders that import-linter cannot say: which parts of Spark a folder may know."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The types of columns, their mapping to Arrow and the form of their values, but never a session.
ALLOWED = ("pyspark.sql.types", "pyspark.sql.pandas.types", "pyspark.sql.variant_utils")


def list_imports(path: Path) -> set[str]:
    """The modules that are imported by their full names."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", sorted((ROOT / "formats").rglob("*.py")), ids=lambda path: path.name)
def test_formats_know_types_of_spark_only(path: Path) -> None:
    spark = {name for name in list_imports(path) if name.split(".")[0] in ("pyspark", "py4j")}
    assert spark <= set(ALLOWED)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS = [path for path in (ROOT / "pyspark_pravega").iterdir() if path.is_symlink()]
MODULES = {
    "grpcio": "grpc",
    "jsonschema-rs": "jsonschema_rs",
    "prometheus-client": "prometheus_client",
    "protobuf": "google",
}
"""The modules of distributions that are named otherwise."""


EXTRAS = {"browser": "ui", "local": "local", "metrics": "metrics"}
"""Folders whose own requirements are an extra."""


def list_modules(requirements: list[str]) -> set[str]:
    names = [re.split(r"[<>=\[ ]", requirement)[0] for requirement in requirements]
    return {MODULES.get(name, name) for name in names}


def test_what_is_imported_is_required_and_the_other_way_round() -> None:
    """What only local clusters, the web pages and the metrics need are extras."""
    used: dict[str, set[str]] = {}
    for folder in [*(path.resolve() for path in FOLDERS), ROOT / "pyspark_pravega"]:
        for path in folder.rglob("*.py"):
            if path.name != "generate.py":  # a tool, with requirements of its own
                roots = {name.split(".")[0] for name in list_imports(path) if not name.startswith("__")}
                used.setdefault(EXTRAS.get(path.parent.name, folder.name), set()).update(roots)
    known = set(sys.stdlib_module_names) | {"pyspark_pravega", "py4j"}  # py4j is a part of pyspark
    everywhere = set().union(*(names for folder, names in used.items() if folder not in EXTRAS.values())) - known
    assert everywhere == list_modules(PROJECT["project"]["dependencies"])
    for extra in EXTRAS.values():
        only_there = used[extra] - known - everywhere
        assert only_there == list_modules(PROJECT["project"]["optional-dependencies"][extra])


@pytest.mark.parametrize("path", sorted((ROOT / "jvm").rglob("*.java")), ids=lambda path: path.name)
def test_files_of_java_stay_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_only_the_kinds_ask_what_kind_a_table_is() -> None:
    """Others ask `find_table_kind(table)`, or an open table; datasource/tables says which kind each is."""
    asking = re.compile(r"\bKindName\.[A-Z]+\b|\.kind is\b|\bkind is KindName\b")
    folders = [path.resolve() for path in FOLDERS]
    allowed = (ROOT / "datasource" / "kinds", ROOT / "datasource" / "tables")
    found = [
        str(path.relative_to(ROOT))
        for folder in [*folders, ROOT / "pyspark_pravega"]
        for path in folder.rglob("*.py")
        if not any(path.is_relative_to(place) for place in allowed) and asking.search(path.read_text())
    ]
    assert found == []
