"""Corners of Protobuf one by one, each with its right value: that of Protobuf's own JSON mapping in Java."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import find_codec, make_header
from pyspark_pravega.formats.protobuf.message_types import (
    find_length_without_padding,
    find_message_class,
    read_message_type,
)
from tests.formats.protobuf.generated import varint
from tests.interop.foreign import Foreign
from tests.interop.protobuf_json import protobuf_as_json
from tests.protobuf_schemas import descriptor_set, schema_text

PROTOBUF = find_format("protobuf")
Row = dict[str, Any]
MESSAGES = {
    "aliases": """syntax = "proto3"; message M { E e = 1; repeated E r = 2; map<int32, E> m = 3; }
        enum E { option allow_alias = true; ZERO = 0; NULL = 0; ONE = 1; EIN = 1; UN = 1; }""",
    "closed": """syntax = "proto2"; message M { optional E e = 1; repeated E r = 2; map<int32, E> m = 3;
          optional E d = 4 [default = TWO]; optional string s = 5 [default = "x"]; }
        enum E { NOTHING = 0; ONE = 1; TWO = 2; }""",
    "open": """syntax = "proto3"; message M { E e = 1; repeated E r = 2; map<int32, E> m = 3; }
        enum E { NOTHING = 0; ONE = 1; }""",
    "edition": """edition = "2023"; option features.field_presence = IMPLICIT; message N { int32 i = 1; }
        enum E { option features.enum_type = CLOSED; NOTHING = 0; ONE = 1; }
        message M { int32 a = 1 [features.field_presence = EXPLICIT]; int32 b = 2;
          int32 c = 3 [features.field_presence = LEGACY_REQUIRED]; repeated int32 p = 4;
          repeated int32 u = 5 [features.repeated_field_encoding = EXPANDED];
          N n = 6 [features.message_encoding = DELIMITED]; string s = 7 [features.utf8_validation = NONE];
          E e = 8 [features.field_presence = EXPLICIT]; }""",
    "extended": """syntax = "proto2"; message M { optional int32 a = 1; extensions 100 to max;
          optional group G = 3 { optional int32 x = 1; } }
        extend M { optional int32 known = 100; }""",
    "numbers": """syntax = "proto3"; message M { bool b = 1; int32 i = 2; uint32 u = 3; int64 l = 4; uint64 v = 5;
          sint64 z = 6; float f = 7; double d = 8; repeated int32 p = 9; bytes y = 536870911; M2 m = 10; }
        message M2 { int32 x = 1; int32 y = 2; }""",
    "json": """syntax = "proto3"; import "google/protobuf/struct.proto"; import "google/protobuf/any.proto";
        message M { google.protobuf.Value v = 1; M m = 2; google.protobuf.Any any = 3; int32 snake_case = 4;
          int32 named = 5 [json_name = "other"]; google.protobuf.ListValue l = 6; }""",
}
CASES: list[tuple[str, str, Row, str | None]] = [
    ("aliases", "0801 1001 1000 1a04 0801 1001", {"e": "ONE", "r": ["ONE", "ZERO"], "m": [(1, "ONE")]},
     '{"e":"ONE","r":["ONE","ZERO"],"m":{"1":"ONE"}}'),
    ("aliases", "", {"e": "ZERO", "r": [], "m": []}, "{}"),
    # What a closed enum does not have is an unknown field.
    ("closed", "0805 1001 1005 1a04 0802 1002", {"e": None, "r": ["ONE"], "m": [(2, "TWO")], "d": None, "s": None},
     '{"r":["ONE"],"m":{"2":"TWO"}}'),
    # In a map all of its entry is; Java's DynamicMessage alone makes an entry with the default of it.
    ("closed", "1a04 0801 1009", {"m": []}, '{"m":{"1":"NOTHING"}}'),
    ("open", "0805 1001 1005 1a04 0801 1009", {"e": "5", "r": ["ONE", "5"], "m": [(1, "9")]},
     '{"e":5,"r":["ONE",5],"m":{"1":9}}'),
    ("open", "08ffffffffffffffffff01", {"e": "-1", "r": [], "m": []}, '{"e":-1}'),
    # This release of Java knows no editions.
    ("edition", "1801 2201 05 2006 2802 3308 0934 4007",
     {"a": None, "b": 0, "c": 1, "p": [5, 6], "u": [2], "n": {"i": 9}, "s": "", "e": None}, None),
    ("extended", "a00605 0801 1b0802 1c", {"a": 1, "g": {"x": 2}}, '{"a":1,"g":{"x":2}}'),
    # The last one of a scalar counts, messages are merged, packed and unpacked elements are one list.
    ("numbers", "0801 0800 1005 1006 4a020102 4803 5202 0801 5202 1002 faffffff0f01 61",
     {"b": False, "i": 6, "p": [1, 2, 3], "m": {"x": 1, "y": 2}, "y": b"a"},
     '{"i":6,"p":[1,2,3],"m":{"x":1,"y":2},"y":"YQ=="}'),
    ("numbers", "0802 10ffffffffffffffffff01 18ffffffffffffffffff01 20ffffffffffffffff7f 28ffffffffffffffffff01 3001",
     {"b": True, "i": -1, "u": 2**32 - 1, "l": 2**63 - 1, "v": 2**64 - 1, "z": -1},
     '{"b":true,"i":-1,"u":4294967295,"l":"9223372036854775807","v":"18446744073709551615","z":"-1"}'),
    # A field of another wire type is an unknown field; of a number with too many bits the last ones count.
    ("numbers", "0d00000001 108080808010", {"b": False, "i": 0, "l": 0}, "{}"),
    ("json", "0a02 0800 3204 0a02 0800 120c 0a02 0800 2001 2802 1202 1a00",
     {"v": "null", "l": "[null]", "m": '{"v":null,"m":{"any":{}},"snake_case":1,"named":2}'}, None),
]  # fmt: skip
REFUSED: list[tuple[str, str, str]] = [
    ("numbers", "10ffffffffffffffffffff01", "not a message of the table's type"),
    ("numbers", "10ff", "not a message of the table's type"),
    ("numbers", "0f", "not a message of the table's type"),
    ("numbers", "0001", "not a message of the table's type"),
    ("numbers", "5205 0801", "not a message of the table's type"),
    ("edition", "0801", "it lacks required fields: c"),
    ("extended", "1b 0801 24", "not a message of the table's type"),
    ("json", "0a09 11000000000000f87f", "a google.protobuf.Value in it has no JSON text"),
    ("json", "1204 120c 0a0a 11000000000000f07f", "not a message"),
]


def text_of(name: str) -> str:
    return schema_text(MESSAGES[name], "M")


def read(text: str, *payloads: bytes) -> tuple[list[Row], list[BadEvent]]:
    batch, bad = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(text), text)).decode_valid(
        EventBuffer.of(list(payloads))
    )
    return batch.to_pylist(), bad


@pytest.mark.parametrize(("name", "payload", "row", "java"), CASES, ids=lambda case: str(case)[:20])
def test_values(name: str, payload: str, row: Row, java: str | None) -> None:
    rows, bad = read(text_of(name), bytes.fromhex(payload))
    assert not bad
    assert {key: rows[0][key] for key in row} == row


@pytest.mark.parametrize(("name", "payload", "reason"), REFUSED, ids=lambda case: str(case)[:20])
def test_refused(name: str, payload: str, reason: str) -> None:
    rows, bad = read(text_of(name), bytes.fromhex(payload), b"\x18\x01")
    assert len(rows) == 1
    assert reason in bad[0].reason


def test_java_says_the_same(foreign: Foreign) -> None:
    cases = [(name, payload, java) for name, payload, _, java in CASES if java is not None]
    cases += [(name, payload, None) for name, payload, reason in REFUSED if name != "edition" and "JSON" not in reason]
    asked = [("M", descriptor_set(MESSAGES[name], True), [bytes.fromhex(payload)]) for name, payload, _ in cases]
    for (answer,), (_, _, java) in zip(protobuf_as_json(foreign, asked), cases, strict=True):
        assert answer.get("json") == java, answer


def test_aliases_are_written() -> None:
    text = text_of("aliases")
    schema = PROTOBUF.spark_schema(text)
    rows = [{"e": name, "r": ["NULL"], "m": [(1, "EIN")]} for name in ("ONE", "EIN", "UN", "1")]
    payloads = (
        PROTOBUF.encoder(Layout(schema, text))
        .encode(pa.RecordBatch.from_pylist(rows, arrow_schema(schema)))
        .to_pylist()
    )
    assert set(payloads) == {bytes.fromhex("0801 120100 1a04 0801 1001")}


def test_messages_without_fields() -> None:
    """What was an error inside of the product is `struct<>`."""
    text = schema_text('syntax = "proto3"; message E { } message M { E e = 1; repeated E r = 2; int32 i = 3; }', "M")
    assert PROTOBUF.spark_schema(text).simpleString() == "struct<e:struct<>,r:array<struct<>>,i:int>"
    rows, bad = read(text, b"\x0a\0\x12\0\x12\0\x18\7", b"")
    assert rows == [{"e": {}, "r": [{}, {}], "i": 7}, {"e": None, "r": [], "i": 0}] and not bad
    empty = text.replace("M ", "E ", 1)
    assert PROTOBUF.spark_schema(empty) == StructType([])
    rows, bad = read(empty, b"", b"\x08\1", b"\x08")
    assert rows == [{}, {}] and [event.index for event in bad] == [2]
    with pytest.raises(UnsupportedOperationError, match="message 'E' has no fields, so no row can be written"):
        PROTOBUF.encoder(Layout(StructType([]), empty))


PAIR = """syntax = "proto2"; message M { optional M m = 1; repeated N n = 2; map<string, M> by_name = 3; }
    message N { optional string text = 1; optional M m = 2; required int32 i = 3; }"""


def test_recursion_ends_in_json() -> None:
    """Where a message would be within one of its own type, and not before."""
    text = schema_text(PAIR, "M")
    schema = PROTOBUF.spark_schema(text)
    assert schema.simpleString() == (
        "struct<m:string,n:array<struct<text:string,m:string,i:int>>,by_name:map<string,string>>"
    )
    inner = PROTOBUF.spark_schema(text.replace("M ", "N ", 1))
    assert inner.simpleString() == (
        "struct<text:string,m:struct<m:string,n:array<string>,by_name:map<string,string>>,i:int>"
    )
    message: Any = find_message_class(read_message_type(text))()
    message.m.n.add(text='"ß"', i=2**31 - 1).m.by_name["k"].SetInParent()
    message.by_name["a"].m.SetInParent()
    rows, bad = read(text, message.SerializeToString())
    expected = '{"n":[{"text":"\\"ß\\"","m":{"by_name":{"k":{}}},"i":2147483647}]}'
    assert rows == [{"m": expected, "n": [], "by_name": [("a", '{"m":{}}')]}] and not bad
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(schema))
    assert PROTOBUF.encoder(Layout(schema, text)).encode(batch).to_pylist() == [
        message.SerializeToString(deterministic=True)
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("{", "column 'm' is not JSON that fits M (Failed to load JSON"),
        ('{"x":1}', 'has no field named "x"'),
        ('{"n":[{"i":"x"}]}', "column 'm' is not JSON that fits M"),
        ('{"n":[{}]}', "required"),
        ("[]", "column 'm' is not a JSON object, which M needs"),
        ('{"m":' * 5000 + "{}" + "}" * 5000, "column 'm' is not JSON that fits M"),
        ('{"m":' * 99 + "{}" + "}" * 99, None),
        ('{"m":' * 98 + '{"n":[{"i":1}]}' + "}" * 98, None),
    ],
    ids=lambda case: str(case)[:20],
)
def test_json_that_is_written(value: str, reason: str | None) -> None:
    """It becomes a message that can be read again, or is refused."""
    text = schema_text(PAIR, "M")
    schema = PROTOBUF.spark_schema(text)
    batch = pa.RecordBatch.from_pylist([{"m": value, "n": [], "by_name": []}], arrow_schema(schema))
    encoder = PROTOBUF.encoder(Layout(schema, text))
    if reason is None:
        rows, _ = read(text, *encoder.encode(batch).to_pylist())
        assert json.loads(rows[0]["m"]) == json.loads(value)
        return
    with pytest.raises(InvalidRowError) as caught:
        encoder.encode(batch)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 1000


def nested(levels: int) -> bytes:
    payload = b""
    for _ in range(levels):
        payload = b"\x0a" + varint(len(payload)) + payload
    return payload


def test_depth(foreign: Foreign) -> None:
    """A hundred levels are read, here and in Java; more make a bad event."""
    text = schema_text(PAIR, "M")
    payloads = [nested(levels) for levels in (100, 101, 5_000, 100_000)]
    rows, bad = read(text, *payloads)
    assert json.loads(rows[0]["m"]) == json.loads('{"m":' * 99 + "{}" + "}" * 99)
    assert [event.index for event in bad] == [1, 2, 3]
    assert {event.reason for event in bad} == {
        "its messages are nested more than 100 levels deep, the limit of Protobuf's readers"
    }
    (answers,) = protobuf_as_json(foreign, [("M", descriptor_set(PAIR, True), payloads[:3])])
    assert ["json" in answer for answer in answers] == [True, False, False]


@pytest.mark.parametrize(
    "payload",
    [
        "1205 0a01ff 1801",
        "0a07 1205 0a01ff 1801",
        "0a05 1a03 0a01ff",
        "1a03 0a01ff",
        "1a07 0a01ff 12020a00",
        # A required field is missing within, which the library's own search for it does not survive.
        "1a07 0a01ff 1202 1200",
    ],
)
def test_strings_that_are_not_utf_8(payload: str) -> None:
    """Of proto2 nobody checks them but we; never does a text show Python's way to write bytes."""
    rows, bad = read(schema_text(PAIR, "M"), bytes.fromhex(payload))
    assert [event.reason for event in bad] == ["a string in it is not UTF-8 text"] or "lacks required" in bad[0].reason
    assert not rows


class TestPadding:
    TEXT = """syntax = "proto2"; message M { optional int32 i = 1; optional bytes y = 2; optional fixed64 f = 3;
        optional group G = 4 { optional int32 x = 1; } repeated bytes l = 5; }"""
    WHOLE = ("", "0801", "0800", "1200", "1204 00000000", "19 0000000000000000", "23 0800 24", "2a64" + "00" * 100)

    def rows(self, *payloads: bytes, codec: str = "") -> tuple[list[Row], list[BadEvent]]:
        text = schema_text(self.TEXT, "M")
        writer = WriterSchema(text, "Protobuf", find_codec(codec).registry_name)
        decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(text), text), lambda encoding_id: writer)
        framed = [make_header(0) + find_codec(codec).compress(payload) for payload in payloads]
        batch, bad = decoder.decode_valid(EventBuffer.of(framed))
        return batch.to_pylist(), bad

    @pytest.mark.parametrize("codec", ["", "gzip", "snappy"])
    def test_nuls_behind_a_message(self, codec: str) -> None:
        """Behind the registry's header they are what is left of a writer's buffer, whatever the codec."""
        whole = [bytes.fromhex(digits) for digits in self.WHOLE]
        expected, bad = self.rows(*whole)
        assert not bad
        for nuls in (1, 58, 500):
            rows, bad = self.rows(*(payload + bytes(nuls) for payload in whole), codec=codec)
            assert rows == expected and not bad

    def test_other_bytes_behind_a_message(self) -> None:
        others = ["0801 0001", "0801 00 0801", "12ff 00", "1203 0000", "23 0800", "23 0800 00 24", "1900", "08", "0f00"]
        _, bad = self.rows(*map(bytes.fromhex, others))
        assert [event.index for event in bad] == list(range(len(others)))

    def test_events_without_header(self) -> None:
        """They are read as they are."""
        rows, bad = read(schema_text(self.TEXT, "M"), b"\x08\1\0", b"\0", b"\x08\1")
        assert [row["i"] for row in rows] == [1] and [event.index for event in bad] == [0, 1]

    @pytest.mark.parametrize(
        ("payload", "length"),
        [("", 0), ("00", 0), ("0801", 2), ("080100", 2), ("080000", 2), ("0801 0001", 4), ("0f00", 2), ("2300 2400", 4),
         ("08" + "80" * 10 + "00", 12), ("12ffffff7f 00", 6), ("24 00", 2), ("23 08 00 24 00", 4)],
    )  # fmt: skip
    def test_length(self, payload: str, length: int) -> None:
        assert find_length_without_padding(bytes.fromhex(payload)) == length
