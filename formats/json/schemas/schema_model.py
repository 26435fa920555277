"""Models a JSON Schema: the parts that describe one value, and the node that they make with all references resolved.

Parts are the schema itself, `allOf`, the targets of `$ref`. A value has to fit each part. Keywords beside `$ref` are a
part from draft 2019-09 on, and are ignored up to draft 7. Where `$schema` does not name the draft, either may be meant.
Then those keywords are a part that adds columns but guarantees nothing: it makes no column NOT NULL, and its types
count only where no other part names a type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from pyspark.sql.types import DataType

from pyspark_pravega.errors import InvalidSchemaError

from ...core.columns import NumberText
from .schema_references import References

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
ANY = "any"
"""The type in draft 3 that all values have."""


_REMARKS = frozenset(
    {"$ref", "$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default",
     "examples", "deprecated", "readOnly", "writeOnly"}
)  # fmt: skip
"""Keywords next to a reference that say nothing about values."""


class Siblings(Enum):
    """Which keywords beside `$ref` count."""

    NONE = auto()
    ALL = auto()
    UNKNOWN = auto()


class SchemaSource(NamedTuple):
    """A schema, and whether some readers may ignore it."""

    value: Any
    unsure: bool = False


@dataclass(frozen=True)
class SchemaPart:
    """A schema without the parts that its `$ref` and `allOf` add. `or_null`: null fits in any case."""

    value: dict[str, Any]
    unsure: bool
    or_null: bool

    def types(self) -> frozenset[str] | None:
        """Return the types that its "type" names, None if it does not restrict them."""
        types = read_types(self.value.get("type"))
        return types if types is None or not self.or_null else types | {"null"}


@dataclass
class Parts:
    """All parts of one value."""

    found: list[SchemaPart] = field(default_factory=list)
    inside: set[int] = field(default_factory=set)
    """The ids of all visited schemas."""
    ignored: list[dict[str, Any]] = field(default_factory=list)
    """Schemas whose keywords beside `$ref` do not count."""
    recursive: bool = False
    """Whether a part is a schema around this value."""
    never: bool = False
    """Whether a part is `false`, which no value fits."""

    def select(self, *keywords: str) -> list[SchemaPart]:
        """Return the parts with one of these keywords."""
        return [part for part in self.found if any(keyword in part.value for keyword in keywords)]


def find_siblings(root: Any) -> Siblings:
    """Return how the text's `$schema` treats keywords beside `$ref`."""
    draft = str(root.get("$schema", "")) if isinstance(root, dict) else ""
    if any(name in draft for name in ("draft-03", "draft-04", "draft-05", "draft-06", "draft-07")):
        return Siblings.NONE
    return Siblings.ALL if any(name in draft for name in ("2019-09", "2020-12")) else Siblings.UNKNOWN


def read_types(kind: Any) -> frozenset[str] | None:
    """Return the types that a "type" allows, None if it allows all. A number may be an integer."""
    names = {kind} if isinstance(kind, str) else set(kind) if _is_list_of_texts(kind) else set()
    if not names or not names <= TYPES:
        return None
    return frozenset(names | {"integer"} if "number" in names else names)


def _is_list_of_texts(kind: Any) -> bool:
    return isinstance(kind, list) and all(isinstance(name, str) for name in kind)


def list_choices(value: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Return the alternatives in a schema: in `anyOf`, in `oneOf`, and in a "type" of draft 3 that lists schemas."""
    choices = [(key, value[key]) for key in ("anyOf", "oneOf") if isinstance(value.get(key), list)]
    if isinstance(value.get("type"), list) and not _is_list_of_texts(value["type"]):
        choices.append(("type", [{"type": choice} if isinstance(choice, str) else choice for choice in value["type"]]))
    return choices


def drop_null(choices: Sequence[Any]) -> list[Any]:
    """Return the alternatives except null."""
    return [choice for choice in choices if not (isinstance(choice, dict) and choice.get("type") == "null")]


class Splitter:
    """Splits the schemas of one text."""

    def __init__(self, root: Any) -> None:
        self.references = References(root)
        self._siblings = find_siblings(root)
        self._types: dict[int, tuple[Any, frozenset[str]]] = {}
        """By id, with the schema itself: `list_choices` makes temporary schemas, whose ids could be reused."""

    def split(self, sources: Sequence[SchemaSource], path: str, around: frozenset[int]) -> Parts:
        """Return the parts of a value that fits all sources. `around`: ids of the schemas around it.

        Raises InvalidSchemaError for a value that is not a schema, and for a schema that is a part of itself.
        """
        parts = Parts()
        seen: set[tuple[int, bool, bool]] = set()

        def add(value: Any, unsure: bool, or_null: bool, chain: tuple[int, ...]) -> None:
            if isinstance(value, bool):
                parts.never |= not value and not unsure
                return
            if not isinstance(value, dict):
                raise InvalidSchemaError(f"the JSON schema is invalid at '{path}': {value!r} is not a schema")
            if (id(value), unsure, or_null) in seen:
                return
            seen.add((id(value), unsure, or_null))
            chain = (*chain, id(value))
            parts.inside.add(id(value))
            reference = value.get("$ref")
            if not isinstance(reference, str):
                add_keywords(value, unsure, or_null, chain)
                return
            if value.keys() <= _REMARKS:
                pass  # nothing stands beside it
            elif self._siblings is Siblings.NONE:
                parts.ignored.append(value)
            else:
                add_keywords(value, unsure or self._siblings is Siblings.UNKNOWN, or_null, chain)
            add_target(self.references.find(reference, value, path), unsure, or_null, chain, reference)

        def add_target(target: Any, unsure: bool, or_null: bool, chain: tuple[int, ...], reference: str) -> None:
            if id(target) in chain:
                raise InvalidSchemaError(
                    f"the JSON schema '{reference}' is a part of itself (at '{path}'), so no value can be checked "
                    "against it"
                )
            if id(target) in around and self.references.is_recursive(target):
                parts.recursive = True
                return
            add(target, unsure, or_null, chain)

        def add_keywords(value: dict[str, Any], unsure: bool, or_null: bool, chain: tuple[int, ...]) -> None:
            own = SchemaPart(value, unsure, or_null)
            keys = list(value)
            first = "properties" in value and not {"allOf", "extends"} & {*keys[: keys.index("properties")]}
            if first:  # columns in the order of the text
                parts.found.append(own)
            for joined in list_joined_schemas(value):
                add(joined, unsure, or_null, chain)
            for _, choices in list_choices(value):
                rest = drop_null(choices)
                if len(rest) == 1:
                    add(rest[0], unsure, or_null or len(choices) > 1, chain)
            if not first:
                parts.found.append(own)

        for source in sources:
            add(source.value, source.unsure, False, ())
        return parts

    def types(self, value: Any) -> frozenset[str]:
        """Return the types of the values that fit a schema; for a recursive one, those that it does not exclude."""
        if not isinstance(value, dict):
            return TYPES if value is not False else frozenset()
        if id(value) not in self._types:
            self._types[id(value)] = value, TYPES  # for the schemas within it
            self._types[id(value)] = value, self._read_types_of(value)
        return self._types[id(value)][1]

    def _read_types_of(self, value: dict[str, Any]) -> frozenset[str]:
        types = read_types(value.get("type"))
        types = TYPES if types is None else types
        if isinstance(value.get("enum"), list):
            types &= frozenset[str]().union(*map(find_value_types, value["enum"]))
        if "const" in value:
            types &= find_value_types(value["const"])
        for joined in list_joined_schemas(value):
            types &= self.types(joined)
        for _, choices in list_choices(value):
            types &= frozenset[str]().union(*map(self.types, choices))
        if isinstance(reference := value.get("$ref"), str):
            target = self.types(self.references.look_up(reference, value))
            return target if self._siblings is Siblings.NONE or not target & types else target & types
        return types


def list_joined_schemas(value: dict[str, Any]) -> list[Any]:
    """Return the schemas of `allOf`, and of `extends` in draft 3, which may be a single schema."""
    schemas: list[Any] = []
    for key in ("allOf", "extends"):
        inner = value.get(key, [])
        schemas += inner if isinstance(inner, list) else [inner]
    return schemas


def find_value_types(value: Any) -> frozenset[str]:
    """Return the type names of a parsed value. A NumberText, with a point, is no integer, because drafts disagree."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return frozenset({"integer", "number"} if value == value // 1 else {"number"})
    kinds: dict[type, str] = {bool: "boolean", NumberText: "number", str: "string", list: "array", dict: "object"}
    return frozenset({kinds.get(type(value), "null")})


@dataclass(frozen=True)
class Node:
    nullable: bool = field(default=True, kw_only=True)
    """Whether the column is nullable: its value may be null or missing."""
    takes_null: bool = field(default=True, kw_only=True)
    """Whether the schema allows null as the value."""
    comment: str | None = field(default=None, kw_only=True)
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    default: Any = field(default=None, kw_only=True)
    """The value of a missing property, as JSON, in a schema of this project. Defaults of other schemas do not count."""


@dataclass(frozen=True)
class Scalar(Node):
    type: DataType
    foreign: bool = False
    """Whether another program made the schema, so that its numbers are never strings such as "NaN"."""


@dataclass(frozen=True)
class Anything(Node):
    """A value of no particular type, read as a string: strings as they are, other values as their JSON text."""

    types: frozenset[str] = TYPES
    """The types that the schema allows, by their names in JSON Schema."""
    variant: bool = False
    """Whether its column is a VARIANT."""


@dataclass(frozen=True)
class Array(Node):
    items: Node


@dataclass(frozen=True)
class Map(Node):
    values: Node


@dataclass(frozen=True)
class Object(Node):
    properties: Mapping[str, Node]
    required: Set[str] = frozenset()
    """The properties that must be present, whether or not they may be null."""


def find_part(node: Node | None, name: str) -> Node | None:
    """Return the schema of a property, or of the elements of a list or the values of a map; None if there is none."""
    match node:
        case Object():
            return node.properties.get(name)
        case Array():
            return node.items
        case Map():
            return node.values
    return None


@dataclass(frozen=True)
class Schema:
    """A parsed schema text."""

    root: Node
    unread: tuple[str, ...]
    """Sentences about values that no column shows."""
    rules: str | None
    """The first keyword that the columns' types do not guarantee, with its place; None if they guarantee all."""
