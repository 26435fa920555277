"""The documents name only tests that exist, and every page of a format names some."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")])
NAMED = sorted({found for page in PAGES for found in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())})


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_named_test_exists(file: str, function: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"def {function}\(" if function else r"def test_", text)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "formats"], ids=lambda page: page.stem)
def test_a_page_of_a_format_names_its_tests(page: Path) -> None:
    assert re.search(r"`tests/[\w/]+\.py", page.read_text())


SUITES = {"long", "faults", "flink", "pipelines", "dbt", "image", "lineage", "notebook"}


def list_marks(file: str, function: str) -> set[str]:
    """The marks of all cases of a test."""
    marked = []
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            marked.append(ast.unparse(node.value))
        if isinstance(node, ast.FunctionDef) and node.name == function:
            marked += [text for one in node.decorator_list if "parametrize" not in (text := ast.unparse(one))]
    return {mark for text in marked for mark in re.findall(r"pytest\.mark\.(\w+)", text)}


@pytest.mark.parametrize("page", ["docs/guarantees.md", "docs/streaming.md", "SECURITY.md"])
def test_promises_say_which_tests_only_a_longer_suite_runs(page: str) -> None:
    text = (ROOT / page).read_text()
    said, wanted = set(), set()
    for file, function, suite in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`(?: \(`make (\w+)`\))?", text):
        marks = list_marks(file, function)
        said |= {(function, suite)} if suite else set()
        wanted |= set() if "short" in marks else {(function, mark) for mark in marks & SUITES}
    assert said == wanted and (wanted or page == "SECURITY.md")


def test_promises_are_named() -> None:
    assert len(NAMED) > 100


def test_each_promise_of_security_names_its_tests() -> None:
    """Its table of promises ends where the next section begins."""
    section = (ROOT / "SECURITY.md").read_text().partition("### What is promised")[2].partition("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    assert not [row for row in rows if not re.search(r"`tests/[\w/]+\.py", row.rsplit("|", 2)[1])]
