"""Makes Avro schemas at random, others that they may be read with, and values in Avro's JSON encoding.

Few names serve many types, so that types of one simple name stand beside each other in several namespaces; records
without fields and records that contain themselves are as frequent as others.
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass, field
from typing import Any

NAMES = ("R", "S")
NAMESPACES = ("a", "b", "a.c")
PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
SYMBOLS = ("X", "Y", "Z")
DEFAULTS: dict[str, Any] = {
    "boolean": True, "int": 7, "long": -8, "float": 0.5, "double": 2.0, "bytes": "\u00ff", "string": "ö"
}  # fmt: skip
DEEP = 5

Type = Any
"""The name of a primitive type, ("array", item), ("map", value), ["union", ...] as a list of types, or a Named."""


@dataclass(eq=False)
class Field:
    name: str
    type: Type
    default: tuple[Any] | None = None
    aliases: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Named:
    kind: str
    namespace: str
    name: str
    fields: list[Field] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    aliases: list[str] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}"


class Schemas:
    """Makes one schema; its root is a record named Root."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.named: list[Named] = []
        self._open: list[Named] = []
        self.root = Named("record", "a", "Root")
        self._fill(self.root, 1 + chance.randrange(3), 0)
        # Java writes nothing instead of {} for records without any value.
        self.root.fields.append(Field("id", "int"))

    def _fill(self, record: Named, count: int, depth: int) -> None:
        self.named.append(record)
        self._open.append(record)
        record.fields = [Field(f"f{place}", self._type(depth + 1)) for place in range(count)]
        self._open.pop()

    def _type(self, depth: int) -> Type:
        kind = self.chance.choice(("union", "union", "array", "map", "named", "named", "primitive"))
        if depth > DEEP or kind == "primitive":
            return self.chance.choice(PRIMITIVES)
        if kind in ("array", "map"):
            return (kind, self._branch(depth + 1) if self.chance.random() < 0.7 else self._type(depth + 1))
        if kind == "union":
            return self._union(depth)
        found = self._branch(depth)
        # Directly within itself a record would have no end.
        return ["null", found] if any(found is named for named in self._open) else found

    def _union(self, depth: int) -> Type:
        found: list[Type] = ["null"] if self.chance.random() < 0.5 else []
        for _ in range(1 + self.chance.randrange(4)):
            branch = self._branch(depth + 1) if self.chance.random() < 0.7 else self._plain(depth + 1)
            if all(key_of(branch) != key_of(other) for other in found):
                found.append(branch)
        self.chance.shuffle(found)
        if "null" not in found and any(isinstance(branch, Named) and branch in self._open for branch in found):
            found.append("null")
        return found if found != ["null"] else "int"

    def _plain(self, depth: int) -> Type:
        found = self._type(depth)
        return "string" if isinstance(found, list) else found

    def _branch(self, depth: int) -> Type:
        """A named type: a new one, or one that is there."""
        namespace, name = self.chance.choice(NAMESPACES), self.chance.choice(NAMES)
        for named in self.named:
            if (named.namespace, named.name) == (namespace, name):
                return named
        kind = self.chance.choice(("record", "record", "record", "enum", "fixed"))
        found = Named(kind, namespace, name, size=self.chance.choice((1, 2)))
        if kind == "enum":
            found.symbols = list(SYMBOLS[: 1 + self.chance.randrange(3)])
        if kind == "record":
            self._fill(found, self.chance.choice((0, 1, 1, 2)) if depth <= DEEP else 0, depth)
        else:
            self.named.append(found)
        return found


def key_of(node: Type) -> str:
    """What may be in a union once."""
    if isinstance(node, Named):
        return node.full_name
    return node if isinstance(node, str) else "union" if isinstance(node, list) else str(node[0])


def schema_json(node: Type, done: set[str] | None = None) -> Any:
    """Return the schema as JSON, each named type defined where it comes first."""
    done = set() if done is None else done
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return [schema_json(branch, done) for branch in node]
    if isinstance(node, tuple):
        return {"type": node[0], "items" if node[0] == "array" else "values": schema_json(node[1], done)}
    if node.full_name in done:
        return node.full_name
    done.add(node.full_name)
    found: dict[str, Any] = {"type": node.kind, "name": node.name, "namespace": node.namespace}
    if node.aliases:
        found["aliases"] = node.aliases
    if node.kind == "enum":
        return found | {"symbols": node.symbols}
    if node.kind == "fixed":
        return found | {"size": node.size}
    fields = []
    for member in node.fields:
        one = {"name": member.name, "type": schema_json(member.type, done)}
        if member.default is not None:
            one["default"] = member.default[0]
        if member.aliases:
            one["aliases"] = member.aliases
        fields.append(one)
    return found | {"fields": fields}


class Reader:
    """Makes a schema that has changed since the writer's. `lenient`: enums or fixed types changed their namespaces."""

    def __init__(self, writer: Schemas) -> None:
        self.chance = writer.chance
        self.root, self.named = copy.deepcopy((writer.root, writer.named))
        self.lenient = False
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 3))):
            self._change()

    def _change(self) -> None:
        named = self.chance.choice(self.named)
        match self.chance.choice(("namespace", "fields", "type", "type", "order", "symbols", "fields")):
            case "namespace" if named is not self.root:
                self._move(named)
            case "order":
                for field in named.fields:
                    if isinstance(field.type, list) and field.default is None:
                        self.chance.shuffle(field.type)
            case "fields" if named.fields and self.chance.random() < 0.6:
                self._change_field(named)
            case "fields" if named.kind == "record":
                kind = self.chance.choice(PRIMITIVES)
                name = f"new{len(named.fields)}"
                if self.chance.random() < 0.5:
                    added = Field(name, ["null", kind], (None,))
                else:
                    added = Field(name, kind, (DEFAULTS[kind],))
                named.fields.insert(self.chance.randrange(len(named.fields) + 1), added)
            case "type" if named.fields:
                changed = self.chance.choice(named.fields)
                if changed.default is None:
                    changed.type = self._retyped(changed.type)
            case "symbols":
                named.symbols = list(SYMBOLS[: 1 + self.chance.randrange(3)]) if named.kind == "enum" else []
                named.size = self.chance.choice((1, 2))

    def _move(self, named: Named) -> None:
        old, space, name = named.full_name, self.chance.choice(NAMESPACES), self.chance.choice((named.name, *NAMES))
        if any((other.namespace, other.name) == (space, name) for other in self.named):
            return
        named.namespace, named.name = space, name
        if self.chance.random() < 0.4:
            named.aliases.append(old)
        # Java takes records of another name, but then knows no aliases of their fields.
        self.lenient = self.lenient or named.kind != "record" or not named.aliases

    def _change_field(self, record: Named) -> None:
        changed = self.chance.choice(record.fields)
        if changed.name == "id":
            return
        if self.chance.random() < 0.5 and len(record.fields) > 1:
            record.fields.remove(changed)
        elif not changed.aliases and not changed.name.startswith("new"):
            self._rename(record, changed)
        self.chance.shuffle(record.fields)

    def _rename(self, record: Named, changed: Field) -> None:
        """Rename a field; sometimes its name is used again, by a new field or by the next one in a chain."""
        name = changed.name
        changed.aliases, changed.name = [name], f"{name}_renamed"
        others = [field for field in record.fields if field.name != "id" and not field.aliases and field is not changed]
        how = self.chance.random()
        if how < 0.3:
            kind = self.chance.choice(PRIMITIVES)
            record.fields.append(Field(name, kind, (DEFAULTS[kind],)))
        elif how < 0.6 and others:
            following = self.chance.choice(others)
            if not following.name.startswith("new"):
                following.aliases, following.name = [following.name], name

    def _retyped(self, node: Type) -> Type:
        wider = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
        if isinstance(node, str) and node in wider:
            return self.chance.choice(wider[node])
        if isinstance(node, str):
            return {"string": "bytes", "bytes": "string"}.get(node, "string")
        if isinstance(node, list):
            found = [
                branch if self.chance.random() < 0.7 else self._retyped(branch) for branch in node if branch != "null"
            ]
            if len(found) > 1 and self.chance.random() < 0.3:
                found.pop()
                self.lenient = self.lenient or found == ["string"]  # which takes enums
            if any(isinstance(branch, list) for branch in found) or len({key_of(branch) for branch in found}) < len(
                found
            ):
                return node
            return ["null", *found] if "null" in node else found
        if isinstance(node, tuple):
            return (node[0], self._retyped(node[1]))
        return ["null", node] if self.chance.random() < 0.5 else [node, "string"]


def value_of(node: Type, chance: random.Random, depth: int = 0) -> Any:
    """Return a value in Avro's JSON encoding."""
    if isinstance(node, str):
        return {
            "null": None, "boolean": chance.random() < 0.5, "int": chance.randrange(-(2**31), 2**31),
            "long": chance.randrange(-(2**40), 2**40), "float": chance.randrange(-400, 400) / 4,
            "double": chance.random(), "bytes": chance.choice(("", "\u00c3\u00a4", "ab")),
            "string": chance.choice(("", "ä", "text")),
        }[node]  # fmt: skip
    if isinstance(node, list):
        branch = chance.choice(node)
        if depth > 6:
            branch = "null" if "null" in node else min(node, key=lambda found_node: isinstance(found_node, Named))
        return None if branch == "null" else {key_of(branch): value_of(branch, chance, depth + 1)}
    if isinstance(node, tuple):
        count = 0 if depth > 6 else chance.randrange(3)
        items = [value_of(node[1], chance, depth + 1) for _ in range(count)]
        return items if node[0] == "array" else {f"k{place}": item for place, item in enumerate(items)}
    if node.kind == "enum":
        return chance.choice(node.symbols)
    if node.kind == "fixed":
        return "\u00fe" * node.size
    return {field.name: value_of(field.type, chance, depth + 1) for field in node.fields}


def text(node: Type) -> str:
    return json.dumps(schema_json(node), ensure_ascii=False)
