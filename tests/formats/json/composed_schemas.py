"""Generated JSON Schemas in which several parts describe one value, documents of them, and what a validator says."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import jsonschema
from hypothesis import reject
from hypothesis import strategies as st

Schema = dict[str, Any]

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFTS: Mapping[str | None, tuple[Any, ...]] = {
    DRAFT_7: (jsonschema.Draft7Validator,),
    DRAFT_2020: (jsonschema.Draft202012Validator,),
    None: (jsonschema.Draft7Validator, jsonschema.Draft202012Validator),
}
"""The validators by each `$schema`; without one a reader may have either in mind."""

NAMES = ("a", "b", "c", "d/e~f")
DEFINITIONS = ("x", "y", "z w")

_integers = st.fixed_dictionaries(
    {"type": st.just("integer")},
    optional={"minimum": st.just(-5), "multipleOf": st.just(2), "enum": st.just([0, 2, 7])},
)
_numbers = st.fixed_dictionaries({"type": st.just("number")}, optional={"exclusiveMaximum": st.just(100)})
_texts = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", ["string", "null"]])},
    optional={"maxLength": st.just(3), "pattern": st.just("^[a-c]*$"), "enum": st.just(["a", "bb", None])},
)
_leaves: st.SearchStrategy[Schema] = st.one_of(
    _integers,
    _numbers,
    _texts,
    st.just({"type": "boolean"}),
    st.just({"type": ["integer", "null"]}),
    st.just({"type": ["integer", "string"]}),
    st.just({"const": "a"}),
    st.just({}),
)
_references = st.sampled_from(["#", *(f"#/definitions/{name.replace(' ', '%20')}" for name in DEFINITIONS)]).map(
    lambda reference: {"$ref": reference}
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3),
        },
        optional={
            "required": st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True),
            "additionalProperties": st.just(False) | inner,
            "minProperties": st.just(1),
        },
    )


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Schema]:
    objects = _objects(inner)
    return st.one_of(
        objects,
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner),
        st.builds(lambda one: {"anyOf": [{"type": "null"}, one]}, inner),
        st.builds(lambda one, other: {"oneOf": [one, other]}, inner, inner),
        st.builds(lambda own, *parts: own | {"allOf": list(parts)}, objects, objects | _references, objects),
        st.builds(lambda parts, own: {"allOf": parts} | own, st.lists(objects | _references, min_size=1), objects),
        st.builds(lambda one, other: {"allOf": [one, other]}, _numbers, _integers | _numbers),
        st.builds(lambda own, one: own | one, objects, _references),
        st.builds(lambda own, one: own | {"then": one}, objects, objects),
    )


_any: st.SearchStrategy[Schema] = st.recursive(_leaves | _references, _composed, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Schemas whose root is an object, by composition or at once."""
    root = draw(_composed(_any).filter(lambda schema: "anyOf" not in schema and "oneOf" not in schema))
    definitions = {name: draw(_any if draw(st.booleans()) else _objects(_any)) for name in DEFINITIONS}
    draft = draw(st.sampled_from(list(DRAFTS)))
    said = {} if draft is None else {"$schema": draft}
    return copy.deepcopy(said | root | {"definitions": definitions})


def is_valid(schema: Schema, document: Any) -> bool:
    """Tell whether the validators of the schema's draft take a document."""
    checked = {key: value for key, value in schema.items() if key != "$schema"}
    try:
        return all(validator(checked).is_valid(document) for validator in DRAFTS[schema.get("$schema")])
    except RecursionError:  # a schema that is a part of itself, of which no validator can make anything
        reject()


_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-6, 10),
    st.sampled_from([0.5, 2.25, -1e-7]),
    st.sampled_from(["a", "bb", "abc", "xyz", "", "1"]),
)
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    max_leaves=4,
)


@st.composite
def documents(draw: st.DrawFn, root: Schema, schema: Any = None, depth: int = 0) -> Any:
    """Documents that fit a schema in much, and often in all."""
    schema = root if schema is None else schema
    if not isinstance(schema, dict) or depth > 4:
        return draw(_values)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2].replace("%20", " ")
        found = draw(documents(root, root if schema["$ref"] == "#" else root["definitions"][name], depth + 1))
        own = {key: value for key, value in schema.items() if key != "$ref"}
        more = draw(documents(root, own, depth + 1)) if "properties" in own else None
        return {**more, **found} if isinstance(found, dict) and isinstance(more, dict) else found
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return draw(documents(root, draw(st.sampled_from(schema[key])), depth + 1))
    own = draw(_of_type(root, schema, depth))
    for joined in schema.get("allOf", []):
        other = draw(documents(root, joined, depth + 1))
        own = {**own, **other} if isinstance(own, dict) and isinstance(other, dict) else other
    return own


@st.composite
def _of_type(draw: st.DrawFn, root: Schema, schema: Schema, depth: int) -> Any:
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = draw(st.sampled_from(kind))
    if kind == "object":
        found = {}
        for name, inner in schema.get("properties", {}).items():
            if name in schema.get("required", []) or draw(st.booleans()):
                found[name] = draw(documents(root, inner, depth + 1))
        if "properties" not in schema:
            for name in draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True)):
                found[name] = draw(documents(root, schema["additionalProperties"], depth + 1))
        return found
    if kind == "array":
        return [draw(documents(root, schema["items"], depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        "integer": st.integers(-6, 10),
        "number": st.integers(-6, 10) | st.sampled_from([0.5, 2.25, -1e-7]),
        "string": st.sampled_from(["a", "bb", "abc", "xyz"]),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return draw(kinds.get(kind, _values))
