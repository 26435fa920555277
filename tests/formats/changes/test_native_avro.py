"""Debezium's envelopes of Avro read natively: what comes out is what the reference reads, and most never see it."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from pyspark_pravega import native
from pyspark_pravega.formats.changes.debezium.avro import _EnvelopeReader
from pyspark_pravega.formats.core.events import EventBuffer, find_rare_events, find_texts
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.changes.test_debezium_encodings import columns
from tests.formats.changes.test_native_reader import folded
from tests.formats.fuzzing import COUNT, damaged

CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."


def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "connect.name": name, **more}


DECIMAL = named("bytes", CONNECT + "Decimal", logicalType="decimal", precision=12, scale=3)
FIELDS: dict[str, tuple[Any, t.DataType, list[Any]]] = {
    "id": ("long", t.LongType(), [0, -1, 2**62]),
    "small": ({"type": "int", "connect.type": "int16"}, t.ShortType(), [0, 32767, 40_000]),
    "name": ("string", t.StringType(), ["", "é", "x" * 300, "__debezium_unavailable_value"]),
    "uuid": (named("string", "io.debezium.data.Uuid"), t.StringType(), ["b0a7"]),
    "ok": ("boolean", t.BooleanType(), [True, False]),
    "single": ("float", t.FloatType(), [0.5, float("inf"), float("nan")]),
    "wider": ("float", t.DoubleType(), [0.1, -0.0]),
    "double": ("double", t.DoubleType(), [0.1, float("-inf"), 1e300]),
    "raw": ("bytes", t.BinaryType(), [b"", b"\0\xff", b"__debezium_unavailable_value"]),
    "price": (DECIMAL, t.DecimalType(12, 3), [b"\1", b"\xff\x38", b"\x7f" * 9, b""]),
    "coarse": (DECIMAL, t.DecimalType(12, 2), [b"\x0a", b"\x0b"]),
    "day": (named("int", TIME + "Date"), t.DateType(), [0, 19_782, -800_000, 2**31 - 1]),
    "ms": (named("long", TIME + "Timestamp"), t.TimestampNTZType(), [1, -62_135_596_800_001, 2**62]),
    "us": (named("long", TIME + "MicroTimestamp"), t.TimestampNTZType(), [1, 253_402_300_800_000_000]),
    "number": (named("long", TIME + "MicroTimestamp"), t.LongType(), [5]),
}
TABLE = columns(**{name: data_type for name, (_, data_type, _) in FIELDS.items()}, later=t.StringType())


def envelope(names: list[str], *, null_last: bool = False, source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A schema of envelopes with these columns and one that no table has."""
    nullable = (lambda kind: [kind, "null"]) if null_last else (lambda kind: ["null", kind])
    fields = [{"name": name, "type": nullable(FIELDS[name][0])} for name in names]
    fields.append({"name": "unwanted", "type": ["null", {"type": "array", "items": "int"}]})
    members = source or {"connector": "string", "name": "string", "db": "string", "lsn": nullable("long")}
    members = {"ts_ms": "long", "snapshot": nullable("string"), **members}
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": nullable({"type": "record", "name": "Value", "fields": fields})},
            {"name": "after", "type": nullable("Value")},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
                {"name": name, "type": kind} for name, kind in members.items()
            ]}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": nullable("long")},
        ],
    }  # fmt: skip


def written(schema: dict[str, Any], value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def make_event(schema: dict[str, Any], names: list[str], chance: random.Random, **source: Any) -> bytes:
    """An event of a schema with good values, and rarely others."""

    def image() -> dict[str, Any]:
        values = {}
        for name in names:
            _, _, possible = FIELDS[name]
            values[name] = chance.choice(possible if chance.random() < 0.05 else [possible[0], None])
        return values | {"unwanted": chance.choice([None, [1, 2]])}

    operation = chance.choice("ccuurdtm")
    block = {"connector": "postgresql", "name": "dbz", "db": "shop", "lsn": chance.randrange(10**6), "ts_ms": 7}
    value = {
        "before": image() if operation in "ud" else None,
        "after": image() if operation in "cur" else None,
        "source": block | {"snapshot": chance.choice([None, "false", "last"])} | source,
        "op": operation,
        "ts_ms": chance.choice([None, 1_700_000_000_123]),
    }
    return written(schema, value)


@pytest.fixture
def by_reference(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many events each call of the reference had."""
    counts: list[int] = []
    real = _EnvelopeReader.arrays

    def counted(self: _EnvelopeReader, payloads: EventBuffer, *more: Any) -> list[pa.Array]:
        counts.append(len(payloads))
        return real(self, payloads, *more)

    monkeypatch.setattr(_EnvelopeReader, "arrays", counted)
    return counts


def confluent_paths(schemas: Mapping[int, dict[str, Any]], table: t.StructType = TABLE) -> BothPaths:
    text = find_format("debezium-avro").schema_text(Layout(table), "t", "s")
    return BothPaths("debezium-avro", folded(table), text, None, {"debezium.avro-schemas": json.dumps(schemas)})


def framed(number: int, datum: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + datum


@needs_native
def test_events_of_several_schemas_in_any_order() -> None:
    """With tombstones, unknown ids and damaged events among them."""
    chance = random.Random(1)
    names = list(FIELDS)
    mysql = {
        "connector": "string",
        "name": "string",
        "server_id": "long",
        "file": "string",
        "pos": "long",
        "row": "int",
    }
    at = {"server_id": 5, "file": "binlog.000004", "pos": 77, "row": 2}
    schemas = {
        7: envelope(names),
        70_000: envelope(names[::-1][:9], null_last=True),
        8: envelope(names, source=mysql),
        9: envelope(names, source={"connector": "string", "lsn": "string"}),  # only the reference reads it
    }
    both = confluent_paths(schemas)
    for _ in range(max(COUNT // 2500, 1)):
        events = []
        for _ in range(600):
            number = chance.choice([7, 7, 7, 70_000, 8, 9])
            used = names[::-1][:9] if number == 70_000 else names
            source: dict[str, Any] = at if number == 8 else {"lsn": "x"} if number == 9 else {}
            event = framed(number, make_event(schemas[number], used, chance, **source))
            kind = chance.random()
            events.append(b"" if kind < 0.01 else damaged(event, chance) if kind < 0.05 else event)
        events.insert(300, framed(99, b"\0"))
        both.check(EventBuffer.of(events), masked=False)


@needs_native
def test_changes_without_doubt_never_see_the_reference(by_reference: list[int]) -> None:
    chance = random.Random(2)
    schemas = {7: envelope(["id", "name", "day", "price"]), 8: envelope(["id", "us"])}
    table = columns(id=t.LongType(), name=t.StringType(), day=t.DateType(), us=t.TimestampNTZType())
    both = confluent_paths(schemas, table)
    value: dict[str, Any] = {
        "source": {"connector": "postgresql", "name": "a", "db": "b", "lsn": 1, "ts_ms": 1, "snapshot": None}
    }
    value |= {"op": "c", "before": None, "ts_ms": 1}
    rows: dict[int, dict[str, Any]] = {7: {"id": 1, "name": "n", "day": 5, "price": None}, 8: {"id": 2, "us": 3}}
    events = [
        framed(number, written(schemas[number], value | {"after": rows[number] | {"unwanted": None}}))
        for number in (chance.choice([7, 8]) for _ in range(100))
    ]
    both.check(EventBuffer.of(events))
    by_reference.clear()
    both.native.decode(EventBuffer.of(events))
    assert by_reference == []
    both.native.decode(EventBuffer.of([*events, b"", framed(7, written(schemas[7], value | {
        "after": {"id": 1, "name": "__debezium_unavailable_value", "day": 5, "price": None, "unwanted": None}
    }))]))  # fmt: skip
    assert by_reference == [2]


@needs_native
def test_structs_are_read_natively(by_reference: list[int]) -> None:
    """By the names of their fields, with the dates in them that Spark does not have."""
    inner = [{"name": "day", "type": FIELDS["day"][0]}, {"name": "x", "type": ["null", "double"]}]
    point = {"type": "record", "name": "Point", "fields": inner}
    schema = envelope(["id"])
    schema["fields"][0]["type"][1]["fields"].append({"name": "p", "type": ["null", point]})
    struct = t.StructType([t.StructField(name, kind) for name, kind in
                           (("x", t.DoubleType()), ("later", t.StringType()), ("day", t.DateType()))])  # fmt: skip
    both = confluent_paths({7: schema}, columns(id=t.LongType(), p=struct))
    value: dict[str, Any] = {"source": {"connector": "a", "name": "b", "db": "c", "lsn": 1, "ts_ms": 1}, "op": "c"}
    points: list[Any] = [None, {"day": 5, "x": 0.5}, {"day": 2**31 - 1, "x": None}]
    rows = [{"id": number, "unwanted": None, "p": point} for number, point in enumerate(points)]
    events = [framed(7, written(schema, value | {"after": row})) for row in rows]
    both.check(EventBuffer.of(events))
    by_reference.clear()
    days = [
        row["after"]["p"] and row["after"]["p"]["day"] for row in both.native.decode(EventBuffer.of(events)).to_pylist()
    ]
    assert by_reference == [] and [day and day.day for day in days] == [None, 6, None]


@needs_native
def test_events_behind_the_registrys_header() -> None:
    """NULs may follow them."""
    chance = random.Random(3)
    names = ["id", "name", "price"]
    schema = envelope(names)
    table = columns(id=t.LongType(), name=t.StringType(), price=t.DecimalType(12, 3))
    text = find_format("debezium-avro").schema_text(Layout(table), "t", "s")
    writer = WriterSchema(json.dumps(schema), "Avro", "")
    both = BothPaths("debezium-avro", folded(table), text, lambda number: writer)
    events = [
        b"\1\0\0\0\5" + make_event(schema, names, chance) + bytes(int(chance.random() < 0.2) * 3) for _ in range(300)
    ]
    _, bad = both.check(EventBuffer.of(events), masked=False)
    assert len(bad) < 100


@needs_native
def test_names_in_another_case_are_told() -> None:
    table = columns(ID=t.LongType())
    chance = random.Random(4)
    schema = envelope(["id"])
    both = confluent_paths({7: schema}, table)
    _, bad = both.check(EventBuffer.of([framed(7, make_event(schema, ["id"], chance)) for _ in range(20)]))
    assert len(bad) == 20 and "another" not in bad[0].reason and "`id`" in bad[0].reason


def test_texts_are_found_natively_and_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    events = EventBuffer.of([bytes(chance.choices(b"ab\0", k=chance.randrange(30))) for _ in range(2000)])
    texts = (b"abab", b"\0\0a")
    found = (
        find_texts(events, texts),
        find_rare_events(events, texts, rb"a+\x00+a"),
        find_texts(events.take(np.arange(0)), texts),
    )
    expected = [place for place, event in enumerate(events.payloads()) if any(text in event for text in texts)]
    assert found[0].tolist() == expected and not len(found[2])
    monkeypatch.setenv(native.SWITCH, "0")
    assert find_texts(events, texts).tolist() == expected
    assert find_rare_events(events, texts, rb"a+\x00+a").tolist() == found[1].tolist()
