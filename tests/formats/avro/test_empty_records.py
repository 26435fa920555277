"""Records without fields: columns of structs without fields, of which it can be seen whether they are there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.both_paths import BothPaths
from tests.formats.core.test_evolution import field, record

AVRO = find_format("avro")
BEAT = {"type": "record", "name": "Beat", "fields": []}

EVENTS: list[tuple[Any, str, bytes, Any]] = [
    (BEAT, "struct<>", b"", {}),
    (["null", BEAT], "struct<>", b"\2", {}),
    (["null", BEAT], "struct<>", b"\0", None),
    (["string", BEAT], "struct<member0:string,member1:struct<>>", b"\2", {"member0": None, "member1": {}}),
    ({"type": "array", "items": BEAT}, "array<struct<>>", b"\4\0", [{}, {}]),
    ({"type": "array", "items": ["null", BEAT]}, "array<struct<>>", b"\4\0\2\0", [None, {}]),
    ({"type": "map", "values": BEAT}, "map<string,struct<>>", b"\2\2k\0", [("k", {})]),
    (record(field("b", BEAT), name="Outer"), "struct<b:struct<>>", b"", {"b": {}}),
]


@pytest.mark.parametrize(("avro_type", "spark_type", "data", "value"), EVENTS, ids=str)
def test_read_and_written(avro_type: Any, spark_type: str, data: bytes, value: Any) -> None:
    text = json.dumps(record(field("a", "int"), field("c", avro_type), field("z", "int")))
    schema = AVRO.spark_schema(text)
    assert schema["c"].dataType.simpleString() == spark_type
    payload = b"\2" + data + b"\4"
    batch, bad = BothPaths("avro", schema, text).check(EventBuffer.of([payload, payload]))
    assert (batch.to_pylist(), bad) == ([{"a": 1, "c": value, "z": 2}] * 2, [])
    assert AVRO.encoder(Layout(schema, text)).encode(batch).to_pylist() == [payload, payload]


def test_a_root_without_fields_has_rows_without_columns() -> None:
    text = json.dumps(BEAT)
    schema = AVRO.spark_schema(text)
    assert schema.names == []
    batch, bad = BothPaths("avro", schema, text).check(EventBuffer.of([b"", b"", b"x"]))
    assert batch.num_rows == 2
    assert [event.index for event in bad] == [2]


def test_a_few_bytes_cannot_claim_billions_of_elements() -> None:
    text = json.dumps(record(field("c", {"type": "array", "items": {"type": "array", "items": BEAT}})))
    schema = AVRO.spark_schema(text)
    most = b"\2\xa0\x9c\1\0\0"
    twice = b"\4\xa0\x9c\1\0\2\0\0"
    events = [most, twice, most, b"\2\xfe\xff\xff\xff\x0f\0\0"]
    batch, bad = BothPaths("avro", schema, text).check(EventBuffer.of(events))
    assert [len(row["c"][0]) for row in batch.to_pylist()] == [10_000, 10_000]
    assert [(event.index, event.reason) for event in bad] == [
        (place, "it has more than 10,000 elements that take no bytes") for place in (1, 3)
    ]
