"""Thousands of damaged events: each is a row or a bad event, the same alone as among others."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructField, StructType

from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Decoder, Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import find_codec
from pyspark_pravega.formats.core.spark_types import parse_spark_type
from tests.formats.fuzzing import COUNT, damaged
from tests.protobuf_schemas import schema_text

pytestmark = pytest.mark.usefixtures("way_of_decoding")

NAMES = "boolean tinyint int bigint float double string binary date timestamp timestamp_ntz".split()
FIELDS = [StructField(name, parse_spark_type(name) or StringType()) for name in NAMES]
SCHEMA = StructType(
    [
        *FIELDS,
        StructField("decimal", DecimalType(10, 2)),
        StructField("list", ArrayType(StringType())),
        StructField("map", MapType(StringType(), ArrayType(StructType(FIELDS[:3])))),
        StructField("struct", StructType([StructField("x", StringType(), False), StructField("y", DecimalType(5, 1))])),
    ]
)
ROW = {
    **dict(zip(NAMES, [True, -5, 70_000, 2**40, 0.5, 1e300, 'é"\\', b"\0\1", 19_000, 10**15, -1], strict=True)),
    "decimal": -12,
    "list": ["x", None, ""],
    "map": [("k", [{"boolean": True, "tinyint": 1, "int": None}, None]), ("l", None)],
    "struct": {"x": "y", "y": None},
}


@pytest.mark.parametrize("codec", ["", "gzip", "snappy"])
@pytest.mark.parametrize("format_name", ["avro", "json"])
def test_damaged_events(format_name: str, codec: str) -> None:
    chance = random.Random(f"{format_name} {codec}")
    format = find_format(format_name)
    text = format.schema_text(Layout(SCHEMA), "t", "s")
    schema = arrow_schema(SCHEMA)
    rows = pa.RecordBatch.from_pylist([ROW, dict.fromkeys(ROW)], schema=schema)
    payloads = format.encoder(Layout(SCHEMA, text), 3, codec).encode(rows).to_pylist()
    writer = WriterSchema(text, str(format.registry_format), find_codec(codec).registry_name)
    decoder = format.decoder(Layout(SCHEMA, text), lambda encoding_id: writer)
    check_damaged(decoder, payloads, chance)


def check_damaged(decoder: Decoder, payloads: list[bytes], chance: random.Random) -> None:
    """Damage the first two payloads in many ways, with an undamaged one now and then."""
    for _ in range(max(COUNT // 2000, 1)):
        events = [payloads[0] if place % 10 == 0 else damaged(payloads[place % 2], chance) for place in range(200)]
        batch, bad = decoder.decode_valid(EventBuffer.of(events))
        batch.validate(full=True)
        reasons = {event.index: event.reason for event in bad}
        assert batch.num_rows == len(events) - len(bad)
        assert not any(index % 10 == 0 for index in reasons)
        good = [index for index in range(len(events)) if index not in reasons]
        for index in range(0, len(events), 7):
            alone, bad_alone = decoder.decode_valid(EventBuffer.of([events[index]]))
            assert [event.reason for event in bad_alone] == ([reasons[index]] if index in reasons else [])
            if index not in reasons:
                row = batch.slice(good.index(index), 1)
                assert list(map(str, alone.columns)) == list(map(str, row.columns))


FLAT = StructType([*FIELDS, SCHEMA["decimal"]])
PROTO = """
syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message M { int32 i = 1; string s = 2; repeated M2 l = 3; map<string, double> m = 4; google.protobuf.Timestamp t = 5;
  google.protobuf.StringValue w = 6; bytes b = 7; fixed64 f = 8; oneof o { string x = 9; M2 y = 10; } }
message M2 { optional sint64 z = 1; repeated float p = 2; }
"""
PROTO_ROW = {
    "i": 7, "s": "é", "l": [{"z": -1, "p": [0.5, 1.5]}, {"z": None, "p": []}], "m": [("k", 1.5)], "t": 10**15,
    "w": "w", "b": b"\0\1", "f": 5, "x": None, "y": {"z": 3, "p": [1.0]},
}  # fmt: skip


@pytest.mark.parametrize("case", ["csv", "text", "json"])
def test_damaged_events_without_registry(case: str) -> None:
    chance = random.Random(case)
    format = find_format(case)
    settings = {"json.timestamp-format": "epoch-millis"} if case == "json" else {}
    schema = format.spark_schema("") if case == "text" else FLAT
    text = format.schema_text(Layout(schema, settings=settings), "t", "s")
    rows: list[dict[str, object]] = [{name: value for name, value in ROW.items() if name in schema.names}] * 2
    if case == "text":
        rows = [{"value": "größe"}, {"value": ""}]
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
    payloads = format.encoder(Layout(schema, text, settings)).encode(batch).to_pylist()
    check_damaged(format.decoder(Layout(schema, text, settings)), payloads, chance)


@pytest.mark.parametrize("codec", ["", "gzip", "snappy"])
def test_damaged_protobuf(codec: str) -> None:
    format = find_format("protobuf")
    text = schema_text(PROTO, "M")
    schema = format.spark_schema(text)
    rows = pa.RecordBatch.from_pylist([PROTO_ROW, PROTO_ROW], schema=arrow_schema(schema))
    payloads = format.encoder(Layout(schema, text), 3, codec).encode(rows).to_pylist()
    writer = WriterSchema(text, "Protobuf", find_codec(codec).registry_name)
    check_damaged(format.decoder(Layout(schema, text), lambda encoding_id: writer), payloads, random.Random(codec))
