"""Parses JSON Schemas of drafts 3 to 2020-12, as far as they describe the shape of values.

A value that several parts of the schema describe (see `schema_model`) has the types that all of them allow. Keywords
that only restrict values (minimum, pattern, ...) do not matter for columns; `document_rules` checks them where rows are
written. A reference to a schema around it stands for a value of any type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidSchemaError

from ...core import spark_types
from ...core.spark_visitor import join_path
from . import schema_model as model
from .node_rules import NodeRules
from .schema_references import read_full_schema
from .spark_to_schema import NUMBERS_TOO, PRIMITIVES, SPARK_COLUMNS, SPARK_CONTAINS_NULL

_SPARK_TYPES: Mapping[str, tuple[type[T.DataType], ...]] = {
    name: tuple(kind for kind, written in PRIMITIVES.items() if written["type"] == name)
    + (NUMBERS_TOO if name == "number" else ())
    for name in ("boolean", "integer", "number", "string")
}
"""The values of "spark.type" that may refine each JSON type; others are ignored."""


def parse_json_schema(text: str) -> model.Schema:
    """Parse a schema text. Raises InvalidSchemaError naming what is wrong."""
    root = read_schema(text)
    try:
        parser = _Parser(root)
        node = parser.node([model.SchemaSource(root)], "", frozenset())
    except RecursionError:
        raise InvalidSchemaError("the JSON schema is nested too deeply") from None
    return model.Schema(node, tuple(dict.fromkeys(parser.rules.unread)), parser.rules.first)


def read_schema(text: str) -> Any:
    """Return the full schema that a text is or carries. Raises InvalidSchemaError if there is none."""
    try:
        root = json.loads(text)
    except RecursionError:
        raise InvalidSchemaError("the JSON schema is nested too deeply") from None
    except ValueError as error:
        raise InvalidSchemaError(f"the JSON schema is not JSON: {error}") from None
    root = read_full_schema(root)
    if not isinstance(root, (dict, bool)):
        raise InvalidSchemaError("the JSON schema is neither an object nor true or false")
    return root


class _Parser:
    def __init__(self, root: Any) -> None:
        self._splitter = model.Splitter(root)
        self.rules = NodeRules(self._splitter)
        self._count = 0

    def node(self, sources: Sequence[model.SchemaSource], path: str, around: frozenset[int]) -> model.Node:
        """Return the shape of a value that fits all sources; `around` are the schemas around it."""
        self._count += 1
        if self._count > spark_types.LARGEST_SCHEMA:
            raise InvalidSchemaError(f"the JSON schema stands for more than {spark_types.LARGEST_SCHEMA} columns")
        parts = self._splitter.split(sources, path, around)
        annotations = _read_annotations(sources, parts)
        certain = (self._splitter.types(source.value) for source in sources if not source.unsure)
        possible = model.TYPES.intersection(*certain)
        annotations["takes_null"] = "null" in possible
        kind, nullable = _find_kind(parts, path)
        around |= parts.inside
        node: model.Node | None = None
        if parts.recursive or parts.never:
            self.rules.note_whole(parts, path)
        elif kind == "object":
            node = self._object(parts, path, around, annotations | {"nullable": nullable})
        elif kind == "array":
            node = self._array(parts, path, around, annotations | {"nullable": nullable})
        elif kind is not None and (scalar := _read_scalar(kind, parts)) is not None:
            node = model.Scalar(*scalar, **annotations | {"nullable": nullable})
        if node is None:
            variant = any(
                part.value[spark_types.SPARK_TYPE] == spark_types.VARIANT
                for part in parts.select(spark_types.SPARK_TYPE)
            )
            node = model.Anything(possible, variant, **annotations | {"nullable": nullable or not variant})
        self.rules.note(parts, path, node)
        return node

    def _array(self, parts: model.Parts, path: str, around: frozenset[int], annotations: dict[str, Any]) -> model.Node:
        entries = _read_entries_type(parts)
        if entries is not None:
            return model.Scalar(entries, **annotations)
        items = [model.SchemaSource(part.value["items"], part.unsure) for part in parts.select("items")]
        if parts.select("prefixItems") or any(isinstance(item.value, list) for item in items):
            items = []  # each place has its own type
        element = self.node(items or [model.SchemaSource(True)], join_path(path, "element"), around)
        return model.Array(_apply_contains_null(element, parts), **annotations)

    def _object(self, parts: model.Parts, path: str, around: frozenset[int], annotations: dict[str, Any]) -> model.Node:
        properties = _collect_properties(parts)
        if not properties:
            values = [
                model.SchemaSource(part.value["additionalProperties"], part.unsure)
                for part in parts.found
                if isinstance(part.value.get("additionalProperties"), dict)
            ]
            if parts.select("patternProperties"):
                values = []  # the values of some keys have their own type
            node = self.node(values or [model.SchemaSource(True)], join_path(path, "value"), around)
            return model.Map(_apply_contains_null(node, parts), **annotations)
        required = _collect_required(parts)
        members = {}
        for name, sources in properties.items():
            node = self.node(sources, join_path(path, name), around)
            # Draft 3 has "required": true in the property itself.
            demanded = name in required or any(
                isinstance(schema, dict) and schema.get("required") is True and not unsure for schema, unsure in sources
            )
            members[name] = replace(node, nullable=node.nullable or not demanded)
            if demanded:
                required.add(name)
        return model.Object(members, required, **annotations)


def _read_annotations(sources: Sequence[model.SchemaSource], parts: model.Parts) -> dict[str, Any]:
    """Return the annotations of a value; the one nearest to the value counts."""
    annotations: dict[str, Any] = {}
    for value in [*(source.value for source in sources), *(part.value for part in parts.found)]:
        if not isinstance(value, dict):
            continue
        if isinstance(value.get("description"), str):
            annotations.setdefault("comment", value["description"])
        if isinstance(value.get(spark_types.SPARK_METADATA), dict):
            annotations.setdefault("metadata", value[spark_types.SPARK_METADATA])
        if spark_types.SPARK_TYPE in value:
            annotations.setdefault("default", value.get("default"))
    return annotations


def _find_kind(parts: model.Parts, path: str) -> tuple[str | None, bool]:
    """Return the only type other than null that all parts allow, None for several; and whether the value may be null.

    Raises InvalidSchemaError if no type fits all parts.
    """
    enums = [part.value["enum"] for part in parts.select("enum") if isinstance(part.value["enum"], list)]
    nullable = any(None in allowed for allowed in enums) or any(
        part.value.get("nullable") is True for part in parts.found
    )
    stated = [part for part in parts.found if part.types() is not None]
    sure = [part for part in stated if not part.unsure] or stated[:1]
    if not sure:
        kind = _infer_kind(parts, enums)
        return kind, nullable or any(part.or_null for part in parts.found)
    names = sure[0].types() or model.TYPES
    for part in sure[1:]:
        others = part.types() or model.TYPES
        both = names & others
        if not both:
            raise InvalidSchemaError(
                f"the JSON schema allows no value at '{path}': one part of it says {_describe_types(names)}, and "
                f"another {_describe_types(others)}"
            )
        names = both
    nullable |= "null" in names
    names -= {"null"}
    if names == {"integer", "number"}:
        names = frozenset({"number"})
    return (next(iter(names)) if len(names) == 1 else None), nullable


def _infer_kind(parts: model.Parts, enums: Sequence[list[Any]]) -> str | None:
    """Return the type that other keywords imply where no part names one."""
    if parts.select("properties"):
        return "object"
    if any(len(model.drop_null(choices)) != 1 for part in parts.found for _, choices in model.list_choices(part.value)):
        return None
    if parts.select("additionalProperties"):
        return "object"
    if parts.select("items"):
        return "array"
    if any(all(isinstance(value, (str, type(None))) for value in values) for values in enums):
        return "string"
    return None


def _describe_types(types: frozenset[str]) -> str:
    return " or ".join(sorted(types - {"integer"} if "number" in types else types))


def _collect_properties(parts: model.Parts) -> dict[str, list[model.SchemaSource]]:
    """Return the schemas that the parts have for each property."""
    order = [name for part in parts.select(SPARK_COLUMNS) for name in part.value[SPARK_COLUMNS]]
    sources: dict[str, list[model.SchemaSource]] = {}
    for part in parts.select("properties"):
        properties = part.value["properties"]
        for name, schema in properties.items() if isinstance(properties, dict) else ():
            sources.setdefault(name, []).append(model.SchemaSource(schema, part.unsure))
    return {name: sources[name] for name in (*order, *sources) if name in sources}


def _collect_required(parts: model.Parts) -> set[str]:
    lists = [part.value["required"] for part in parts.select("required") if not part.unsure]
    return {
        name
        for names_of_part in lists
        if isinstance(names_of_part, list)
        for name in names_of_part
        if isinstance(name, str)
    }


def _read_entries_type(parts: model.Parts) -> T.MapType | None:
    """Return the type of a map that is written as a list of entries, if an annotation says so."""
    for part in parts.select(spark_types.SPARK_MAP):
        spark_types.check_types_known(part.value[spark_types.SPARK_MAP])
        try:
            return T.MapType.fromJson(part.value[spark_types.SPARK_MAP])
        except (LookupError, TypeError, ValueError, AttributeError):
            continue  # another program's use of the key
    return None


def _apply_contains_null(node: model.Node, parts: model.Parts) -> model.Node:
    # Data often violates its schema here (Java writes nulls into lists of strings), so only a schema of this project
    # can promise that there are no nulls.
    return replace(node, nullable=not any(part.value.get(SPARK_CONTAINS_NULL) is False for part in parts.found))


def _read_scalar(name: str, parts: model.Parts) -> tuple[T.DataType, bool] | None:
    """Return the type of plain values, and whether it comes from another program's schema."""
    for part in parts.select(spark_types.SPARK_TYPE):
        own = spark_types.parse_spark_type(part.value[spark_types.SPARK_TYPE])
        if own is not None and isinstance(own, _SPARK_TYPES.get(name, ())):
            return own, False
    if name != "string":
        data_type = _PLAIN.get(name)
        return None if data_type is None else (data_type, True)
    if any(part.value["contentEncoding"] == "base64" for part in parts.select("contentEncoding")):
        return T.BinaryType(), True
    formats = {part.value["format"] for part in parts.select("format") if part.value["format"] in _FORMATS}
    return (_FORMATS[formats.pop()] if len(formats) == 1 else T.StringType()), True


_PLAIN: Mapping[str, T.DataType] = {"boolean": T.BooleanType(), "integer": T.LongType(), "number": T.DoubleType()}
_FORMATS = {"date": T.DateType(), "date-time": T.TimestampType()}
