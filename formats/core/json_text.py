"""Writes parsed JSON values as text again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .columns import NumberText


def json_text(value: Any) -> str:
    """Return the JSON text of a parsed value, compact, with the digits that numbers came with."""
    parts: list[str] = []
    left: list[Any] = [value]  # not by recursion, whose limit is near that of documents
    while left:
        each = left.pop()
        if isinstance(each, _Written | NumberText):
            parts.append(each.text if isinstance(each, _Written) else each.decode())
        elif isinstance(each, dict):
            parts.append("{")
            left.append(_Written("}"))
            for place, (key, member) in reversed(list(enumerate(each.items()))):
                left += [member, _Written(("," if place else "") + json.dumps(key, ensure_ascii=False) + ":")]
        elif isinstance(each, list):
            parts.append("[")
            left.append(_Written("]"))
            for place, member in reversed(list(enumerate(each))):
                left += [member, _Written("," if place else "")]
        else:
            parts.append(json.dumps(each, ensure_ascii=False))
    return "".join(parts)


@dataclass(frozen=True)
class _Written:
    """A text that stands between values."""

    text: str
