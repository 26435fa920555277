"""Protobuf: registry schemas as Spark types, messages as rows and back."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.client.registry.registry_types import SchemaInfo
from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError, SchemaNotFoundError, UnsupportedOperationError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import find_codec, make_header
from pyspark_pravega.formats.protobuf.message_types import find_message_class, read_message_type
from tests.protobuf_schemas import descriptor_set, files_of, schema_text

PROTOBUF = find_format("protobuf")
PROTO3 = """
syntax = "proto3";
package acme.one;
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Point { double x = 1; optional double y = 2; }
enum Colour { RED = 0; GREEN = 5; }
message Event {
  int32 i32 = 1; sint32 s32 = 2; sfixed32 sf32 = 3; uint32 u32 = 4; fixed32 f32 = 5;
  int64 i64 = 6; sint64 s64 = 7; sfixed64 sf64 = 8; uint64 u64 = 9; fixed64 f64 = 10;
  bool flag = 11; string text = 12; bytes blob = 13; float single = 14; double wide = 15;
  Colour colour = 16; repeated int32 numbers = 17; map<string, int64> counts = 18; map<int32, Point> points = 19;
  Point point = 20; repeated Point path = 21;
  oneof either { string name = 22; int32 number = 23; }
  google.protobuf.Timestamp at = 24; repeated google.protobuf.Timestamp times = 25;
  google.protobuf.Int32Value wrapped = 26; google.protobuf.StringValue word = 27;
  google.protobuf.Struct json = 28; google.protobuf.Duration took = 29;
  optional string maybe = 30; repeated Colour colours = 31;
  map<string, google.protobuf.Timestamp> moments = 32;
  message Inner { string deep = 1; }
  Inner inner = 33;
}
message Tree { int32 value = 1; repeated Tree children = 2; }
"""
TYPES = (
    "i32:int,s32:int,sf32:int,u32:bigint,f32:bigint,i64:bigint,s64:bigint,sf64:bigint,u64:decimal(20,0),"
    "f64:decimal(20,0),flag:boolean,text:string,blob:binary,single:float,wide:double,colour:string,"
    "numbers:array<int>,counts:map<string,bigint>,points:map<int,struct<x:double,y:double>>,"
    "point:struct<x:double,y:double>,path:array<struct<x:double,y:double>>,name:string,number:int,at:timestamp,"
    "times:array<timestamp>,wrapped:int,word:string,json:string,took:struct<seconds:bigint,nanos:int>,maybe:string,"
    "colours:array<string>,moments:map<string,timestamp>,inner:struct<deep:string>"
)
NULLABLE = {"point", "name", "number", "at", "wrapped", "word", "json", "took", "maybe", "inner"}
TEXT = schema_text(PROTO3, "acme.one.Event")
UTC = datetime.UTC

FULL: dict[str, Any] = {
    "i32": -(2**31), "s32": 2**31 - 1, "sf32": -1, "u32": 2**32 - 1, "f32": 2**32 - 1,
    "i64": -(2**63), "s64": 2**63 - 1, "sf64": -1, "u64": Decimal(2**64 - 1), "f64": Decimal(2**64 - 1),
    "flag": True, "text": "größe 日本", "blob": b"\0\xff", "single": 0.5, "wide": -1e300,
    "colour": "GREEN", "numbers": [1, -1], "counts": [("ä", 1)], "points": [(1, {"x": 1.0, "y": None})],
    "point": {"x": 0.0, "y": 2.0}, "path": [{"x": 0.0, "y": None}],
    "name": "x", "number": None, "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "times": [datetime.datetime(2020, 1, 1, tzinfo=UTC)], "wrapped": 0, "word": None,
    "json": '{"a":[1.0,null]}', "took": {"seconds": 1, "nanos": 5}, "maybe": "", "colours": ["RED", "7"],
    "moments": [("k", datetime.datetime(1, 1, 1, tzinfo=UTC))], "inner": {"deep": "d"},
}  # fmt: skip
EMPTY: dict[str, Any] = {
    "i32": 0, "s32": 0, "sf32": 0, "u32": 0, "f32": 0, "i64": 0, "s64": 0, "sf64": 0,
    "u64": Decimal(0), "f64": Decimal(0), "flag": False, "text": "", "blob": b"", "single": 0.0, "wide": 0.0,
    "colour": "RED", "numbers": [], "counts": [], "points": [], "path": [], "times": [], "colours": [], "moments": [],
    **dict.fromkeys(NULLABLE),
}  # fmt: skip


def batch_of(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(PROTOBUF.spark_schema(TEXT)))


def test_types() -> None:
    schema = PROTOBUF.spark_schema(TEXT)
    assert schema.simpleString() == f"struct<{TYPES}>"
    assert {field.name for field in schema if field.nullable} == NULLABLE
    assert PROTOBUF.type_name(TEXT) == "acme.one.Event"


def test_messages_are_rows_and_back() -> None:
    schema = PROTOBUF.spark_schema(TEXT)
    batch = batch_of(FULL, EMPTY)
    payloads = PROTOBUF.encoder(Layout(schema, TEXT)).encode(batch).to_pylist()
    assert payloads[1] == b""
    decoded = PROTOBUF.decoder(Layout(schema, TEXT)).decode(EventBuffer.of(payloads))
    assert decoded.equals(batch)
    # The library agrees on what was written.
    message: Any = find_message_class(read_message_type(TEXT)).FromString(payloads[0])
    assert (message.u64, message.colour, message.WhichOneof("either")) == (2**64 - 1, 5, "name")
    assert (message.at.seconds, message.at.nanos) == (-1, 999_999_000)


def test_only_what_is_asked_for() -> None:
    schema = PROTOBUF.spark_schema(TEXT)
    payloads = PROTOBUF.encoder(Layout(schema, TEXT)).encode(batch_of(FULL)).to_pylist()
    point = schema["point"].dataType
    assert isinstance(point, StructType)
    some = StructType([StructField("point", StructType([point["y"]])), schema["i32"]])
    found = PROTOBUF.decoder(Layout(some, TEXT)).decode(EventBuffer.of(payloads))
    assert found.to_pylist() == [{"point": {"y": 2.0}, "i32": -(2**31)}]
    assert PROTOBUF.decoder(Layout(StructType([]), TEXT)).decode(EventBuffer.of(payloads)).num_rows == 1


PROTO2 = """
syntax = "proto2";
message Old {
  required int32 id = 1;
  optional string name = 2 [default = "none"];
  repeated group Part = 3 { optional int32 number = 4; }
  optional group One = 5 { optional int32 number = 6; }
}
"""


def test_proto2() -> None:
    text = schema_text(PROTO2, "Old")
    schema = PROTOBUF.spark_schema(text)
    assert schema.simpleString() == ("struct<id:int,name:string,part:array<struct<number:int>>,one:struct<number:int>>")
    assert [field.nullable for field in schema] == [False, True, False, True]
    message: Any = find_message_class(read_message_type(text))(id=0)
    message.part.add(number=3)
    decoder = PROTOBUF.decoder(Layout(schema, text))
    batch, bad = decoder.decode_valid(EventBuffer.of([message.SerializeToString(), b"", b"\x08\x01\x12\x01\xff"]))
    assert batch.to_pylist() == [{"id": 0, "name": None, "part": [{"number": 3}], "one": None}]
    assert [event.index for event in bad] == [1, 2]
    assert "it lacks required fields: id" in bad[0].reason
    assert "UTF-8" in bad[1].reason


BAD = [
    (b"\xff", "not a message of the table's type"),
    (b"\0", "not a message"),
    (b"\x08", "not a message"),
    (b"\x62\x7fx", "not a message"),
    (b"\x62\x01\xff", "UTF-8"),
    (b"\xa3\x01", "not a message"),
    (b"\xc2\x01\x07\x08\x80\x80\xe9\xa6\xdf\xff", "not a message"),
    (b"\xc2\x01\x09\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "outside the years 0001 to 9999"),
]


@pytest.mark.parametrize(("payload", "reason"), BAD, ids=lambda case: repr(case)[:30])
def test_bad_messages(payload: bytes, reason: str) -> None:
    decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(TEXT), TEXT))
    good = b"\x08\x07"
    batch, bad = decoder.decode_valid(EventBuffer.of([good, payload, good]))
    assert [event.index for event in bad] == [1]
    assert reason in bad[0].reason, bad[0].reason
    assert batch["i32"].to_pylist() == [7, 7]


def test_timestamps_out_of_range() -> None:
    decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(TEXT), TEXT))
    message: Any = find_message_class(read_message_type(TEXT))()
    payloads = []
    for seconds, nanos in [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 10**9), (2**63 - 1, 0)]:
        message.at.seconds, message.at.nanos = seconds, nanos
        payloads.append(message.SerializeToString())
    batch, bad = decoder.decode_valid(EventBuffer.of([b"", *payloads]))
    assert batch.num_rows == 1
    assert [event.index for event in bad] == [1, 2, 3, 4, 5]
    assert "outside the years" in bad[0].reason and "nanoseconds" in bad[2].reason


def test_deep_nesting_is_a_bad_event() -> None:
    text = schema_text(
        'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }', "M"
    )
    payload = b""
    for _ in range(20_000):
        size = len(payload)
        inner = b"\x0a" + varint(size) + payload
        payload = b"\x32" + varint(len(inner)) + inner
    payload = b"\x0a" + varint(len(payload)) + payload
    decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(text), text))
    _, bad = decoder.decode_valid(EventBuffer.of([payload, b""]))
    assert [event.index for event in bad] == [0]


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


@given(st.binary(max_size=80))
def test_no_input_does_harm(payload: bytes) -> None:
    decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(TEXT), TEXT))
    batch, bad = decoder.decode_valid(EventBuffer.of([b"", payload, b""]))
    assert batch.num_rows + len(bad) == 3
    assert all(event.index == 1 for event in bad)


class TestVersions:
    OLD = 'syntax = "proto3"; package p; message E { int32 id = 1; string gone = 2; }'
    NEW = 'syntax = "proto3"; package p; message E { int64 id = 1; optional string added = 3; }'
    WRONG = 'syntax = "proto3"; package p; message E { string id = 1; }'
    OTHER = 'syntax = "proto3"; package p; message F { int32 id = 1; }'

    def resolve(self, encoding_id: int) -> WriterSchema:
        versions = [(self.OLD, "p.E"), (self.NEW, "p.E"), (self.WRONG, "p.E"), (self.OTHER, "p.F")]
        if encoding_id >= len(versions):
            raise SchemaNotFoundError("no such id")
        return WriterSchema(schema_text(*versions[encoding_id]), "Protobuf", "")

    @pytest.mark.parametrize(
        ("theirs", "ours", "reason"),
        [
            ("int64", "int32", "of a type with numbers from -9223372036854775808 to 9223372036854775807"),
            ("uint32", "int32", "of a type with numbers from 0 to 4294967295"),
            ("int32", "uint64", "of a type with numbers from -2147483648"),
            ("fixed64", "sfixed64", "of a type with numbers from 0"),
            ("repeated int32", "int32", "repeated numbers, but the table's ('p.E.id') is a single one"),
            ("int32", "int64", None),
            ("uint32", "int64", None),
            ("bool", "uint32", None),
            ("int32", "repeated int32", None),
        ],
    )
    def test_numbers_that_would_be_cut(self, theirs: str, ours: str, reason: str | None) -> None:
        old, new = (
            schema_text(f'syntax = "proto3"; package p; message E {{ {field_type} id = 1; }}', "p.E")
            for field_type in (theirs, ours)
        )
        decoder = PROTOBUF.decoder(
            Layout(PROTOBUF.spark_schema(new), new), lambda encoding_id: WriterSchema(old, "Protobuf", "")
        )
        payload = b"\x09" + bytes(8) if "fixed" in theirs else b"\x08\x01"
        batch, bad = decoder.decode_valid(EventBuffer.of([make_header(0) + payload]))
        if reason is None:
            assert batch.num_rows == 1
        else:
            assert reason in bad[0].reason

    def test_by_number(self) -> None:
        text = schema_text(self.NEW, "p.E")
        decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(text), text), self.resolve)
        events = [make_header(0) + b"\x08\x05\x12\x01x", make_header(1) + b"\x08\x06\x1a\x01y"]
        events += [make_header(2) + b"\x0a\x01x", make_header(3) + b"\x08\x01", make_header(4)]
        batch, bad = decoder.decode_valid(EventBuffer.of(events))
        assert batch.to_pylist() == [{"id": 5, "added": None}, {"id": 6, "added": "y"}]
        assert [event.index for event in bad] == [2, 3, 4]
        assert "its field 1 ('p.E.id') is text or bytes, but the table's ('p.E.id') is a whole number" in bad[0].reason
        assert "it is of type 'p.F', but the table is of type 'p.E'" in bad[1].reason
        assert "encoding id 4 is not in the schema registry" in bad[2].reason


@pytest.mark.parametrize("codec", ["gzip", "snappy"])
def test_padding_of_compressed_events(codec: str) -> None:
    """The official serializers compress their whole buffer; their own reader cannot read that."""

    def resolve(encoding_id: int) -> WriterSchema:
        return WriterSchema(TEXT, "Protobuf", find_codec(codec).registry_name)

    decoder = PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(TEXT), TEXT), resolve)
    messages = [b"\x08\x07", b"", b"\x5a\x00\x62\x03a\0\0", b"\x79" + bytes(8), b"\x62\x04" + bytes(4)]
    payloads = []
    for message in messages:
        for padding in (0, 1, 200):
            payloads.append(make_header(0) + find_codec(codec).compress(message + bytes(padding)))
    batch = decoder.decode(EventBuffer.of(payloads))
    assert batch["text"].to_pylist() == [text for text in ("", "", "a\0\0", "", "\0" * 4) for _ in range(3)]
    assert batch["i32"].to_pylist() == [7] * 3 + [0] * 12


def file(
    name: str, imports: Sequence[str] = (), public: Sequence[int] = (), message: str = "A", **fields: str
) -> descriptor_pb2.FileDescriptorProto:
    """A file with one message that has an int and fields of other messages' types."""
    made = descriptor_pb2.FileDescriptorProto(name=name, package="p", dependency=imports, public_dependency=public)
    described = made.message_type.add(name=message)
    described.field.add(name="i", number=1, type="TYPE_INT32", label="LABEL_OPTIONAL")
    for number, (member, kind) in enumerate(fields.items(), 2):
        described.field.add(name=member, number=number, type="TYPE_MESSAGE", type_name=kind, label="LABEL_OPTIONAL")
    return made


def set_text(*files: descriptor_pb2.FileDescriptorProto) -> str:
    """The schema text of a message p.A in a set of files."""
    data = descriptor_pb2.FileDescriptorSet(file=files).SerializeToString()
    return f"p.A {base64.b64encode(data).decode('ascii')}"


class TestRefusals:
    def test_schemas(self) -> None:
        data = base64.b64encode(descriptor_set(PROTO3)).decode()
        for text, message in [
            (
                f"acme.one.None {data}",
                "has no message 'acme.one.None'; its messages are acme.one.Point, acme.one.Event",
            ),
            ("acme.one.Event ????", "not a file descriptor set"),
            (f"acme.one.Event {base64.b64encode(b'garbage').decode()}", "not a file descriptor set"),
            ("acme.one.Event", "does not say which message"),
        ]:
            with pytest.raises(InvalidSchemaError) as caught:
                PROTOBUF.spark_schema(text)
            assert message in str(caught.value)

    def test_a_missing_file_is_named(self) -> None:
        with pytest.raises(InvalidSchemaError, match="imports b.proto, which is not in its file descriptor set"):
            PROTOBUF.spark_schema(set_text(file("a.proto", ("b.proto",), b=".p.B")))

    def test_a_missing_file_that_is_not_needed(self) -> None:
        """As those of validators and code generators, which hold options."""
        text = set_text(file("a.proto", ("gogo.proto", "b.proto"), (0, 1), b=".p.B"), file("b.proto", message="B"))
        assert PROTOBUF.spark_schema(text).simpleString() == "struct<i:int,b:struct<i:int>>"

    @pytest.mark.parametrize(
        ("levels", "members", "message"),
        [(500, 1, "nests messages more than 60 levels deep"), (30, 2, "more than 10000 columns")],
    )
    def test_schemas_that_are_too_large(self, levels: int, members: int, message: str) -> None:
        made = file("a.proto")
        made.ClearField("message_type")
        for level, name in enumerate(["A", *(f"M{level}" for level in range(1, levels))], 1):
            fields: dict[str, Any] = {f"f{place}": f".p.M{level}" for place in range(members)}
            made.message_type.append(file("b.proto", message=name, **fields).message_type[0])
        made.message_type.append(file("b.proto", message=f"M{levels}").message_type[0])
        with pytest.raises(InvalidSchemaError, match=message):
            PROTOBUF.spark_schema(set_text(made))

    def test_files(self) -> None:
        one = file("a.proto")
        assert PROTOBUF.spark_schema(set_text(one, one)).simpleString() == "struct<i:int>"
        for files, message in [
            ((one, file("a.proto", message="B")), "has two files named a.proto that differ"),
            ((one, file("b.proto")), "is invalid in file b.proto: .*duplicate symbol 'p.A'"),
            ((file("a.proto", ("b.proto",)), file("b.proto", ("a.proto",), message="B")), "import each other: a.proto"),
        ]:
            with pytest.raises(InvalidSchemaError, match=message):
                PROTOBUF.spark_schema(set_text(*files))

    def test_well_known_files_need_not_be_there(self) -> None:
        assert files_of(descriptor_set(PROTO3)) == ["test.proto"]
        whole = base64.b64encode(descriptor_set(PROTO3, True)).decode()
        assert PROTOBUF.spark_schema(f"acme.one.Event {whole}") == PROTOBUF.spark_schema(TEXT)

    def test_tables_and_events_without_registry(self) -> None:
        with pytest.raises(UnsupportedOperationError, match="cannot be made from columns"):
            PROTOBUF.schema_text(Layout(PROTOBUF.spark_schema(TEXT)), "t", "s")
        with pytest.raises(InvalidSchemaError, match="with a schema of the registry"):
            PROTOBUF.decoder(Layout(PROTOBUF.spark_schema(TEXT)))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"i32": None}, "column 'i32' is null, but the column is NOT NULL"),
            ({"u32": 2**32}, "column 'u32' is "),
            ({"u64": Decimal(2**64)}, "column 'u64' is "),
            ({"colour": "PINK"}, "column 'colour' is 'PINK', which the enum acme.one.Colour does not have"),
            ({"json": "{"}, "column 'json' is not JSON that fits google.protobuf.Struct"),
        ],
    )
    def test_rows(self, change: dict[str, Any], message: str) -> None:
        schema = PROTOBUF.spark_schema(TEXT)
        with pytest.raises(InvalidRowError) as caught:
            types = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
            batch = pa.RecordBatch.from_pylist([EMPTY, EMPTY | change], schema=types)
            PROTOBUF.encoder(Layout(schema, TEXT)).encode(batch)
        assert str(caught.value).find("row 1 of the batch cannot be written: " + message) > 0

    @pytest.mark.parametrize(
        ("field", "values"),
        [
            ("repeated google.protobuf.Int32Value v", [1, None, 3]),
            ("map<string, google.protobuf.Int32Value> v", [("a", None)]),
            ("repeated google.protobuf.Timestamp v", [None]),
            ("repeated google.protobuf.Struct v", [None]),
            ("repeated int32 v", [None]),
        ],
    )
    def test_nulls_inside_columns(self, field: str, values: list[Any]) -> None:
        imports = "".join(f'import "google/protobuf/{name}.proto";' for name in ("wrappers", "timestamp", "struct"))
        text = schema_text(f'syntax = "proto3"; {imports} message M {{ {field} = 1; }}', "M")
        schema = PROTOBUF.spark_schema(text)
        batch = pa.RecordBatch.from_pylist([{"v": values}], schema=arrow_schema(schema))
        with pytest.raises(InvalidRowError, match="row 0 of the batch .* column 'v' is null in an array or a map"):
            PROTOBUF.encoder(Layout(schema, text)).encode(batch)

    def test_columns(self) -> None:
        schema = PROTOBUF.spark_schema(TEXT)
        with pytest.raises(InvalidSchemaError, match="column 'inner' is not in the rows"):
            PROTOBUF.encoder(Layout(StructType(schema.fields[:-1]), TEXT))
        with pytest.raises(InvalidSchemaError, match="column 'extra' is not in the schema"):
            PROTOBUF.encoder(Layout(StructType([*schema.fields, StructField("extra", schema[0].dataType)]), TEXT))


def test_the_registry_form() -> None:
    data = descriptor_set(PROTO3)
    info = SchemaInfo("acme.one.Event", "Protobuf", data)
    assert info.text == TEXT
    assert SchemaInfo.of_text("acme.one.Event", "Protobuf", TEXT) == info
    assert SchemaInfo.from_json(info.to_json()) == info
