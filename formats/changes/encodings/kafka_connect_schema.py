"""Models Kafka Connect's schemas: what Debezium says about the encoding of values, in JSON envelopes and in Avro.

A field has a kind (`int64`, `bytes`, `struct`, ...) and may have the name of a semantic type that says what its values
stand for, such as `io.debezium.time.MicroTimestamp` or `org.apache.kafka.connect.data.Decimal`. In Avro the name is
the annotation `connect.name`, or a logical type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...avro import schema_model as avro

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_SCALE_DECIMAL = "io.debezium.data.VariableScaleDecimal"

_PRECISION = "connect.decimal.precision"

DATE_UNITS = {"io.debezium.time.Date": "d", "org.apache.kafka.connect.data.Date": "d"}
TIMESTAMP_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
TIME_OF_DAY_UNITS = {
    "io.debezium.time.Time": "ms",
    "io.debezium.time.MicroTime": "us",
    "io.debezium.time.NanoTime": "ns",
    "org.apache.kafka.connect.data.Time": "ms",
}
"""What a whole number of a semantic type counts."""

_LOGICAL_NAMES = {
    "date": "org.apache.kafka.connect.data.Date",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "local-timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}


@dataclass(frozen=True)
class FieldSchema:
    """What a schema says about the values of one field.

    `name` is "" for a plain value; `scale` and `precision` (0: not told) are those of decimals.
    """

    kind: str
    name: str = ""
    scale: int = 0
    fields: Mapping[str, FieldSchema] = field(default_factory=dict)
    element: FieldSchema | None = None
    """Of an array's elements or a map's values."""
    precision: int = 0


def of_json(node: Any) -> FieldSchema | None:
    """Return the schema that an envelope carries as JSON; None for anything else."""
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        return None
    fields = {}
    members = node.get("fields")
    for each in members if isinstance(members, list) else ():
        found = of_json(each)
        if found is not None:
            fields[str(each.get("field"))] = found
    parameters = node.get("parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    scale, precision = _whole(parameters.get("scale")), _whole(parameters.get(_PRECISION))
    name = node.get("name") if fields == {} or node.get("name") == VARIABLE_SCALE_DECIMAL else ""
    element = of_json(node.get("items") if node["type"] == "array" else node.get("values"))
    return FieldSchema(node["type"], str(name or ""), scale, fields, element, precision)


def of_avro(node: avro.Node) -> FieldSchema | None:
    """Return the schema that an Avro type stands for; None for a union of several types, which has no one meaning."""
    branches = avro.without_null(node)[0]
    if len(branches) != 1:
        return None
    only = branches[0]
    name = str(only.attributes.get("connect.name") or "")
    if isinstance(only, avro.Record):
        fields = {each.name: found for each in only.fields if (found := of_avro(each.type)) is not None}
        return FieldSchema("struct", name if name == VARIABLE_SCALE_DECIMAL else "", 0, fields)
    if isinstance(only, avro.Array):
        return FieldSchema("array", element=of_avro(only.items))
    if isinstance(only, avro.Map):
        return FieldSchema("map", element=of_avro(only.values))
    if isinstance(only, avro.Primitive | avro.Fixed):
        kind = only.name if isinstance(only, avro.Primitive) else "bytes"
        parameters = only.attributes.get("connect.parameters") or {}
        if name == DECIMAL:
            # The precision beside it is the converter's default where the column has none.
            scale = _whole(only.attributes.get("scale", parameters.get("scale")))
            return FieldSchema(kind, name, scale, precision=_whole(parameters.get(_PRECISION)))
        if only.logical == "decimal":
            return FieldSchema(kind, DECIMAL, only.scale, precision=only.precision)
        return FieldSchema(kind, name or _LOGICAL_NAMES.get(only.logical or "", ""))
    return FieldSchema("string", name)


def _whole(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        return 0
