"""The name that a mistyped one was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NEAR = 0.7
"""How alike two names are, from 0 to 1: `senor` and `sensor` are 0.9."""


def nearest(name: str, known: Iterable[str], *, least: float = _NEAR) -> str | None:
    """Return the one of the known names that is nearest to a name, in any case; None if no one is near."""
    by_lower = {each.lower(): each for each in sorted(known)}
    found = difflib.get_close_matches(name.lower(), by_lower, 1, least)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str | None) -> str:
    """Return the question to put behind a message, empty without a name."""
    return "" if name is None else f" Did you mean {name}?"
