"""Checks documents before they are written, against the rules of a JSON Schema that column types cannot guarantee."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql.types import TimestampNTZType, TimestampType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError, shorten

from ..core.scalars import is_nested_deeper
from .documents import DEEPEST
from .plain_cells import CONTAINERS
from .schemas import schema_model as model
from .schemas.schema_parser import read_schema
from .schemas.schema_references import BY_NAME, DATA, iterate_inside
from .timestamps import ISO

if TYPE_CHECKING:
    import jsonschema_rs


def is_draft3(root: Any) -> bool:
    """Return whether a schema text uses features that only draft 3 has, and none that only later drafts have."""
    return any(map(_is_older, _iterate_schemas(root))) and not any(map(_is_later, _iterate_schemas(root)))


def _is_older(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return (
        isinstance(value.get("required"), bool)
        or any(key in value for key in ("extends", "disallow", "divisibleBy"))
        or kind == "any"
        or (isinstance(kind, list) and any(isinstance(choice, dict) or choice == "any" for choice in kind))
    )


def _is_later(value: dict[str, Any]) -> bool:
    draft = str(value.get("$schema", ""))
    named = "json-schema.org/draft" in draft and "draft-03" not in draft
    return named or "$defs" in value or "dependentSchemas" in value


def _iterate_schemas(root: Any) -> Iterator[dict[str, Any]]:
    left = [root]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left += iterate_inside(value, DATA)
        elif isinstance(value, list):
            left += value


def convert_to_draft4(value: Any) -> Any:
    """Convert a schema of draft 3 to draft 4."""
    if not isinstance(value, dict):
        return [convert_to_draft4(item) for item in value] if isinstance(value, list) else value
    plain = {key: inner for key, inner in value.items() if key not in DATA | BY_NAME}
    converted = value | _map_values(convert_to_draft4, plain)
    for key in BY_NAME:
        if inner := _read_by_name(value, key):
            converted[key] = _map_values(convert_to_draft4, inner)
    if isinstance(converted.get("required"), bool):
        del converted["required"]  # its object says so instead
    properties = _read_by_name(value, "properties")
    demanded = [
        name for name, schema in properties.items() if isinstance(schema, dict) and schema.get("required") is True
    ]
    if demanded:
        converted["required"] = demanded
    if "dependencies" in converted:
        converted["dependencies"] = _map_values(
            lambda names: [names] if isinstance(names, str) else names, converted["dependencies"]
        )
    if "divisibleBy" in converted:
        converted["multipleOf"] = converted.pop("divisibleBy")
    extended = converted.pop("extends", [])
    if extended:
        converted["allOf"] = [*converted.get("allOf", []), *(extended if isinstance(extended, list) else [extended])]
    if "disallow" in converted:
        converted["not"] = {"anyOf": _list_choices(converted.pop("disallow"))}
    if "type" in converted and not _is_plain(converted["type"]):
        choices = _list_choices(converted.pop("type"))
        if {} not in choices:
            converted["anyOf"] = choices
    return converted


def _read_by_name(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _map_values(change: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {key: change(value) for key, value in values.items()}


def _is_plain(kind: Any) -> bool:
    return all(isinstance(name, str) and name != "any" for name in (kind if isinstance(kind, list) else [kind]))


def _list_choices(kind: Any) -> list[Any]:
    kinds = kind if isinstance(kind, list) else [kind]
    return [{} if choice == "any" else {"type": choice} if isinstance(choice, str) else choice for choice in kinds]


_DRAFTS = {
    **dict.fromkeys(("draft-03", "draft-04", "draft-05"), "Draft4Validator"),
    "draft-06": "Draft6Validator",
    "draft-07": "Draft7Validator",
    "2019-09": "Draft201909Validator",
    "2020-12": "Draft202012Validator",
}
"""The validator for each `$schema`."""

_OLD = ("Draft7Validator", "Draft4Validator")
_NEW = "Draft202012Validator"
_WITH_FORMATS = {"Draft4Validator", "Draft6Validator", "Draft7Validator"}


def make_document_rules(schema: model.Schema, text: str, timestamps: str) -> DocumentRules | None:
    """Return the rules that check the documents of a table, None if there is nothing to check.

    Raises InvalidSchemaError if documents must be checked and the schema is not valid.
    """
    nodes = list(_iterate_nodes(schema.root))
    rule = schema.rules
    if timestamps != ISO and any(_is_foreign_timestamp(node) for node in nodes):
        rule = rule or "'format'"
    deep = any(isinstance(node, model.Anything) and node.types & CONTAINERS for node in nodes)
    if rule is None and not deep:
        return None
    return DocumentRules([] if rule is None else _make_validators(read_schema(text), rule), deep)


class DocumentRules:
    """Refuses documents that a validator refuses, and documents nested too deeply (`deep`: such may occur)."""

    def __init__(self, validators: Sequence[jsonschema_rs.Validator], deep: bool) -> None:
        self._validators = validators
        self._deep = deep

    def check(self, payloads: pa.LargeBinaryArray, begin: int) -> None:
        """Raise InvalidRowError for the first refused document. Each document begins after `begin` bytes."""
        for row, payload in enumerate(payloads.to_pylist()):
            document = payload[begin:]
            if self._deep and len(document) > DEEPEST and is_nested_deeper(document.decode(), DEEPEST):
                _refuse(row, f"its arrays and objects are nested more than {DEEPEST} levels deep")
            if not self._validators:
                continue
            value = json.loads(document)
            for validator in self._validators:
                error = next(validator.iter_errors(value), None)
                if error is not None:
                    _refuse(row, _describe_error(error))


def _refuse(row: int, reason: str) -> NoReturn:
    raise InvalidRowError(f"row {row} of the batch cannot be written: {reason}")


def _describe_error(error: jsonschema_rs.ValidationError) -> str:
    path = ""
    for step in error.instance_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    value = shorten(json.dumps(error.instance, ensure_ascii=False, default=str))
    where = f"column '{path}' is {value}" if path else "the row"
    rule = "/".join(map(str, error.schema_path))
    return f"{where}, which the JSON schema refuses at '{rule}': {shorten(error.message)}"


def _make_validators(root: Any, rule: str) -> list[jsonschema_rs.Validator]:
    try:
        import jsonschema_rs
    except ImportError:
        raise InvalidSchemaError(
            f"the JSON schema says {rule}, so each row is checked before it is written, but the Python package "
            "jsonschema-rs, which checks it, is missing; install it on all machines"
        ) from None
    draft = str(root.get("$schema", "")) if isinstance(root, dict) else ""
    named = next((name for sign, name in _DRAFTS.items() if sign in draft), None)
    old = "draft-03" in draft or (named is None and is_draft3(root))
    if isinstance(root, dict):
        root = {key: inner for key, inner in root.items() if key != "$schema"}
    if old:
        root, named = convert_to_draft4(root), "Draft4Validator"
    validators: list[jsonschema_rs.Validator] = []
    reasons: list[str] = []
    for name in (named,) if named else (*_OLD, _NEW):
        if name in _OLD and validators:
            continue  # draft 4 stands for drafts before 7, and is tried only where draft 7 does not accept the schema
        try:
            make: Callable[..., jsonschema_rs.Validator] = getattr(jsonschema_rs, name)
            validators.append(make(root, validate_formats=name in _WITH_FORMATS, retriever=_refuse_retrieval))
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            reasons.append(str(error).split("\n", 1)[0])
    if not validators:
        raise InvalidSchemaError(
            f"the JSON schema says {rule}, so each row is checked before it is written, but the schema cannot be used "
            f"for that: {shorten(reasons[0])}"
        )
    return validators


def _refuse_retrieval(address: str) -> NoReturn:
    raise ValueError(f"the schema refers to '{address}', which it does not contain")


def _is_foreign_timestamp(node: model.Node) -> bool:
    return isinstance(node, model.Scalar) and node.foreign and isinstance(node.type, (TimestampType, TimestampNTZType))


def _iterate_nodes(root: model.Node) -> Iterator[model.Node]:
    left = [root]
    while left:
        node = left.pop()
        yield node
        match node:
            case model.Object():
                left += node.properties.values()
            case model.Array(items=inner) | model.Map(values=inner):
                left.append(inner)
