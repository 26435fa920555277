"""The documents: what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from pyspark_pravega.commands.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")})
MAP = ROOT / "docs" / "README.md"


def read_prose(page: Path) -> str:
    """The text of a page without its code, whose brackets are no links."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def find_links(page: Path) -> list[tuple[str, str]]:
    """File (empty: the page itself) and anchor of every link to a file."""
    found = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", read_prose(page))
    return [(file, anchor) for file, anchor in found if file or anchor]


def find_anchors(page: Path) -> set[str]:
    """The names under which GitHub makes the headings of a page reachable."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [file for file, _ in find_links(page) if not (page.parent / file).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_into_a_page_lead_to_a_heading(page: Path) -> None:
    into = [(page.parent / file if file else page, anchor) for file, anchor in find_links(page) if anchor]
    assert [f"{target.name}#{anchor}" for target, anchor in into if anchor not in find_anchors(target)] == []


def test_the_map_leads_to_every_page() -> None:
    listed = {(MAP.parent / file).resolve() for file, _ in find_links(MAP)}
    assert sorted(page for page in PAGES if page.is_relative_to(MAP.parent) and page not in listed | {MAP}) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9/.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^ +|`)make ([a-z0-9/.-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    named = set(re.findall(r"(?:^ *|`|\$\()pyspark-pravega ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named <= set(main.list_commands(click.Context(main)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:[\w-]+/)*\w+\.(?:py|rs|java|proto))\b", page.read_text()))
    dotted = set(re.findall(r"`pyspark_pravega\.((?:[a-z_]+\.)*[a-z_]+)", page.read_text())) - {"formats"}
    known = [file for file in named if (ROOT / file).exists() or (page.parent / file).exists()]
    assert sorted(named - set(known)) == []
    assert [module for module in dotted if not exists(module)] == []


NAMES_OF_OTHERS = {"CALL", "LIMIT", "avg", "i", "pyproject.toml", "toTable"}
"""What the page on the architecture names that is SQL, Spark's, or no name of code."""


def test_names_on_the_page_of_the_architecture_are_defined() -> None:
    page = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / "architecture.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    folders = ("catalog", "client", "datasource", "formats", "jvm", "local", "native", "pyspark_pravega", "sql")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".java")]
    code = {path: path.read_text() for path in sources}
    defined = {name for text in code.values() for name in find_definitions(text)}
    named = set(re.findall(r"`([A-Za-z_][\w.]*)`", page)) - NAMES_OF_OTHERS
    assert [name for name in sorted(named) if not set(name.split(".")) <= defined] == []
    placed = set(re.findall(r"`([\w.]+)` in\s+`([\w/]+\.py)`", page))
    assert [(name, file) for name, file in placed if not set(name.split(".")) <= words_of(code[ROOT / file])] == []


def find_definitions(code: str) -> list[str]:
    """The names that classes, functions, methods, attributes and constants of a module in Python or Java have."""
    python = re.findall(r"\b(?:class|def) (\w+)|^ *(?:self\.)?(\w+)(?:: | = )", code, re.MULTILINE)
    java = re.findall(r"\b(?:record|interface) (\w+)|[\w>\]] (\w+)\(", code)
    return [name for found in python + java for name in found if name]


def words_of(code: str) -> set[str]:
    return set(re.findall(r"\w+", code))


def exists(dotted: str) -> bool:
    """Whether a module, or a name in one, is there; folders at the top are sub-packages of `pyspark_pravega`."""
    path = dotted.replace(".", "/")
    return any((ROOT / place / f"{path}{end}").exists() for place in ("", "pyspark_pravega") for end in ("", ".py"))


def test_the_page_on_streams_as_sources_names_all_their_modules() -> None:
    page = (ROOT / "docs" / "design" / "streaming-source.md").read_text()
    modules = {f"datasource/stream_source/{path.name}" for path in (ROOT / "datasource" / "stream_source").glob("*.py")}
    assert modules - set(re.findall(r"`(datasource/\w+/\w+\.py)`", page)) == {"datasource/stream_source/__init__.py"}
