"""The matrix of types in the documentation is the one in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.type_matrix import insert_matrix

PAGE = Path(__file__).resolve().parents[2] / "docs" / "debezium" / "reference.md"


def test_the_matrix_in_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert insert_matrix(page) == page, "run `make docs/debezium/reference.md`"
    with pytest.raises(ValueError, match="lacks"):
        insert_matrix("a page")
