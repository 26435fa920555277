"""Finds names by a part of them, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PER_PAGE = 50


@dataclass(frozen=True)
class PageOfNames:
    """A page of the names that a search has found. `number` counts from 1."""

    names: Sequence[str]
    found: int
    number: int
    pages: int


def search(names: Sequence[str], text: str, number: int) -> PageOfNames:
    """Return a page of the names that contain a text; the last page if there is no such page."""
    wanted = text.lower()
    found = [name for name in names if wanted in name.lower()]
    pages = max(1, -(-len(found) // PER_PAGE))
    number = min(max(1, number), pages)
    return PageOfNames(found[(number - 1) * PER_PAGE : number * PER_PAGE], len(found), number, pages)
