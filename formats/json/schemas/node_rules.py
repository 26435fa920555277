"""Notes what a JSON Schema says beyond the types of its columns: values without a column, rules beyond types.

`unread` is for readers: events may have values that no column shows. `first` is for writers: the schema may refuse a
row of the right types, so each document has to be checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.types import DateType, TimestampType

from ...core.spark_visitor import join_path
from . import schema_model as model
from .schema_model import Parts, SchemaPart, Splitter, drop_null, list_choices, list_joined_schemas

_RESTRICTING = frozenset({
    "enum", "const", "not", "if", "disallow",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "divisibleBy",
    "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems", "additionalItems",
    "unevaluatedItems",
    "minProperties", "maxProperties", "propertyNames", "patternProperties", "dependencies", "dependentRequired",
    "dependentSchemas", "unevaluatedProperties",
    "$dynamicRef", "$recursiveRef",
})  # fmt: skip
"""Keywords of any draft that may refuse values of the right type."""

_CHECKED_FORMATS = frozenset(
    {"date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
     "uri-reference", "uri-template", "iri", "iri-reference", "uuid", "json-pointer", "relative-json-pointer", "regex"}
)  # fmt: skip

_NESTED = ("then", "else", "dependentSchemas", "dependencies")
"""Keywords whose schemas apply only to some values."""


class NodeRules:
    """Takes notes while a schema is parsed. `path` is the path of the value as a column."""

    def __init__(self, splitter: Splitter) -> None:
        self.unread: list[str] = []
        self.first: str | None = None
        self._splitter = splitter

    def note_whole(self, parts: Parts, path: str) -> None:
        """Note a value whose parts are not parsed: `false`, or a reference to a schema around it."""
        self._note_rule("false" if parts.never else "$ref", path)

    def note(self, parts: Parts, path: str, node: model.Node) -> None:
        """Note the rules of a value that became a node."""
        if isinstance(node, model.Anything) or (
            isinstance(node, model.Scalar) and not isinstance(node.type, DateType | TimestampType)
        ):
            self._note_formats(parts, path)
        self._note_values(parts, path)
        match node:
            case model.Anything():
                for keyword in ("properties", "required", "additionalProperties", "items"):
                    if parts.select(keyword):
                        self._note_rule(keyword, path)
            case model.Array():
                if any(not isinstance(part.value["items"], dict | bool) for part in parts.select("items")):
                    self._note_rule("items", path)
            case model.Map():
                if any(isinstance(part.value["required"], list) for part in parts.select("required")):
                    self._note_rule("required", path)
                if any(part.value["additionalProperties"] is False for part in parts.select("additionalProperties")):
                    self._note_rule("additionalProperties", path)
            case model.Object():
                self._note_object(parts, path, node)

    def _note_object(self, parts: Parts, path: str, node: model.Object) -> None:
        saying = parts.select("properties", "additionalProperties")
        if len(saying) > 1 and any("additionalProperties" in part.value for part in saying):
            self._note_rule("additionalProperties", path)
        for part in parts.found:
            required = part.value.get("required")
            if isinstance(required, list) and not node.properties.keys() >= {*map(str, required)}:
                self._note_rule("required", path)
            self._note_part_of_object(part, path, node)
        for value in parts.ignored:
            names = _list_names(self._iterate_missing(value, node, "", set(), below=False))
            if names:
                self._note_unread("properties", path, f"those beside $ref are ignored before draft 2019-09: {names}")

    def _note_part_of_object(self, part: SchemaPart, path: str, node: model.Object) -> None:
        value = part.value
        for keyword, schemas in _iterate_alternatives(value):
            if names := _list_names(
                name for schema in schemas for name in self._iterate_missing(schema, node, "", set())
            ):
                self._note_unread(keyword, path, f"there are no columns for {names}")
        patterns = value.get("patternProperties")
        if isinstance(patterns, dict) and patterns:
            names = _list_names(map(repr, patterns))
            self._note_unread("patternProperties", path, f"there are no columns for properties like {names}")
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if isinstance(value.get(keyword), dict) and value[keyword]:
                self._note_unread(keyword, path, "there are no columns for properties that the schema does not name")
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in value:
                self._note_unread(keyword, path, f"what '{value[keyword]}' adds depends on the values")

    def _iterate_missing(
        self, value: Any, node: model.Node, path: str, seen: set[tuple[int, int]], *, below: bool = True
    ) -> Iterator[str]:
        """Iterate over the properties that a schema names and a node lacks; `below`: even those after its `$ref`."""
        if not isinstance(value, dict) or (id(value), id(node)) in seen:
            return
        seen.add((id(value), id(node)))
        inner = [
            *list_joined_schemas(value),
            *(choice for _, schemas in _iterate_alternatives(value) for choice in schemas),
        ]
        if below and isinstance(reference := value.get("$ref"), str):
            target = self._splitter.references.look_up(reference, value)
            if target is None:
                yield f"'{reference}'"
            inner.append(target)
        for _, choices in list_choices(value):
            inner += choices
        for schema in inner:
            yield from self._iterate_missing(schema, node, path, seen)
        properties = value.get("properties")
        if isinstance(node, model.Object) and isinstance(properties, dict):
            for name, inner_schema in properties.items():
                if (member := node.properties.get(name)) is not None:
                    yield from self._iterate_missing(inner_schema, member, join_path(path, name), seen)
                elif inner_schema is not False:
                    yield join_path(path, name)
        elif isinstance(node, model.Array):
            yield from self._iterate_missing(value.get("items"), node.items, join_path(path, "element"), seen)

    def _note_values(self, parts: Parts, path: str) -> None:
        """Note the rules that apply to values of any type."""
        if self.first is not None:
            return
        for part in parts.found:
            for keyword in part.value.keys() & _RESTRICTING:
                self._note_rule(keyword, path)
        if any(part.unsure for part in parts.found):
            self._note_rule("$ref", path)
        for part in parts.found:
            for keyword, choices in list_choices(part.value):
                rest = drop_null(choices)
                if len(rest) != 1 or (
                    keyword == "oneOf" and len(choices) > 1 and "null" in self._splitter.types(rest[0])
                ):
                    self._note_rule(keyword, path)

    def _note_formats(self, parts: Parts, path: str) -> None:
        if any(part.value["format"] in _CHECKED_FORMATS for part in parts.select("format")):
            self._note_rule("format", path)

    def _note_rule(self, keyword: str, path: str) -> None:
        self.first = self.first or f"'{keyword}' at '{path}'"

    def _note_unread(self, keyword: str, path: str, what: str) -> None:
        location = f"at '{path}'" if path else "at the root"
        self.unread.append(f"'{keyword}' {location}: {what}")


def _iterate_alternatives(value: dict[str, Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Iterate over the keywords whose schemas apply only to some values, with these schemas."""
    for keyword, choices in list_choices(value):
        if len(drop_null(choices)) != 1:
            yield keyword, choices
    for keyword in _NESTED:
        inner = value.get(keyword)
        if isinstance(inner, dict):
            yield keyword, [inner] if keyword in ("then", "else") else list(inner.values())


def _list_names(names: Any) -> str:
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:5]) + (f" and {len(unique) - 5} more" if len(unique) > 5 else "")
