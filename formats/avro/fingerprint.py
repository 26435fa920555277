"""Normalizes Avro schemas as the specification says, so that equal schemas can be recognized."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

from .schema_model import PRIMITIVES

ALGORITHM = "CRC-64-AVRO"

_KINDS = {*PRIMITIVES, "record", "error", "enum", "fixed", "array", "map"}
_PARTS = ("items", "values")


@dataclass(frozen=True)
class NormalizedSchema:
    """A schema in its Parsing Canonical Form, and the form's CRC-64-AVRO.

    Schemas with the same form describe the same bytes. The fingerprint has the byte order of Avro's single-object
    encoding, in hexadecimal.
    """

    canonical: str
    fingerprint: str


def normalize_schema(format: str, text: str) -> NormalizedSchema | None:
    """Return a schema text in its normal form; None for a text that is not a valid schema.

    `format` is the registry's name of the text's format: only schemas of Avro have a normal form. Some valid texts have
    none, because fastavro and Java's Avro differ: those with names with an empty part (".A" is A without a namespace in
    Java), symbols beyond ASCII, and names without a namespace that types of a namespace refer to.
    """
    if format != "Avro":
        return None
    try:
        canonical = to_parsing_canonical_form(_simplify(json.loads(text)))
        if not _is_allowed(json.loads(canonical)):
            return None
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return NormalizedSchema(canonical, fingerprint(canonical, ALGORITHM))


def _simplify(schema: Any) -> Any:
    """Return a schema as fastavro reads it: without logical types, and with references as plain names.

    Java ignores a logical type that does not fit its type, and reads {"type": "A"} as "A".
    """
    if isinstance(schema, list):
        return [_simplify(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema["type"]
    if not isinstance(kind, str):
        raise ValueError(f"{kind} is not the name of a type")
    if kind not in _KINDS:
        return kind
    if kind == "fixed" and type(schema["size"]) is not int:
        raise ValueError(f"{schema['size']} is not a size")
    kept = {key: value for key, value in schema.items() if key != "logicalType"}
    kept |= {part: _simplify(schema[part]) for part in _PARTS if part in schema}
    if kind in ("record", "error"):
        kept["fields"] = [{**field, "type": _simplify(field["type"])} for field in schema["fields"]]
    return kept


def _is_allowed(form: Any) -> bool:
    """Return whether Java takes the schema of a canonical form. Fastavro checks less."""
    if isinstance(form, str):
        return all(form.split("."))
    if isinstance(form, list):
        names = [_name_of(branch) for branch in form]
        return _is_each_unique(names) and all(map(_is_allowed, form))
    if not _is_allowed(_name_of(form)):
        return False
    fields = form.get("fields", [])
    parts = [form[part] for part in _PARTS if part in form] + [field["type"] for field in fields]
    unique = _is_each_unique([field["name"] for field in fields])
    return bool(unique and form.get("size", 0) >= 0 and all(map(_is_allowed, parts)))


def _name_of(form: Any) -> str:
    """Return what a branch of a union is called. Raises ValueError for a union."""
    if isinstance(form, list):
        raise ValueError("a union directly within a union")
    return form if isinstance(form, str) else str(form.get("name", form["type"]))


def _is_each_unique(names: list[str]) -> bool:
    return len(set(names)) == len(names)
