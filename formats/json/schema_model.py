"""Models a JSON Schema with all references resolved: what the mapping and the reader walk.

Drafts 3 to 2020-12 as far as they say what a value looks like; constraints (minimum, pattern, ...) are
ignored. The official serializer writes draft 3 with references to "id"s such as `urn:jsonschema:Point`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    TimestampType,
)

from pyspark_pravega.errors import InvalidSchemaError

from ..core.schema_texts import LARGEST_SCHEMA, SPARK_MAP, SPARK_METADATA, SPARK_TYPE
from ..core.spark_names import spark_type_named
from ..core.spark_visitor import child_path
from .portable_schema import full_schema
from .spark_to_schema import NUMBERS_TOO, PRIMITIVES, SPARK_CONTAINS_NULL

_SPARK_TYPES: Mapping[str, tuple[type[DataType], ...]] = {
    name: tuple(kind for kind, written in PRIMITIVES.items() if written["type"] == name)
    + (NUMBERS_TOO if name == "number" else ())
    for name in ("boolean", "integer", "number", "string")
}
"""Which "spark.type" may refine which JSON type; others are ignored."""


@dataclass(frozen=True)
class Node:
    nullable: bool = field(default=True, kw_only=True)
    comment: str | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    default: Any = field(default=None, kw_only=True)
    """What a column of ours has where its property is missing, as JSON; defaults of others are remarks."""


@dataclass(frozen=True)
class Scalar(Node):
    type: DataType


@dataclass(frozen=True)
class Anything(Node):
    """A value of no particular type, read as a string: strings as they are, other values as their JSON text."""


@dataclass(frozen=True)
class Array(Node):
    items: Node


@dataclass(frozen=True)
class Map(Node):
    values: Node


@dataclass(frozen=True)
class Object(Node):
    properties: Mapping[str, Node]


def parse_json_schema(text: str) -> Node:
    """Parse a schema text. Raises InvalidSchemaError naming what is wrong, or a reference that leads to itself."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"the JSON schema is not JSON: {error}") from None
    root = full_schema(root)
    if not isinstance(root, (dict, bool)):
        raise InvalidSchemaError("the JSON schema is neither an object nor true or false")
    try:
        return _Parser(root).node(root, "")
    except RecursionError:
        raise InvalidSchemaError("the JSON schema is nested too deeply") from None


class _Parser:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._ids: dict[str, Any] = {}
        self._collect_ids(root)
        self._open: list[str] = []
        self._count = 0

    def _collect_ids(self, value: Any) -> None:
        if isinstance(value, dict):
            for key in ("id", "$id"):
                # A definition, not another mention of it; and not a property that is called "id".
                if isinstance(value.get(key), str) and "$ref" not in value:
                    self._ids.setdefault(value[key], value)
            for each in value.values():
                self._collect_ids(each)
        elif isinstance(value, list):
            for each in value:
                self._collect_ids(each)

    def node(self, value: Any, path: str) -> Node:
        self._count += 1
        if self._count > LARGEST_SCHEMA:
            raise InvalidSchemaError(f"the JSON schema stands for more than {LARGEST_SCHEMA} columns")
        if isinstance(value, bool):
            return Anything()
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"the JSON schema is invalid at '{path}': {value!r} is no schema")
        if isinstance(reference := value.get("$ref"), str):
            return self._referred(reference, path)
        annotations: dict[str, Any] = {}
        if isinstance(value.get("description"), str):
            annotations["comment"] = value["description"]
        if isinstance(value.get(SPARK_METADATA), dict):
            annotations["metadata"] = value[SPARK_METADATA]
        if SPARK_TYPE in value:
            annotations["default"] = value.get("default")
        for key in ("anyOf", "oneOf", "allOf"):
            choices = value.get(key)
            if isinstance(choices, list) and "type" not in value and "properties" not in value:
                return self._choice(choices, path, annotations)
        return self._typed(value, path, annotations)

    def _choice(self, choices: list[Any], path: str, annotations: dict[str, Any]) -> Node:
        rest = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(rest) != 1:
            return Anything(**annotations)
        node = self.node(rest[0], path)
        nullable = node.nullable or len(rest) < len(choices)
        return _replaced(node, nullable=nullable, **annotations)

    def _typed(self, value: dict[str, Any], path: str, annotations: dict[str, Any]) -> Node:
        types = value.get("type")
        names = {types} if isinstance(types, str) else set()
        if isinstance(types, list):
            # Draft 3 allows whole schemas in the list.
            if not all(isinstance(each, str) for each in types):
                return self._choice(types, path, annotations)
            names = set(types)
        choices = value.get("enum")
        if not names:
            if "properties" in value or "additionalProperties" in value:
                names = {"object"}
            elif "items" in value:
                names = {"array"}
            elif isinstance(choices, list) and all(isinstance(each, (str, type(None))) for each in choices):
                names = {"string"}
            else:
                return Anything(**annotations)
        annotations["nullable"] = "null" in names or (isinstance(choices, list) and None in choices)
        names -= {"null"}
        if names == {"integer", "number"}:
            names = {"number"}
        if len(names) != 1:
            return Anything(**annotations | {"nullable": True})
        name = names.pop()
        if name == "object":
            return self._object(value, path, annotations)
        if name == "array":
            entries = _entries(value.get(SPARK_MAP))
            if entries is not None:
                return Scalar(entries, **annotations)
            items = value.get("items", True)
            element = self.node(items if isinstance(items, (dict, bool)) else True, child_path(path, "element"))
            return Array(self._contained(element, value), **annotations)
        own = spark_type_named(value.get(SPARK_TYPE))
        if own is not None and isinstance(own, _SPARK_TYPES.get(name, ())):
            return Scalar(own, **annotations)
        found = _scalar(name, value)
        return Anything(**annotations | {"nullable": True}) if found is None else Scalar(found, **annotations)

    def _object(self, value: dict[str, Any], path: str, annotations: dict[str, Any]) -> Node:
        properties = value.get("properties")
        if not isinstance(properties, dict) or not properties:
            values = value.get("additionalProperties", True)
            node = self.node(values if isinstance(values, dict) else True, child_path(path, "value"))
            return Map(self._contained(node, value), **annotations)
        required = value.get("required")
        required = set(required) if isinstance(required, list) else set()
        members = {}
        for name, each in properties.items():
            node = self.node(each, child_path(path, name))
            # Draft 3 has "required": true in the property itself.
            demanded = name in required or (isinstance(each, dict) and each.get("required") is True)
            members[name] = _replaced(node, nullable=node.nullable or not demanded)
        return Object(members, **annotations)

    def _contained(self, node: Node, container: dict[str, Any]) -> Node:
        # Data often does not keep to its schema here (Java writes nulls into lists of strings), so only a
        # schema of our own can promise that there are no nulls.
        return _replaced(node, nullable=container.get(SPARK_CONTAINS_NULL) is not False)

    def _referred(self, reference: str, path: str) -> Node:
        if reference in self._open:
            raise InvalidSchemaError(
                f"the JSON schema '{reference}' contains itself (at '{path}'); Spark has no recursive types"
            )
        self._open.append(reference)
        try:
            return self.node(self._find(reference, path), path)
        finally:
            self._open.pop()

    def _find(self, reference: str, path: str) -> Any:
        if reference in self._ids:
            return self._ids[reference]
        if reference == "#":
            return self._root
        if reference.startswith("#/"):
            found: Any = self._root
            for part in reference[2:].split("/"):
                key = unquote(part).replace("~1", "/").replace("~0", "~")
                if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                    found = found[int(key)]
                elif isinstance(found, dict) and key in found:
                    found = found[key]
                else:
                    break
            else:
                return found
        raise InvalidSchemaError(f"the JSON schema refers to '{reference}' (at '{path}'), which is not in its text")


def _entries(annotation: Any) -> MapType | None:
    """Return the type of a map whose entries are in a list, if the annotation of one says so."""
    try:
        return MapType.fromJson(annotation)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _scalar(name: str, value: dict[str, Any]) -> DataType | None:
    if name == "boolean":
        return BooleanType()
    if name == "integer":
        return LongType()
    if name == "number":
        return DoubleType()
    if name != "string":
        return None
    if value.get("contentEncoding") == "base64":
        return BinaryType()
    if value.get("format") == "date":
        return DateType()
    if value.get("format") == "date-time":
        return TimestampType()
    return StringType()


def _replaced(node: Node, **changes: Any) -> Node:
    return type(node)(**node.__dict__ | changes)
