"""Models Kafka Connect's schemas, by which Debezium describes the encoding of values, in JSON envelopes and in Avro.

A field has a kind (`int64`, `bytes`, `struct`, ...) and may have the name of a semantic type that says what its values
mean, such as `io.debezium.time.MicroTimestamp` or `org.apache.kafka.connect.data.Decimal`. In Avro the name is
the annotation `connect.name`, or a logical type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark_pravega.errors import InvalidSchemaError

from ...avro import schema_model as avro

DECIMAL = "org.apache.kafka.connect.data.Decimal"

_PRECISION = "connect.decimal.precision"

_LOGICAL_NAMES = {
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    **dict.fromkeys(("timestamp-millis", "local-timestamp-millis"), "org.apache.kafka.connect.data.Timestamp"),
    **dict.fromkeys(("timestamp-micros", "local-timestamp-micros"), "io.debezium.time.MicroTimestamp"),
    **dict.fromkeys(("timestamp-nanos", "local-timestamp-nanos"), "io.debezium.time.NanoTimestamp"),
    "uuid": "io.debezium.data.Uuid",
}
"""The semantic types that Avro's logical types stand for."""

_KINDS = {"int": "int32", "long": "int64", "float": "float32", "double": "float64"}
"""Connect's names for the kinds of Avro, and of float and double in the schemas of its JSON converter."""

_MAP_ENTRY, _ENTRY_FIELDS = "MapEntry", ["key", "value"]
"""The record by which Confluent's converter writes entries of maps whose keys are not strings."""


@dataclass(frozen=True)
class FieldSchema:
    """Describes the values of one field.

    `kind` is Connect's (`int8` ... `int64`, `float32`, `float64`, `boolean`, `string`, `bytes`, `array`, `map`,
    `struct`), or "union" for an Avro union of several types. `name` is "" for a plain value; `scale` and `precision`
    (0: unknown) belong to decimals.
    """

    kind: str
    name: str = ""
    scale: int = 0
    fields: Mapping[str, FieldSchema] = field(default_factory=dict)
    element: FieldSchema | None = None
    """The schema of an array's elements or a map's values."""
    precision: int = 0
    key: FieldSchema | None = None
    """The schema of a map's keys."""
    raw: bool = False
    """Whether values are bytes, as in Avro. In JSON they are base64."""


def read_json(node: Any) -> FieldSchema | None:
    """Read the schema that an envelope carries as JSON; return None for anything else."""
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        return None
    fields = {}
    members = node.get("fields")
    for member in members if isinstance(members, list) else ():
        schema = read_json(member)
        if schema is not None:
            fields[str(member.get("field"))] = schema
    parameters = node.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    scale, precision = _parse_whole(parameters.get("scale")), _parse_whole(parameters.get(_PRECISION))
    kind = str(node["type"])
    kind = _KINDS.get(kind, kind)
    element = read_json(node.get("items") if kind == "array" else node.get("values"))
    return FieldSchema(
        kind, str(node.get("name") or ""), scale, fields, element, precision, read_json(node.get("keys"))
    )


def read_avro(node: avro.Node, around: tuple[avro.Record, ...] = ()) -> FieldSchema | None:
    """Return the schema of an Avro type in these records, None for null. Raises InvalidSchemaError for recursion."""
    branches = avro.split_null(node)[0]
    if len(branches) != 1:
        return _read_branches([read_avro(branch, around) for branch in branches]) if branches else None
    only = branches[0]
    name = str(only.attributes.get("connect.name") or "")
    if isinstance(only, avro.Record):
        around = _enter(only, around)
        fields = {field.name: schema for field in only.fields if (schema := read_avro(field.type, around)) is not None}
        return FieldSchema("struct", name or only.name, 0, fields, raw=True)
    if isinstance(only, avro.Array):
        entry = _find_entry(only)
        if entry is not None:
            around = _enter(entry, around)
            key, value = (read_avro(part.type, around) for part in entry.fields)
            return FieldSchema("map", name, element=value, key=key, raw=True)
        return FieldSchema("array", name, element=read_avro(only.items, around), raw=True)
    if isinstance(only, avro.Map):
        return FieldSchema("map", name, element=read_avro(only.values, around), key=FieldSchema("string"), raw=True)
    if isinstance(only, avro.Primitive | avro.Fixed):
        return _read_scalar(only, name)
    return FieldSchema("string", name, raw=True)


def _enter(record: avro.Record, around: tuple[avro.Record, ...]) -> tuple[avro.Record, ...]:
    if any(outer is record for outer in around):
        raise InvalidSchemaError(
            f"the record '{record.name}' contains itself, and Debezium's events have no recursive schemas"
        )
    return (*around, record)


def _read_branches(branches: Sequence[FieldSchema | None]) -> FieldSchema:
    """Return a schema for values of several types: numbers if all are numbers, else "union"."""
    kinds = {"" if branch is None or branch.name else branch.kind for branch in branches}
    if kinds <= {"int32", "int64"}:
        return FieldSchema("int64", raw=True)
    return FieldSchema("float64" if kinds <= {"int32", "int64", "float32", "float64"} else "union", raw=True)


def _find_entry(array: avro.Array) -> avro.Record | None:
    """Return the record of key and value if an array has the entries of a map, as Confluent's AvroData writes them."""
    record = array.items
    if not isinstance(record, avro.Record) or [field.name for field in record.fields] != _ENTRY_FIELDS:
        return None
    internal = record.attributes.get("connect.internal.type")
    if internal != _MAP_ENTRY and record.name != f"io.confluent.connect.avro.{_MAP_ENTRY}":
        return None
    return record


def _read_scalar(only: avro.Primitive | avro.Fixed, name: str) -> FieldSchema | None:
    kind = _KINDS.get(only.name, only.name) if isinstance(only, avro.Primitive) else "bytes"
    short = only.attributes.get("connect.type")
    if kind == "int32" and short in ("int8", "int16"):
        kind = str(short)
    parameters = only.attributes.get("connect.parameters") or {}
    if name == DECIMAL:
        # The attribute "precision" does not count: it is the converter's default where the column has none.
        scale = _parse_whole(only.attributes.get("scale", parameters.get("scale")))
        return FieldSchema(kind, name, scale, precision=_parse_whole(parameters.get(_PRECISION)), raw=True)
    if only.logical == "decimal":
        return FieldSchema(kind, DECIMAL, only.scale, precision=only.precision, raw=True)
    logical = only.attributes.get("logicalType")
    semantic = _LOGICAL_NAMES.get(logical, "") if isinstance(logical, str) and isinstance(only, avro.Primitive) else ""
    return FieldSchema(kind, name or semantic, raw=True)


def _parse_whole(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0
