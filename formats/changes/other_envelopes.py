"""Names events of other programs among those of Debezium or Maxwell, so that the advice is about what is there.

Only events that are bad already are looked at. Sources: the CloudEvents specification 1.0 and Debezium's converter for
it, Canal's FlatMessage, the JSON messages of AWS DMS for Kafka and Kinesis, Oracle GoldenGate's JSON formatter, and
Maxwell's reference of its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEBEZIUM_JSON, MAXWELL_JSON = "debezium-json", "maxwell-json"

_CLOUD_EVENT = {"specversion", "type"}
_CANAL = ("isDdl", "mysqlType", "pkNames")
_MAXWELL = {"database", "table", "type", "data"}


def advice_about(event: Mapping[str, Any], wanted: str) -> str | None:
    """Return what an event is and what can be done with it; None if it is of no program that is known here.

    `wanted`: the format as which it was read.
    """
    data, metadata = event.get("data"), event.get("metadata")
    if event.keys() >= _CLOUD_EVENT:
        return (
            "it is a CloudEvent, which wraps the change; let the connector write the change itself: "
            "'value.converter'='org.apache.kafka.connect.json.JsonConverter', or in Debezium Server "
            "'debezium.format.value'='json'"
        )
    if any(name in event for name in _CANAL):
        return (
            "it is an event of Canal's, which holds several rows; Canal is not supported: capture the changes with "
            "Debezium or Maxwell, or read its events as they are with 'format'='json'"
        )
    if type(metadata) is dict and "record-type" in metadata:
        return (
            "it is an event of AWS DMS, which is not supported as a change; read it as it is with 'format'='json' and "
            "the columns 'data' and 'metadata'"
        )
    if "op_type" in event:
        return (
            "it is an event of Oracle GoldenGate, which is not supported as a change; read it as it is with "
            "'format'='json'"
        )
    if wanted != DEBEZIUM_JSON and type(event.get("op")) is str and type(event.get("source")) is dict:
        return "it is a change event of Debezium's; set 'format'='debezium-json'"
    if wanted != MAXWELL_JSON and event.keys() >= _MAXWELL and type(data) is dict:
        return "it is an event of Maxwell's; set 'format'='maxwell-json'"
    return None
