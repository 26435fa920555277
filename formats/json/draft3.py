"""Rewrites JSON Schemas of draft 3, as Jackson makes them, in the words of draft 4, where validators begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .schema_references import BY_NAME, DATA, inside


def is_draft3(root: Any) -> bool:
    """Tell whether a schema text uses what only draft 3 has, and nothing that only later drafts have."""
    return any(map(_is_older, _schemas(root))) and not any(map(_is_later, _schemas(root)))


def _is_older(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return (
        isinstance(value.get("required"), bool)
        or any(key in value for key in ("extends", "disallow", "divisibleBy"))
        or kind == "any"
        or (isinstance(kind, list) and any(isinstance(each, dict) or each == "any" for each in kind))
    )


def _is_later(value: dict[str, Any]) -> bool:
    draft = str(value.get("$schema", ""))
    named = "json-schema.org/draft" in draft and "draft-03" not in draft
    return named or "$defs" in value or "dependentSchemas" in value


def _schemas(root: Any) -> Iterator[dict[str, Any]]:
    left = [root]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left += inside(value, DATA)
        elif isinstance(value, list):
            left += value


def as_draft4(value: Any) -> Any:
    """Return a schema of draft 3 as one of draft 4."""
    if not isinstance(value, dict):
        return [as_draft4(each) for each in value] if isinstance(value, list) else value
    found = value | _mapped(as_draft4, _inner(value))
    for key in BY_NAME:
        if inner := _by_name(value, key):
            found[key] = _mapped(as_draft4, inner)
    if isinstance(found.get("required"), bool):
        del found["required"]  # which its object says instead
    properties = _by_name(value, "properties")
    demanded = [name for name, each in properties.items() if isinstance(each, dict) and each.get("required") is True]
    if demanded:
        found["required"] = demanded
    if "dependencies" in found:
        found["dependencies"] = _mapped(lambda each: [each] if isinstance(each, str) else each, found["dependencies"])
    if "divisibleBy" in found:
        found["multipleOf"] = found.pop("divisibleBy")
    extended = found.pop("extends", [])
    if extended:
        found["allOf"] = [*found.get("allOf", []), *(extended if isinstance(extended, list) else [extended])]
    if "disallow" in found:
        found["not"] = {"anyOf": _choices(found.pop("disallow"))}
    if "type" in found and not _is_plain(found["type"]):
        choices = _choices(found.pop("type"))
        if {} not in choices:
            found["anyOf"] = choices
    return found


def _inner(value: dict[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in DATA | BY_NAME}


def _by_name(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _mapped(change: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {key: change(each) for key, each in values.items()}


def _is_plain(kind: Any) -> bool:
    return all(isinstance(each, str) and each != "any" for each in (kind if isinstance(kind, list) else [kind]))


def _choices(kind: Any) -> list[Any]:
    kinds = kind if isinstance(kind, list) else [kind]
    return [{} if each == "any" else {"type": each} if isinstance(each, str) else each for each in kinds]
