"""Models an Avro schema with all names resolved, for the mappings and the reader.

Parsed by the rules of the Avro 1.11 specification. Logical types that break their own rules (a decimal
without precision, a timestamp on an int) are ignored, as the specification wants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pyspark.sql.types import TimeType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.spark_types import ROOT_COLUMN, SPARK_TYPE, is_valid_decimal, parse_spark_type

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

_MARKS = "_$"
"""The characters of names besides letters and digits; Java's reflection writes `$` for nested classes."""

_LOGICAL_BASE: Mapping[str, tuple[str, ...]] = {
    "date": ("int",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
}
"""The logical types that are not read as their base type. All others (nanosecond timestamps) are."""

TIMES_OF_DAY: Mapping[str, tuple[str, str]] = {"time-millis": ("int", "ms"), "time-micros": ("long", "us")}
"""The base type and the unit of times of day. They are read as their base type, unless "spark.type" says TIME(p)."""


@dataclass(eq=False)
class Node:
    """A type of any kind. Compared by identity, because records may contain themselves."""

    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False, kw_only=True)
    logical: str | None = field(default=None, kw_only=True)
    """The logical type, if it fits the type and is read as another one."""
    precision: int = field(default=0, kw_only=True)
    scale: int = field(default=0, kw_only=True)
    """Those of a decimal."""


@dataclass(eq=False)
class Primitive(Node):
    name: str


@dataclass(eq=False)
class Named(Node):
    name: str
    """The full name, with namespace."""
    aliases: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def simple_name(self) -> str:
        """Return the name without its namespace."""
        return self.name.rpartition(".")[2]

    def has_name_of(self, other: Named) -> bool:
        """Return whether another type has this type's unqualified name or one of its aliases."""
        names = {self.simple_name} | {alias.rpartition(".")[2] for alias in self.aliases}
        return other.simple_name in names


@dataclass(eq=False)
class Fixed(Named):
    size: int


@dataclass(eq=False)
class Enum(Named):
    symbols: tuple[str, ...]
    default: str | None = None


@dataclass(eq=False)
class Field:
    name: str
    type: Node
    has_default: bool
    default: Any
    aliases: tuple[str, ...]
    attributes: Mapping[str, Any] = field(repr=False)


@dataclass(eq=False)
class Record(Named):
    fields: list[Field] = field(default_factory=list, repr=False)
    recursive: bool = False
    """Whether it contains itself, or a record that does."""

    def field_named(self, name: str) -> Field | None:
        """Return the field of this name, None if the record has none."""
        return next((field for field in self.fields if field.name == name), None)


@dataclass(eq=False)
class Array(Node):
    items: Node


@dataclass(eq=False)
class Map(Node):
    values: Node


@dataclass(eq=False)
class Union(Node):
    branches: list[Node]

    @property
    def null_number(self) -> int | None:
        """Return the number of the branch that is null; None if there is none."""
        return next((number for number, branch in enumerate(self.branches) if is_null(branch)), None)

    @property
    def not_null(self) -> list[Node]:
        """Return the branches except null."""
        return [branch for branch in self.branches if not is_null(branch)]


def enclose(root: Node, name: str = ROOT_COLUMN) -> Record:
    """Return a record whose only field is a root that need not be a record: values of both have the same bytes."""
    return Record("", fields=[Field(name, root, False, None, (), {})])


def is_null(node: Node) -> bool:
    """Return whether this is the type null."""
    return isinstance(node, Primitive) and node.name == "null"


def find_time_unit(logical: object, base: str) -> str | None:
    """Return the unit of a logical type of times of day; None for others, and on another base type than its own."""
    own_base, unit = TIMES_OF_DAY.get(str(logical), ("", None))
    return unit if own_base == base else None


def split_null(node: Node) -> tuple[list[Node], bool]:
    """Return the types that a value may have, and whether it may be null."""
    if isinstance(node, Union):
        return node.not_null, node.null_number is not None
    return ([], True) if is_null(node) else ([node], False)


def is_valid_name(text: str, more: str = "_") -> bool:
    """Return whether Java accepts a name: letters of any script, digits and `more`, not beginning with a digit.

    The specification allows only A-Z and a-z, but Java and the registry use `NameValidator.UTF_VALIDATOR`. It looks at
    UTF-16 units, so halves of surrogate pairs are not letters.
    """

    def is_letter(character: str) -> bool:
        return (character.isalpha() and character <= "\uffff") or character in more

    rest = text[1:]
    return (
        text != "" and is_letter(text[0]) and all(is_letter(character) or character.isdecimal() for character in rest)
    )


def is_weightless(node: Node) -> bool:
    """Return whether values of a type take no bytes."""
    if isinstance(node, Record):
        return all(is_weightless(field.type) for field in node.fields)
    if isinstance(node, Fixed):
        return node.size == 0
    return is_null(node)


def parse_avro(text: str) -> Node:
    """Parse a schema text. Raises InvalidSchemaError naming what is wrong and where."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise InvalidSchemaError("the Avro schema is nested too deeply") from None
    except ValueError as error:
        # The bare name of a type is a schema too, although it is not JSON.
        if text.strip() in PRIMITIVES:
            value = text.strip()
        else:
            raise InvalidSchemaError(f"the Avro schema is not JSON: {error}") from None
    try:
        parser = _Parser()
        node = parser.node(value, "", "")
        parser.check_ends()
        return node
    except RecursionError:
        raise InvalidSchemaError("the Avro schema is nested too deeply") from None


class _Parser:
    def __init__(self) -> None:
        self._names: dict[str, Named] = {}
        self._open: list[Record] = []

    def check_ends(self) -> None:
        """Raise InvalidSchemaError for a record that contains itself in every value, so that no value can end."""
        records = [named for named in self._names.values() if isinstance(named, Record) and named.recursive]
        ending: set[int] = set()

        def can_end(node: Node) -> bool:
            if isinstance(node, Union):
                return any(map(can_end, node.branches))
            return not isinstance(node, Record) or not node.recursive or id(node) in ending

        while ending_nodes := [
            record for record in records if id(record) not in ending and all(can_end(f.type) for f in record.fields)
        ]:
            ending.update(map(id, ending_nodes))
        for record in records:
            if id(record) not in ending:
                _refuse("", f"each value of the record '{record.name}' contains another one, endlessly")

    def node(self, value: Any, namespace: str, where: str) -> Node:
        if isinstance(value, str):
            return self._reference(value, namespace, where)
        if isinstance(value, list):
            return self._union(value, namespace, where)
        if not isinstance(value, dict):
            _refuse(where, f"{value!r} is not a type")
        kind = value.get("type")
        if isinstance(kind, (dict, list)):
            return self.node(kind, namespace, where)
        named = {"record": self._record, "error": self._record, "enum": self._enum, "fixed": self._parse_fixed}
        if kind in named:
            return named[kind](value, namespace, where)
        if kind == "array":
            if "items" not in value:
                _refuse(where, "an array without 'items'")
            return Array(self.node(value["items"], namespace, f"{where}.element"), attributes=value)
        if kind == "map":
            if "values" not in value:
                _refuse(where, "a map without 'values'")
            return Map(self.node(value["values"], namespace, f"{where}.value"), attributes=value)
        if kind in PRIMITIVES:
            return Primitive(kind, attributes=value, **_parse_logical_type(value, kind, None))
        if isinstance(kind, str):
            return self._reference(kind, namespace, where)
        _refuse(where, "a type without 'type'")

    def _reference(self, name: str, namespace: str, where: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        for full_name in (name,) if "." in name or not namespace else (f"{namespace}.{name}", name):
            if full_name in self._names:
                target = self._names[full_name]
                if isinstance(target, Record) and (target.recursive or any(target is record for record in self._open)):
                    for record in self._open:
                        record.recursive = True
                return target
        _refuse(where, f"the type '{name}' is not defined before its use")

    def _union(self, value: list[Any], namespace: str, where: str) -> Node:
        if not value:
            _refuse(where, "a union without types")
        branches = [self.node(branch, namespace, where) for branch in value]
        seen = set()
        for branch in branches:
            if isinstance(branch, Union):
                _refuse(where, "a union directly inside a union")
            key = branch.name if isinstance(branch, (Named, Primitive)) else type(branch).__name__
            if key in seen:
                _refuse(where, f"a union with '{key.lower()}' twice")
            seen.add(key)
        return Union(branches)

    def _name(self, value: dict[str, Any], namespace: str, where: str) -> tuple[str, tuple[str, ...], str]:
        name = value.get("name")
        if not isinstance(name, str):
            _refuse(where, f"a {value['type']} without name")
        own_namespace = value.get("namespace", namespace)
        if not isinstance(own_namespace, str):
            own_namespace = ""
        full_name = name if "." in name or not own_namespace else f"{own_namespace}.{name}"
        full_name = full_name.removeprefix(".")
        # Avro 1.11, which the registry and its serializers use, allows any characters in namespaces.
        if not is_valid_name(full_name.rpartition(".")[2], _MARKS):
            _refuse(where, f"'{full_name}' is not a valid name")
        if full_name in self._names:
            _refuse(where, f"the type '{full_name}' is defined twice")
        inner = full_name.rpartition(".")[0]
        aliases = _select_texts(value.get("aliases"))
        return full_name, tuple(a if "." in a or not inner else f"{inner}.{a}" for a in aliases), inner

    def _record(self, value: dict[str, Any], namespace: str, where: str) -> Node:
        name, aliases, inner = self._name(value, namespace, where)
        record = Record(name, aliases=aliases, attributes=value)
        self._names[name] = record
        self._open.append(record)
        fields = value.get("fields")
        if not isinstance(fields, list):
            _refuse(where, f"the record '{name}' has no 'fields'")
        seen = set()
        for declared in fields:
            field_name = declared.get("name") if isinstance(declared, dict) else None
            if not isinstance(field_name, str) or not is_valid_name(field_name, _MARKS):
                _refuse(where, f"the record '{name}' has a field named {field_name!r}, which is not a valid name")
            here = f"{where}.{field_name}" if where else field_name
            if field_name in seen:
                _refuse(here, f"the record '{name}' has this field twice")
            if "type" not in declared:
                _refuse(here, "a field without type")
            seen.add(field_name)
            record.fields.append(
                Field(
                    field_name,
                    self.node(declared["type"], inner, here),
                    "default" in declared,
                    declared.get("default"),
                    _select_texts(declared.get("aliases")),
                    declared,
                )
            )
        self._open.pop()
        return record

    def _enum(self, value: dict[str, Any], namespace: str, where: str) -> Node:
        name, aliases, _ = self._name(value, namespace, where)
        symbols = value.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            _refuse(where, f"the enum '{name}' has no 'symbols'")
        if len(set(symbols)) != len(symbols):
            _refuse(where, f"the enum '{name}' has a symbol twice")
        default = value.get("default")
        if default is not None and default not in symbols:
            _refuse(where, f"the default of the enum '{name}' is not one of its symbols")
        self._names[name] = enum = Enum(name, tuple(symbols), default, aliases=aliases, attributes=value)
        return enum

    def _parse_fixed(self, value: dict[str, Any], namespace: str, where: str) -> Node:
        name, aliases, _ = self._name(value, namespace, where)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**31:
            _refuse(where, f"the fixed '{name}' has no valid 'size'")
        logical = _parse_logical_type(value, "fixed", size)
        self._names[name] = fixed = Fixed(name, size, aliases=aliases, attributes=value, **logical)
        return fixed


def _parse_logical_type(value: dict[str, Any], base: str, size: int | None) -> dict[str, Any]:
    """Return the logical type, with precision and scale of a decimal; nothing if it is read as its base type."""
    logical = value.get("logicalType")
    if not isinstance(logical, str):
        return {}
    if find_time_unit(logical, base) is not None:
        return {"logical": logical} if isinstance(parse_spark_type(value.get(SPARK_TYPE)), TimeType) else {}
    if base not in _LOGICAL_BASE.get(logical, ()) or (logical == "uuid" and size not in (None, 16)):
        return {}
    if logical != "decimal":
        return {"logical": logical}
    precision, scale = value.get("precision"), value.get("scale", 0)
    if not is_valid_decimal(precision, scale):
        return {}
    return {"logical": logical, "precision": int(precision or 0), "scale": int(scale)}


def _select_texts(value: Any) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _refuse(where: str, reason: str) -> NoReturn:
    location = f"at '{where.strip('.')}'" if where else "at its root"
    raise InvalidSchemaError(f"the Avro schema is invalid {location}: {reason}")
