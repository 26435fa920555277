"""Rules between folders that import-linter cannot say: which parts of Spark a folder may know."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from pyspark_pravega.datasource.kinds.opening import KINDS as TABLE_KINDS
from pyspark_pravega.formats.core.format import FORMATS, REGISTRY_FORMATS

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


EXTRAS = {"browser": "ui", "lake": "lake", "local": "local", "metrics": "metrics"}
"""Folders whose own requirements are an extra."""


def list_modules(requirements: list[str]) -> set[str]:
    names = [re.split(r"[<>=\[ ]", requirement)[0] for requirement in requirements]
    return {MODULES.get(name, name) for name in names}


def test_what_is_imported_is_required_and_the_other_way_round() -> None:
    """What only local clusters, lakes, the web pages and the metrics need are extras."""
    used: dict[str, set[str]] = {}
    for folder in [*(path.resolve() for path in FOLDERS), ROOT / "pyspark_pravega"]:
        for path in folder.rglob("*.py"):
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


KINDS = (ROOT / "datasource" / "kinds", ROOT / "datasource" / "tables")
"""The rooms that say which kind each table is, and what a kind can do."""


def list_modules_outside(*rooms: Path) -> list[Path]:
    """All modules of the product without those of some rooms."""
    folders = [*(path.resolve() for path in FOLDERS), ROOT / "pyspark_pravega"]
    modules = [path for folder in folders for path in folder.rglob("*.py")]
    return [path for path in modules if not any(path.is_relative_to(room) for room in rooms)]


def test_only_the_kinds_ask_what_kind_a_table_is() -> None:
    """Others ask `find_table_kind(table)`, or an open table; datasource/tables says which kind each is."""
    asking = re.compile(r"\bKindName\.[A-Z]+\b|\.kind is\b|\bkind is KindName\b")
    assert [path for path in list_modules_outside(*KINDS) if asking.search(path.read_text())] == []


def test_others_than_kinds_ask_for_no_flags_of_theirs() -> None:
    """What to do about a flag is a method of the kinds. Two modules hand flags on: to the adapter, to CREATE TABLE."""
    flags = re.findall(r"^    (\w+): ClassVar\[bool\]", (KINDS[0] / "kind.py").read_text(), re.M)
    assert len(flags) >= 4
    handed_on = ROOT / "catalog" / "tables" / "description.py", ROOT / "catalog" / "creation" / "declaration.py"
    asking = re.compile(rf"(\bkind|find_\w*kind\w*\([\w.]+\))\.({'|'.join(flags)})\b")
    assert {path for path in list_modules_outside(*KINDS) if asking.search(path.read_text())} == set(handed_on)


def test_what_kinds_are_asked_for_is_what_one_of_them_refuses() -> None:
    """A misspelled statement would be refused by none."""
    asked = {
        statement
        for path in list_modules_outside(KINDS[0])
        for statement in re.findall(r'check_supports\("([^"]+)"', path.read_text())
    }
    assert asked == {statement for kind in TABLE_KINDS.values() for statement in kind.unsupported}


def list_comparisons_with_formats(path: Path) -> list[int]:
    """The lines that compare anything with the name of a format, in SQL's spelling or in the registry's."""
    names = {*FORMATS, *REGISTRY_FORMATS}
    lines = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                parts = side.elts if isinstance(side, (ast.Tuple, ast.Set, ast.List)) else [side]
                if any(isinstance(part, ast.Constant) and part.value in names for part in parts):
                    lines.append(node.lineno)
    return lines


def test_only_formats_and_tables_compare_names_of_formats() -> None:
    """What depends on a format is in formats/, or in the client of the registry, which has names of its own.

    The translator of Flink's SQL compares names of Flink's formats.
    """
    allowed = (ROOT / "formats", ROOT / "client" / "registry", ROOT / "sql" / "flink", *KINDS)
    asking = {
        str(path): lines for path in list_modules_outside(*allowed) if (lines := list_comparisons_with_formats(path))
    }
    assert asking == {}
    assert list_comparisons_with_formats(ROOT / "datasource" / "tables" / "stream_table.py")
