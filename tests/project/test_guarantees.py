"""The documents name only tests that exist, and every page of a format names some."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED = sorted({found for page in PAGES for found in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())})


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_named_test_exists(file: str, function: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"def {function}\(" if function else r"def test_", text)


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "formats"], ids=lambda page: page.stem)
def test_a_page_of_a_format_names_its_tests(page: Path) -> None:
    assert re.search(r"`tests/[\w/]+\.py", page.read_text())


def test_promises_are_named() -> None:
    assert len(NAMED) > 100
