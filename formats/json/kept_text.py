"""Writes the text of a value that has no type of its own: a string, or the JSON value whose text it is.

Such a column reads strings as they are, and other values as their JSON text. So a text may stand for either: '[1]' is
the list where the schema allows lists, and '5' is the string if it allows strings, else the number.
"""

from __future__ import annotations

from typing import Any

from ..core.columns import NumberText
from ..core.framing import Undecodable
from ..core.json_text import json_text
from ..core.scalars import shortened
from .documents import DocumentParser

CONTAINERS = frozenset({"object", "array"})
_PARSER = DocumentParser(exact_numbers=True)


def json_value(text: str | None, types: frozenset[str]) -> bytes | str | None:
    """Return the JSON of the value whose text this is, None for a string; a phrase that refuses it if it is no value.

    `types`: what the schema allows, by its names.
    """
    if text is None:
        return None
    begins_container = text.lstrip(" \t\r\n").startswith(("{", "["))
    if "string" in types and not (begins_container and types & CONTAINERS):
        return None
    try:
        value = _PARSER.document(_PARSER.text(text.encode()))
    except Undecodable:
        value = text  # no JSON: a string, if anything
    if "string" in types and (isinstance(value, str) or not _types(value) & types):
        return None
    if not _types(value) & types:
        allowed = " or ".join(sorted(types - {"null"})) or "nothing"
        return f"'{shortened(text)}', but the JSON schema takes the text of a JSON value there ({allowed})"
    return json_text(value).encode()


def _types(value: Any) -> frozenset[str]:
    """Return the names of a parsed value's type. A number with a point is an integer to some drafts, so it is none."""
    if isinstance(value, str):
        return frozenset({"string"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, NumberText):
        return frozenset({"number"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    return frozenset({"null" if value is None else "object" if isinstance(value, dict) else "array"})
