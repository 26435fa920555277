"""Edits the fields of an Avro record, so that readers of the new schema read events of the old one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField

from pyspark_pravega.errors import UnsupportedOperationError

from ..core.edited_columns import REVISION, EditedColumn
from ..core.spark_types import ELEMENT, VALUE, replace_description
from ..core.spark_visitor import join_path
from . import schema_model as avro
from .schema_to_spark import list_targets
from .spark_to_schema import MICROS, add_avro_default, convert_field_to_avro

_NULLS = ("null", {"type": "null"})


def edit_avro(text: str, columns: Sequence[EditedColumn], revision: int | None, timestamps: str = MICROS) -> str:
    """Return the schema with these columns as its fields.

    A field that stays keeps all its attributes. A renamed field gets its old name as an alias, by which readers find it
    in old events. `timestamps` is the unit of new columns: "micros" or "millis".
    """
    record = json.loads(text)
    if not isinstance(record, dict) or record.get("type") != "record":
        raise UnsupportedOperationError("Its Avro schema is not a record, so it has no columns that could be changed.")
    record = _edit_record(record, columns, timestamps, "", "")
    if revision is not None:
        record[REVISION] = revision
    return json.dumps(record, ensure_ascii=False)


def find_former_names(text: str) -> Mapping[tuple[str, ...], Sequence[str]]:
    """Return the aliases of all fields that have any, by the parts of their names."""
    return dict(_iterate_aliases(avro.parse_avro(text), ()))


def _iterate_aliases(
    node: avro.Node, path: tuple[str, ...], inside: tuple[avro.Node, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Sequence[str]]]:
    match list_targets(node):
        case [avro.Record() as record] if not any(record is outer for outer in inside):
            for field in record.fields:
                if field.aliases:
                    yield (*path, field.name), field.aliases
                yield from _iterate_aliases(field.type, (*path, field.name), (*inside, record))
        case [avro.Array() as array]:
            yield from _iterate_aliases(array.items, (*path, ELEMENT), inside)
        case [avro.Map() as pairs]:
            yield from _iterate_aliases(pairs.values, (*path, VALUE), inside)


def _edit_record(
    record: dict[str, Any], columns: Sequence[EditedColumn], timestamps: str, namespace: str, path: str
) -> dict[str, Any]:
    """Return a record of these fields. `namespace` is the surrounding namespace, `path` the record's column."""
    old = {field["name"]: field for field in record["fields"]}
    name, own = record["name"], record.get("namespace", namespace)
    full_name = f"{own}.{name}" if own and "." not in name else name
    return record | {"fields": [_edit_field(column, old, timestamps, full_name, path) for column in columns]}


def _edit_field(
    column: EditedColumn, old: dict[str, dict[str, Any]], timestamps: str, full_name: str, path: str
) -> dict[str, Any]:
    if column.source is None:
        return convert_field_to_avro(column.field, full_name, timestamps)
    before = old[column.source]
    new_type = _edit_type(
        before["type"], column, timestamps, full_name.rpartition(".")[0], join_path(path, column.source)
    )
    field = before | {"type": new_type}
    if (column.retyped or column.relaxed) and column.field.nullable:
        # A default belongs to the first type of a union.
        default = before.get("default")
        field = field | {"default": None} if default is None else add_avro_default(field, default)
    if column.source != column.field.name:
        convert_field_to_avro(column.field, full_name)  # only to check the name
        field = field | {"name": column.field.name, "aliases": [*field.get("aliases", []), column.source]}
    return replace_description(field, column.field.metadata, "doc")


def _edit_type(node: Any, column: EditedColumn, timestamps: str, namespace: str, path: str) -> Any:
    """Return the new type of an existing column, or of its elements or values."""
    if column.retyped:
        field = StructField("x", column.field.dataType, column.field.nullable)
        return convert_field_to_avro(field, "", timestamps)["type"]
    if column.parts is not None:
        node = _edit_container(node, column.parts, timestamps, namespace, path)
    if column.relaxed:
        return ["null", *node] if isinstance(node, list) else ["null", node]
    return node


def _edit_container(node: Any, parts: Sequence[EditedColumn], timestamps: str, namespace: str, path: str) -> Any:
    if isinstance(node, list) and len([branch for branch in node if branch not in _NULLS]) == 1:
        return [
            branch if branch in _NULLS else _edit_container(branch, parts, timestamps, namespace, path)
            for branch in node
        ]
    kind = node.get("type") if isinstance(node, dict) else None
    if isinstance(kind, (dict, list)):
        return node | {"type": _edit_container(kind, parts, timestamps, namespace, path)}
    if kind == "record":
        return _edit_record(node, parts, timestamps, namespace, path)
    for container, inner, name in (("array", "items", ELEMENT), ("map", "values", VALUE)):
        if kind == container:
            return node | {inner: _edit_type(node[inner], parts[-1], timestamps, namespace, join_path(path, name))}
    what = "is a union" if isinstance(node, list) else "has a type that other parts of the schema share"
    raise UnsupportedOperationError(
        f"Column {path} {what}, in a schema made by another program, so nothing in it can be changed here."
    )
