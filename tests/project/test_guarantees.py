"""docs/guarantees.md names only tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "guarantees.md").read_text())))


@pytest.mark.parametrize(("file", "function"), NAMED)
def test_a_named_test_exists(file: str, function: str) -> None:
    text = (ROOT / file).read_text()
    assert f"def {function or 'test_'}" in text


def test_promises_are_named() -> None:
    assert len(NAMED) > 10
