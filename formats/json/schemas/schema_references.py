"""Resolves references within the text of a JSON Schema, and makes texts that every registry accepts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from pyspark_pravega.errors import InvalidSchemaError

DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose values are not schemas, even if they look like it."""

DEFINITIONS = frozenset({"definitions", "$defs"})

BY_NAME = DEFINITIONS | {"properties", "patternProperties", "dependentSchemas", "dependencies"}
"""Keywords whose values hold schemas by name. These names are not keywords."""


@dataclass(frozen=True)
class _Resource:
    """A schema with its own id, or the whole text. Pointers below it begin there."""

    base: str
    root: Any


class References:
    """The names in one schema text."""

    def __init__(self, root: Any) -> None:
        self._named: dict[str, Any] = {}
        self._resources: dict[int, _Resource] = {}
        self._recursive: dict[int, bool] = {}
        self._whole = _Resource("", root)
        left: list[tuple[Any, _Resource]] = [(root, self._whole)]
        while left:
            value, resource = left.pop()
            if isinstance(value, dict):
                resource = self._resources[id(value)] = self._note(value, resource)
                left += [(inner, resource) for inner in reversed(list(iterate_inside(value, DATA)))]
            elif isinstance(value, list):
                left += [(inner, resource) for inner in reversed(value)]

    def _note(self, value: dict[str, Any], resource: _Resource) -> _Resource:
        for key in ("$id", "id"):
            name = value.get(key)
            # A definition, not another mention of it.
            if isinstance(name, str) and "$ref" not in value:
                self._named.setdefault(name, value)
                address = _join_address(resource.base, name)
                self._named.setdefault(address, value)
                if not name.startswith("#"):  # which is an anchor, up to draft 7
                    resource = _Resource(address.removesuffix("#"), value)
                    self._named.setdefault(resource.base, value)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := value.get(key), str):
                self._named.setdefault(f"{resource.base}#{name}", value)
        return resource

    def find(self, reference: str, within: dict[str, Any], path: str) -> Any:
        """Return the schema that a reference in `within` stands for. Raises InvalidSchemaError naming it."""
        target = self.look_up(reference, within)
        if target is None:
            raise InvalidSchemaError(f"the JSON schema refers to '{reference}' (at '{path}'), which is not in its text")
        return target

    def look_up(self, reference: str, within: dict[str, Any]) -> Any:
        """Return the schema that a reference in `within` stands for, None if it is not in the text."""
        # A pointer may lead to data or into unknown keywords, which are resolved from the whole text.
        return self._target(reference, self._resources.get(id(within), self._whole))

    def _target(self, reference: str, resource: _Resource) -> Any:
        if reference == "#":
            return resource.root
        for address in (reference, _join_address(resource.base, reference)):
            if address in self._named:
                return self._named[address]
            base, pointer = urldefrag(address)
            root = resource.root if not base or base == resource.base else self._named.get(base)
            target = None if root is None else _follow_pointer(root, pointer)
            if target is None and not base:  # some programs write pointers from the whole text even below an id
                target = _follow_pointer(self._whole.root, pointer)
            if target is not None:
                return target
        return None

    def is_recursive(self, schema: dict[str, Any]) -> bool:
        """Return whether a schema contains or refers to itself."""
        if id(schema) not in self._recursive:
            self._recursive[id(schema)] = any(below is schema for below in self._iterate_below(schema))
        return self._recursive[id(schema)]

    def _iterate_below(self, schema: dict[str, Any]) -> Iterator[Any]:
        """Iterate over the schemas that a schema contains or refers to, including itself if it is recursive."""
        seen: set[int] = set()
        left: list[Any] = [schema]
        while left:
            value = left.pop()
            inner = list(iterate_inside(value, DATA | DEFINITIONS))
            if isinstance(reference := value.get("$ref"), str):
                inner.append(self.look_up(reference, value))
            while inner:
                inner_value = inner.pop()
                if isinstance(inner_value, list):
                    inner += inner_value
                elif isinstance(inner_value, dict):
                    yield inner_value
                    if id(inner_value) not in seen:
                        seen.add(id(inner_value))
                        left.append(inner_value)


def iterate_inside(value: dict[str, Any], without: Set[str]) -> Iterator[Any]:
    """Iterate over the values of a schema's keywords, except some: schemas, lists of them, and other values."""
    for key, inner in value.items():
        if key not in without:
            yield from inner.values() if key in BY_NAME and isinstance(inner, dict) else (inner,)


def _join_address(base: str, name: str) -> str:
    """Join an address to its base. `urljoin` cannot handle URNs."""
    if name.startswith("#"):
        return base.partition("#")[0] + name
    return urljoin(base, name)


def _follow_pointer(root: Any, pointer: str) -> Any:
    """Return the target of a JSON pointer (RFC 6901, in a fragment), None if it has none."""
    if pointer == "":
        return root
    if not pointer.startswith("/"):
        return None
    value: Any = root
    for part in pointer[1:].split("/"):
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return None
    return value


REL = "spark-schema"
_PREFIX = "data:application/schema+json;base64,"
_SHARED = ("title", "description", "format", "default")


def make_portable(text: str) -> str:
    """Return the text to register for a schema of this project."""
    return json.dumps(_select_shared(json.loads(text)) | {"links": [_make_link(text)]}, ensure_ascii=False)


def make_foreign_portable(text: str) -> str:
    """Return the text to register for another program's schema that was edited here: all of it except our keywords."""
    root = _drop_own_keywords(json.loads(text))
    others = [link for link in root.get("links") or () if not (isinstance(link, dict) and link.get("rel") == REL)]
    return json.dumps(root | {"links": [*others, _make_link(text)]}, ensure_ascii=False)


def _make_link(text: str) -> dict[str, str]:
    """Return the link of a registered text to the full schema."""
    return {"rel": REL, "href": _PREFIX + base64.b64encode(text.encode()).decode("ascii")}


def _drop_own_keywords(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_own_keywords(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _drop_own_keywords(schema) for name, schema in inner.items()}
        if key in BY_NAME and isinstance(inner, dict)
        else _drop_own_keywords(inner)
        for key, inner in value.items()
        if not key.startswith("spark.")
    }


def read_full_schema(root: Any) -> Any:
    """Return a parsed text's full schema, else the text itself. Raises InvalidSchemaError if our link has no schema."""
    links = root.get("links") if isinstance(root, dict) else None
    for link in links if isinstance(links, list) else []:
        if isinstance(link, dict) and link.get("rel") == REL:
            try:
                return json.loads(base64.b64decode(str(link.get("href")).removeprefix(_PREFIX), validate=True))
            except (binascii.Error, ValueError):
                raise InvalidSchemaError(f"the link '{REL}' of the JSON schema does not hold a JSON schema") from None
    return root


def _select_shared(node: Any) -> dict[str, Any]:
    if not isinstance(node, dict):
        return {}
    kind = node.get("type")
    if isinstance(kind, list):
        named = [name for name in kind if name != "null"] or ["null"]
        kind = named[0] if len(named) == 1 else None
    result = ({} if kind is None else {"type": kind}) | {key: node[key] for key in _SHARED if key in node}
    if "properties" in node:
        result["properties"] = {name: _select_shared(schema) for name, schema in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = _select_shared(node[key])
    return result
