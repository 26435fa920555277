"""Events of other programs in tables of changes: the reason names what they are and what to do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pyspark.sql import types as t

from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format

ROW = {"id": 1, "name": "x"}
SOURCE = {"version": "3.6.1.Final", "connector": "postgresql", "name": "dbz", "lsn": 5}
DEBEZIUM = {"op": "c", "before": None, "after": ROW, "source": SOURCE, "ts_ms": 5}
MAXWELL = {"database": "shop", "table": "orders", "type": "insert", "ts": 1, "xid": 2, "commit": True, "data": ROW}
CLOUD_EVENT = {
    "id": "name:dbz;lsn:29274832;txId:565", "source": "/debezium/postgresql/dbz", "specversion": "1.0",
    "type": "io.debezium.connector.postgresql.DataChangeEvent", "time": "2020-01-13T13:55:39.738Z",
    "datacontenttype": "application/json", "iodebeziumop": "r", "iodebeziumlsn": "29274832",
    "data": {"before": None, "after": ROW},
}  # fmt: skip
CANAL = {
    "data": [{"id": "1", "name": "x"}], "database": "shop", "es": 1, "id": 2, "isDdl": False, "old": None,
    "mysqlType": {"id": "int", "name": "varchar(20)"}, "pkNames": ["id"], "sql": "", "sqlType": {"id": 4, "name": 12},
    "table": "orders", "ts": 3, "type": "INSERT",
}  # fmt: skip
DMS = {
    "data": ROW,
    "metadata": {
        "timestamp": "2019-10-31T22:53:59.721201Z", "record-type": "data", "operation": "insert",
        "partition-key-type": "primary-key", "schema-name": "shop", "table-name": "orders",
    },
}  # fmt: skip
GOLDEN_GATE = {
    "table": "SHOP.ORDERS", "op_type": "I", "op_ts": "2013-06-02 22:14:36.000000",
    "current_ts": "2015-09-18T10:17:49.570000", "pos": "00000000000000001444", "primary_keys": ["ID"],
    "after": {"ID": 1, "NAME": "x"},
}  # fmt: skip
SCHEMA = {"type": "struct", "fields": [{"field": "id", "type": "string"}]}


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        (CLOUD_EVENT, "it is a CloudEvent, .*'value.converter'='org.apache.kafka.connect.json.JsonConverter'"),
        ({"schema": SCHEMA, "payload": CLOUD_EVENT}, "it is a CloudEvent, .* 'debezium.format.value'='json'"),
        (CANAL, "it is a Canal event, .* capture the changes with Debezium or Maxwell"),
        (DMS, "it is an AWS DMS event, .* 'format'='json' and the columns 'data' and 'metadata'"),
        (GOLDEN_GATE, "it is an Oracle GoldenGate event, .* 'format'='json'"),
    ],
)
def test_the_program_is_named(event: dict[str, Any], advice: str) -> None:
    reasons = [reason_of("debezium-json", event, DEBEZIUM)]
    if "payload" not in event:
        # Maxwell has no schemas around its events.
        reasons.append(reason_of("maxwell-json", event, MAXWELL))
    for reason in reasons:
        assert re.search(advice, reason), reason
        assert "ExtractNewRecordState" not in reason


def test_debezium_and_maxwell_name_each_other() -> None:
    assert reason_of("debezium-json", MAXWELL, DEBEZIUM).endswith("set 'format'='maxwell-json'")
    assert reason_of("maxwell-json", DEBEZIUM, MAXWELL).endswith("set 'format'='debezium-json'")
    other = {**MAXWELL, "type": "other"}
    assert reason_of("maxwell-json", other, MAXWELL) == "its 'type' is 'other', which Maxwell does not have"


def reason_of(format_name: str, event: dict[str, Any], own: dict[str, Any]) -> str:
    """Why an event is bad between two that are good."""
    table = t.StructType([t.StructField("id", t.LongType()), t.StructField("name", t.StringType())])
    format = find_format(format_name)
    decoder = format.decoder(Layout(changelog_schema(table), format.schema_text(Layout(table), "t", "s")))
    payloads = [json.dumps(document).encode() for document in (own, event, own)]
    batch, bad = decoder.decode_valid(EventBuffer.of(payloads))
    assert [row["after"] for row in batch.to_pylist()] == [ROW, ROW]
    assert [bad_event.index for bad_event in bad] == [1]
    return bad[0].reason
