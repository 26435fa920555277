"""Events of Connect's JSON converter as Confluent's Avro converter writes them, by the mapping of its class AvroData.

Its jars are not where this project takes its libraries from, so the mapping is written down here: primitive types and
their `connect.type`, names and parameters as `connect.name` and `connect.parameters`, optional types as unions with
null, maps whose keys are not strings as arrays of records `MapEntry` with `key` and `value`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro

from tests.interop.kafka_connect import ConnectCase

_PRIMITIVES = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


class _Schemas:
    def __init__(self) -> None:
        self._records = 0

    def _name(self) -> str:
        self._records += 1
        return f"R{self._records}"

    def of(self, node: dict[str, Any]) -> Any:
        """The Avro schema of a Connect schema."""
        found = self._plain(node)
        return ["null", found] if node.get("optional") else found

    def _plain(self, node: dict[str, Any]) -> dict[str, Any]:
        kind = node["type"]
        named = {"connect.name": node["name"]} if node.get("name") else {}
        if node.get("parameters"):
            named["connect.parameters"] = node["parameters"]
        if kind == "struct":
            record = {"type": "record", "name": self._name()}
            fields = [{"name": each["field"], "type": self.of(each)} for each in node["fields"]]
            return record | {"fields": fields, **named}
        if kind == "array":
            return {"type": "array", "items": self.of(node["items"]), **named}
        if kind == "map" and node["keys"]["type"] == "string" and not node["keys"].get("optional"):
            return {"type": "map", "values": self.of(node["values"]), **named}
        if kind == "map":
            entry = {"type": "record", "name": self._name(), "connect.internal.type": "MapEntry"}
            fields = [{"name": name, "type": self.of(node[f"{name}s"])} for name in ("key", "value")]
            return {"type": "array", "items": entry | {"fields": fields}, **named}
        short = {"connect.type": kind} if kind in ("int8", "int16") else {}
        decimal = {"scale": int(node["parameters"]["scale"])} if node.get("name") == _DECIMAL else {}
        return {"type": _PRIMITIVES[kind], **short, **decimal, **named}


def _value(node: dict[str, Any], value: Any) -> Any:
    """The value that the Avro writer takes for a value of JSON."""
    kind = node["type"]
    if value is None:
        return None
    if kind == "struct":
        return {each["field"]: _value(each, value[each["field"]]) for each in node["fields"]}
    if kind == "array":
        return [_value(node["items"], each) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {key: _value(node["values"], each) for key, each in value.items()}
    if kind == "map":
        return [{"key": _value(node["keys"], key), "value": _value(node["values"], each)} for key, each in value]
    if kind == "bytes":
        return base64.b64decode(value)
    return float(value) if kind in ("float", "double") else value


def avro_events(cases: Sequence[ConnectCase]) -> tuple[list[bytes], dict[str, str]]:
    """The events with Confluent's framing, and the table property with their schemas."""
    schemas: dict[str, tuple[int, Any, Any]] = {}
    events = []
    for case in cases:
        document = json.loads(case.event)
        connect = _without_defaults(document["schema"])
        text = json.dumps(connect)
        if text not in schemas:
            avro = _Schemas().of(connect)
            schemas[text] = len(schemas) + 1, avro, fastavro.parse_schema(json.loads(json.dumps(avro)))
        number, _, parsed = schemas[text]
        out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
        out.seek(5)
        fastavro.schemaless_writer(out, parsed, _value(connect, document["payload"]))
        events.append(out.getvalue())
    return events, {"debezium__avro_schemas": json.dumps({number: avro for number, avro, _ in schemas.values()})}


def _without_defaults(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_defaults(each) for each in node]
    if isinstance(node, dict):
        return {key: _without_defaults(each) for key, each in node.items() if key not in ("default", "doc")}
    return node
