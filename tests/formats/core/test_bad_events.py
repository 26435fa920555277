"""Bad events: each is told by its index and a reason, and its neighbours are untouched."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from decimal import Decimal
from typing import Any

import cramjam
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import SchemaNotFoundError, ServerUnavailableError, UnsupportedOperationError
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core import batches, framing
from pyspark_pravega.formats.core.batches import Overfull
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Decoder, Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import LARGEST_PAYLOAD, make_header
from pyspark_pravega.formats.core.spark_types import parse_spark_type
from pyspark_pravega.sql.options import MAX_EXPANSION
from tests.formats.strategies import assert_same_batch

pytestmark = pytest.mark.usefixtures("way_of_decoding")

AVRO, JSON = find_format("avro"), find_format("json")


def schema_of(**types: str) -> StructType:
    """Column types by Spark's names; a trailing `!` means NOT NULL."""
    fields = []
    for name, type_name in types.items():
        data_type = parse_spark_type(type_name.rstrip("!"))
        assert data_type is not None
        fields.append(StructField(name, data_type, not type_name.endswith("!")))
    return StructType(fields)


def reason_of(decoder: Decoder, payload: bytes) -> str:
    """Why the payload is bad, with a good event on each side of it found unharmed."""
    good = b'{"a": null}'
    events = EventBuffer.of([good, payload, good])
    with pytest.raises(BadEvent) as caught:
        decoder.decode(events)
    batch, bad = decoder.decode_valid(events)
    assert [event.index for event in bad] == [1] == [caught.value.index]
    assert batch.num_rows == 2
    assert_same_batch(batch, decoder.decode(EventBuffer.of([good, good])))
    return bad[0].reason


JSON_REFUSED = [
    ("bigint", b"", "empty"),
    ("bigint", b" \n", "empty"),
    ("bigint", b"{", "not a JSON document"),
    ("bigint", b'{"a": 1', "not a JSON document"),
    ("bigint", b'{"a": 1,}', "not a JSON document"),
    ("bigint", b'{"a": 01}', "not a JSON document"),
    ("bigint", b'{"a": 1.}', "not a JSON document"),
    ("bigint", b'{"a": +1}', "not a JSON document"),
    ("bigint", b"{'a': 1}", "not a JSON document"),
    ("bigint", b'{"a": 1} {"a": 2}', "something follows"),
    ("bigint", b'{"a": 1}\0', "something follows"),
    ("bigint", b'{"a": 1}x', "something follows"),
    ("bigint", b"[1]", "should be a JSON object but is an array"),
    ("bigint", b"null", "should be a JSON object but is null"),
    ("bigint", b"1", "should be a JSON object but is an integer"),
    ("bigint", b'{"a": "12"}', "column 'a': expected an integer, found a string"),
    ("bigint", b'{"a": 1.0}', "expected an integer, found a number with"),
    ("bigint", b'{"a": 1e2}', "expected an integer"),
    ("bigint", b'{"a": true}', "expected an integer, found a boolean"),
    ("bigint", b'{"a": 9223372036854775808}', "the integer 9223372036854775808 is out of the range of bigint"),
    ("bigint", b'{"a": ' + b"9" * 5000 + b"}", "not a JSON document"),
    ("int", b'{"a": 2147483648}', "out of the range of int"),
    ("smallint", b'{"a": -32769}', "out of the range of smallint"),
    ("tinyint", b'{"a": 128}', "out of the range of tinyint"),
    ("boolean", b'{"a": 1}', "expected true or false, found an integer"),
    ("boolean", b'{"a": "true"}', "expected true or false, found a string"),
    ("double", b'{"a": NaN}', "NaN is not JSON"),
    ("double", b'{"a": -Infinity}', "-Infinity is not JSON"),
    ("double", b'{"a": "nan"}', "expected a number, found a string"),
    ("double", b'{"a": "1.5"}', "expected a number, found a string"),
    ("double", b'{"a": 1e400}', "out of the range of double"),
    ("double", b'{"a": 1' + b"0" * 400 + b"}", "out of the range of double"),
    ("float", b'{"a": 1e39}', "out of the range of float"),
    ("float", b'{"a": true}', "expected a number, found a boolean"),
    ("decimal(5,2)", b'{"a": 1.234}', "1.234 has more fraction digits than decimal(5,2)"),
    ("decimal(5,2)", b'{"a": 1000}', "1000 is out of the range of decimal(5,2)"),
    ("decimal(38,18)", b'{"a": 12345678901234567890123456789012345678}', "is out of the range of decimal(38,18)"),
    ("decimal(38,37)", b'{"a": 10250}', "10250 is out of the range of decimal(38,37)"),
    ("decimal(5,2)", b'{"a": "1.23"}', "expected a number, found a string"),
    ("decimal(5,2)", b'{"a": 1e999999999}', "out of the range"),
    ("decimal(5,2)", b'{"a": 1e-999999999}', "more fraction digits"),
    ("decimal(5,2)", b'{"a": 1e99999999999999999999}', "exponent out of range"),
    ("decimal(38,0)", b'{"a": 0.00000000000000000000000000000000000000000000000001}', "more fraction digits"),
    ("string", b'{"a": 1}', "expected a string, found an integer"),
    ("string", b'{"a": ["x"]}', "expected a string, found an array"),
    ("string", b'{"a": "\\ud800"}', "half of a surrogate pair"),
    ("string", b'{"a": "x\ny"}', "not a JSON document"),
    ("string", b'{"a": "\xff"}', "not UTF-8 text (byte 7)"),
    ("string", b'{"a": "\xed\xa0\x80"}', "not UTF-8 text"),
    ("string", b'{"b": "\xff"}', "not UTF-8 text"),
    ("string", '{"a": 1}'.encode("utf-16"), "not UTF-8 text"),
    ("binary", b'{"a": "AA="}', "not base64"),
    ("binary", b'{"a": "A A A"}', "not base64"),
    ("binary", b'{"a": "AAEC="}', "not base64 (Incorrect padding)"),
    ("binary", b'{"a": "AAEC===="}', "not base64"),
    ("binary", b'{"a": "AB=="}', "not base64 (its last digit has bits that belong to no byte)"),
    ("binary", b'{"a": "AAF="}', "not base64 (its last digit has bits that belong to no byte)"),
    ("string", b'{"a": "x', "(Unterminated string starting at character 6)"),
    ("string", b'{"a": "\t"}', "(Invalid control character at character 7)"),
    ("bigint", b'\0\0\0\0\7{"a": 1}', "the schema id 7, as Confluent's framing does, before its JSON"),
    ("bigint", b'\0\0\0\0\0\0\0\0\x80{"a": 1}', "the schema id 128, as Apicurio's framing does"),
    ("bigint", b"\0\0\0\0\xff\2\4", "the schema id 255, as Confluent's framing does, and what follows is not JSON"),
    ("bigint", b"\0\0\0", "not a JSON document"),
    ("binary", b'{"a": 1}', "expected a base64 string"),
    ("date", b'{"a": "2024-02-30"}', "'2024-02-30' is not a date"),
    ("date", b'{"a": "0000-01-01"}', "not a date"),
    ("date", b'{"a": "2024-1-1"}', "not a date"),
    ("date", b'{"a": 19000}', "expected a date as a string"),
    ("timestamp", b'{"a": "2024-01-01T00:00:00"}', "not a timestamp with Z or an offset"),
    ("timestamp", b'{"a": "2024-01-01"}', "not a timestamp"),
    ("timestamp", b'{"a": "2024-01-01T24:00:00Z"}', "not a timestamp"),
    ("timestamp", b'{"a": "2024-01-01T00:00:60Z"}', "not a timestamp"),
    ("timestamp", b'{"a": "2016-12-30T23:59:60Z"}', "not a timestamp"),
    ("timestamp", b'{"a": "2016-12-31T23:59:61Z"}', "not a timestamp"),
    ("timestamp", b'{"a": "9999-12-31T23:59:60Z"}', "not a timestamp"),
    ("timestamp_ntz", b'{"a": "2016-12-31T23:59:60"}', "not a timestamp without Z"),
    ("timestamp_ntz", b'{"a": "2024-01-01T00:00:00z"}', "not a timestamp without Z"),
    ("timestamp", b'{"a": "2024-01-01T00:00:00+24:00"}', "not a timestamp"),
    ("timestamp", b'{"a": "2024-01-01T00:00:00.Z"}', "not a timestamp"),
    ("timestamp", b'{"a": "0001-01-01T00:00:00+01:00"}', "not a timestamp"),
    ("timestamp", b'{"a": 1700000000000}', "expected a timestamp as a string, found an integer"),
    ("timestamp_ntz", b'{"a": "2024-01-01T00:00:00Z"}', "not a timestamp without Z"),
]


@pytest.mark.parametrize(("type_name", "payload", "reason"), JSON_REFUSED, ids=lambda case: repr(case)[:40])
def test_json_refuses(type_name: str, payload: bytes, reason: str) -> None:
    found = reason_of(JSON.decoder(Layout(schema_of(a=type_name))), payload)
    assert reason in found, found
    # The same value among others that are not plain ASCII takes another way through the code.
    schema = schema_of(a=type_name, z="string")
    batch, bad = JSON.decoder(Layout(schema)).decode_valid(EventBuffer.of(['{"z": "é"}'.encode(), payload]))
    assert batch.to_pylist() == [{"a": None, "z": "é"}]
    assert [(event.index, event.reason) for event in bad] == [(1, found)]


JSON_ACCEPTED = [
    ("bigint", b' \r\n\t{"a": 1} \n', 1),
    ("bigint", b'\xef\xbb\xbf{"a": 1}', 1),
    ("bigint", b'{"a": 1, "a": 2}', 2),
    ("bigint", b'{"A": 1}', None),
    ("bigint", b'{"a": -0}', 0),
    ("bigint", b'{"b": 1e999, "c": [[[]]], "a": 5}', 5),
    ("bigint", b"{}", None),
    ("double", b'{"a": 5}', 5.0),
    ("double", b'{"a": 12345678901234567890}', 12345678901234567890.0),
    ("double", b'{"a": -0.0}', -0.0),
    # As java.lang.Double.parseDouble reads it; whole numbers have no sign.
    ("double", b'{"a": -0}', -0.0),
    ("double", b'{"z": "1-0, -0", "a": 0}', 0.0),
    ("float", b'{"a":-0,"b":"\xc3\xa9"}', -0.0),
    ("decimal(5,2)", b'{"a": -0}', Decimal("0.00")),
    ("tinyint", b'{"a": -0}', 0),
    ("double", b'{"a": "NaN"}', float("nan")),
    ("double", b'{"a": "-Infinity"}', float("-inf")),
    ("double", b'{"a": 1e-400}', 0.0),
    ("float", b'{"a": 0.1}', float(np.float32(0.1))),
    ("float", b'{"a": 16777217}', 16777216.0),
    ("string", b'{"a": "\\u00e9\\ud83d\\ude00"}', "é😀"),
    ("string", b'{"a": ""}', ""),
    ("date", b'{"a": "2024-02-29"}', 19782),
    ("timestamp", b'{"a": "2024-01-01T00:00:00Z"}', 1704067200000000),
    ("timestamp", b'{"a": "2024-01-01 01:00+01"}', 1704067200000000),
    ("timestamp", b'{"a": "2024-01-01T00:00:00.1-0030"}', 1704069000100000),
    ("timestamp", b'{"a": "1969-12-31T23:59:59.999999999Z"}', -1),
    # RFC 3339: letters of either case; a leap second is the instant after it, as POSIX counts.
    ("timestamp", b'{"a": "2024-01-01t00:00:00z"}', 1704067200000000),
    ("timestamp", b'{"a": "2024-01-01t01:00:00.5+01:00"}', 1704067200500000),
    ("timestamp", b'{"a": "2016-12-31T23:59:60Z"}', 1483228800000000),
    ("timestamp", b'{"a": "1990-12-31T15:59:60.25-08:00"}', 662688000250000),
    ("timestamp_ntz", b'{"a": "2024-01-01t00:00:00"}', 1704067200000000),
    ("timestamp_ntz", b'{"a": "2024-01-01T00:00:00.123456789"}', 1704067200123456),
    ("timestamp_ntz", b'{"a": "2024-01-01"}', 1704067200000000),
    ("binary", b'{"a": "AAEC"}', b"\0\1\2"),
]


@pytest.mark.parametrize(("type_name", "payload", "value"), JSON_ACCEPTED, ids=lambda case: repr(case)[:40])
def test_json_accepts(type_name: str, payload: bytes, value: object) -> None:
    column = JSON.decoder(Layout(schema_of(a=type_name))).decode(EventBuffer.of([payload])).column(0)
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    assert repr(column.to_pylist()) == repr([value])


@given(
    st.from_regex(
        r"[0-9]{4}-[01][0-9]-[0-3][0-9]([Tt ][0-2][0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,10})?)?)?)?"
        r"([Zz]|[+-][0-2][0-9](:?[0-6][0-9])?)?",
        fullmatch=True,
    )
    | st.text("0123456789-:T Z.+", max_size=26)
)
@example("2024-01-01T00:00:00.1234567Z")
def test_both_ways_of_reading_timestamps_agree(text: str) -> None:
    """Alone a text is read by Arrow if it can be; next to a wrong one it is read by our own grammar."""
    payload = json.dumps({"a": text}).encode()
    for type_name in ("timestamp", "timestamp_ntz", "date"):
        decoder = JSON.decoder(Layout(schema_of(a=type_name)))
        alone, bad_alone = decoder.decode_valid(EventBuffer.of([payload]))
        beside, bad_beside = decoder.decode_valid(EventBuffer.of([payload, b'{"a": "wrong"}']))
        assert alone.equals(beside)
        assert [event.reason for event in bad_alone] == [event.reason for event in bad_beside][: len(bad_alone)]
        assert len(bad_beside) == len(bad_alone) + 1


@pytest.mark.parametrize(("depth", "fine"), [(512, True), (513, False), (5_000, False), (200_000, False)])
@pytest.mark.parametrize("wanted", ["a", "other"])
def test_json_nesting(depth: int, fine: bool, wanted: str) -> None:
    """The object itself is one level; whether the nested part is read does not matter."""
    payload = b'{"b": "[[", "a": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    types: dict[str, str] = {wanted: "string"}
    _, bad = JSON.decoder(Layout(schema_of(**types))).decode_valid(EventBuffer.of([payload, b"{}"]))
    if fine and wanted == "other":
        assert bad == []
    else:
        assert [event.index for event in bad] == [0]
        assert ("nested more than 512 levels deep" in bad[0].reason) is not fine


def test_json_null_in_a_not_null_column() -> None:
    decoder = JSON.decoder(Layout(schema_of(a="bigint!")))
    batch, bad = decoder.decode_valid(EventBuffer.of([b"{}", b'{"a": 1}', b'{"a": null}', b'{"a": "x"}']))
    assert batch.to_pylist() == [{"a": 1}]
    assert [(event.index, "NOT NULL" in event.reason) for event in bad] == [(0, True), (2, True), (3, False)]


def test_paths_of_nested_values() -> None:
    text = json.dumps(
        {
            "properties": {
                "s": {"properties": {"m": {"additionalProperties": {"type": "array", "items": {"type": "integer"}}}}}
            }
        }
    )
    decoder = JSON.decoder(Layout(JSON.spark_schema(text), text))
    good = b'{"s": {"m": {"k": [1, null]}}}'
    _, bad = decoder.decode_valid(EventBuffer.of([good, b'{"s": {"m": {"x": [], "k": [2, true]}}}', good]))
    assert str(bad[0]) == "event 1: column 's.m.value.element': expected an integer, found a boolean"
    for payload, reason in [
        (b'{"s": 1}', "column 's': expected an object, found an integer"),
        (b'{"s": {"m": []}}', "column 's.m': expected an object, found an array"),
        (b'{"s": {"m": {"k": {}}}}', "column 's.m.value': expected an array, found an object"),
        (
            b'{"s": {"m": {"\\udc00": []}}}',
            "column 's.m.key': the string has half of a surrogate pair, which is not a character",
        ),
    ]:
        batch, bad = decoder.decode_valid(EventBuffer.of([good, payload, good]))
        assert [event.reason for event in bad] == [reason]
        assert batch.to_pylist() == [{"s": {"m": [("k", [1, None])]}}] * 2


AVRO_TEXT = json.dumps(
    {
        "type": "record",
        "name": "T",
        "fields": [
            {"name": "b", "type": "boolean"},
            {"name": "i", "type": "int"},
            {"name": "s", "type": ["null", "string"]},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "u", "type": ["int", "string"]},
            {"name": "l", "type": {"type": "array", "items": "int"}},
            {"name": "m", "type": {"type": "map", "values": "int"}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)
GOOD_PARTS = [b"\1", b"\2", b"\2\2x", b"\2", b"\2\2y", b"\2\2\0", b"\0", b"\2\5", b"\2"]
AVRO_REFUSED = [
    (0, b"\2", "a boolean that is 2"),
    (1, b"\x80\x80\x80\x80\x10", "an int of more than 32 bits"),
    (1, b"\xff" * 10 + b"\1", "a number of more than 64 bits"),
    (1, b"\xff" * 9 + b"\x02", "a number of more than 64 bits"),
    (2, b"\1", "branch number -1 of a union of 2"),
    (2, b"\4", "branch number 2 of a union of 2"),
    (2, b"\2\1", "a string of negative length"),
    (2, b"\2\x02\xff", "column 's': the string is not UTF-8"),
    (3, b"\1", "symbol number -1"),
    (3, b"\4", "symbol number 2 of an enum with 2"),
    (4, b"\1", "branch number -1"),
    (4, b"\4", "branch number 2"),
    (4, b"\2\2\xff", "column 'u.member1': the string is not UTF-8"),
    (5, b"\xfe\xff\xff\xff\x0f", "an array that claims 2147483647 more elements"),
    (5, b"\1\1\2\0", "a block of negative size"),
    (6, b"\xfe\xff\xff\xff\x0f", "a map that claims"),
    (6, b"\2\2\xff\2\0", "column 'm.key': the string is not UTF-8"),
    (7, b"\4\x27\x10", "column 'd': the number 10000E-1 is out of the range of decimal(3,1)"),
    (7, b"\x28" + b"\x7f" * 20, "column 'd': the number is out of the range"),
    (8, b"\xfe" + b"\xff" * 8 + b"\1", "column 't': the timestamp of 9223372036854775807 milliseconds"),
    (8, b"\2\0", "1 bytes more than its schema accounts for"),
    (8, b"", "cut off"),
]


def with_part(place: int, part: bytes) -> bytes:
    return b"".join(part if place == other_place else good for other_place, good in enumerate(GOOD_PARTS))


@pytest.mark.parametrize(("place", "part", "reason"), AVRO_REFUSED, ids=lambda case: repr(case)[:40])
def test_avro_refuses(place: int, part: bytes, reason: str) -> None:
    decoder = AVRO.decoder(Layout(AVRO.spark_schema(AVRO_TEXT), AVRO_TEXT))
    good = b"".join(GOOD_PARTS)
    expected = decoder.decode(EventBuffer.of([good]))
    batch, bad = decoder.decode_valid(EventBuffer.of([good, with_part(place, part), good]))
    assert [event.index for event in bad] == [1]
    assert reason in bad[0].reason, bad[0].reason
    assert batch.equals(pa.concat_batches([expected, expected]))


def test_every_truncation_of_an_avro_event_is_bad() -> None:
    decoder = AVRO.decoder(Layout(AVRO.spark_schema(AVRO_TEXT), AVRO_TEXT))
    good = b"".join(GOOD_PARTS)
    payloads = [good[:length] for length in range(len(good))]
    batch, bad = decoder.decode_valid(EventBuffer.of([*payloads, good]))
    assert batch.num_rows == 1
    assert [event.index for event in bad] == list(range(len(good)))
    assert bad[0].reason == "it is empty"


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_are_rows_or_bad_events(payloads: list[bytes]) -> None:
    for format, text in ((AVRO, AVRO_TEXT), (JSON, '{"properties": {"a": {"type": "integer"}}}')):
        decoder = format.decoder(Layout(format.spark_schema(text), text))
        batch, bad = decoder.decode_valid(EventBuffer.of(payloads))
        batch.validate(full=True)
        assert batch.num_rows + len(bad) == len(payloads)


@given(st.binary(max_size=30), st.integers(0, 40), st.integers(0, 255))
@example(b"\x80\x80\x80\x80\x80\x1d", 15, 129)
def test_what_avro_accepts_another_implementation_reads_alike(tail: bytes, place: int, byte: int) -> None:
    payload = bytearray(b"".join(GOOD_PARTS) + tail)
    payload[place % len(payload)] = byte
    decoder = AVRO.decoder(Layout(AVRO.spark_schema(AVRO_TEXT), AVRO_TEXT))
    batch, bad = decoder.decode_valid(EventBuffer.of([bytes(payload)]))
    if not bad:
        source = io.BytesIO(bytes(payload))
        # Without logical types: Python's dates end with the year 9999.
        plain = fastavro.parse_schema(json.loads(AVRO_TEXT.replace("logicalType", "other")))
        theirs: Any = fastavro.schemaless_reader(source, plain, None)
        ours = batch.select(list("biselmu")).to_pylist()[0]
        assert source.read() == b""
        assert (ours["b"], ours["i"], ours["s"], ours["e"], ours["l"], dict(ours["m"])) == tuple(
            theirs[name] for name in "biselm"
        )
        assert theirs["u"] == (ours["u"]["member0"] if ours["u"]["member1"] is None else ours["u"]["member1"])


WRITERS = {
    0: WriterSchema('{"properties": {"a": {"type": "integer"}}}', "Json", ""),
    1: WriterSchema("{}", "Json", "application/x-gzip"),
    2: WriterSchema("{}", "Json", "application/x-snappy-framed"),
    3: WriterSchema("{}", "Json", "com.acme/zstd"),
    4: WriterSchema('"string"', "Avro", ""),
}


def resolve(encoding_id: int) -> WriterSchema:
    if encoding_id not in WRITERS:
        raise SchemaNotFoundError(f"no {encoding_id}")
    return WRITERS[encoding_id]


def test_framing() -> None:
    decoder = JSON.decoder(Layout(schema_of(a="bigint")), resolve)
    events = [
        make_header(0) + b'{"a": 0}',
        b"",
        b"\1\0\0\0",
        make_header(0),
        b'{"a": 4}',
        make_header(1) + gzip.compress(b'{"a": 5}' + b"\0" * 120),
        make_header(2) + bytes(cramjam.snappy.compress_raw(b'{"a": 6}' + b"\0" * 248)),
        make_header(1) + b"not gzip",
        make_header(2) + b"\xff\xff\xff\xff\x0f",
        make_header(1) + gzip.compress(b'{"a": 9}')[:-3],
        make_header(1) + gzip.compress(b'{"a"') + gzip.compress(b": 10}"),
        make_header(1) + gzip.compress(b'{"a": 11}') + b"x",
        make_header(3) + b"{}",
        make_header(4) + b"{}",
        make_header(99) + b"{}",
        b"\1\xff\xff\xff\xff{}",
        make_header(0) + b'{"a": 16}\0\1',
        make_header(1) + gzip.compress(b"\0" * 100),
        make_header(1),
        make_header(2),
        make_header(0) + b'{"a": 20}',
        make_header(1) + gzip.compress(b"") * 400_000,
        b'\0\0\0\0\1{"a": 1}',
    ]
    batch, bad = decoder.decode_valid(EventBuffer.of(events))
    assert batch.column(0).to_pylist() == [0, 5, 6, 10, 20]
    reasons = {event.index: event.reason for event in bad}
    assert sorted(reasons) == [1, 2, 3, 4, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22]
    expected = {
        1: "it is empty",
        2: "it has 4 bytes, fewer than the 5 of a registry header",
        3: "it is empty",
        4: "its first byte is 0x7b, not the 0x01",
        22: "not the 0x01 of a registry header, but the zero byte of Confluent's or Apicurio's framing",
        7: "gzip data is broken",
        8: "it would have 4294967295 bytes after decompression",
        9: "gzip data is cut off",
        11: "gzip data is cut off",
        12: "the codec 'com.acme/zstd' is not supported",
        13: "stands for a schema of format Avro, but the table is read as Json",
        14: "its encoding id 99 is not in the schema registry",
        15: "negative",
        16: "something follows",
        17: "it is empty",
        18: "it should be gzip data but is empty",
        21: "its gzip data has more than 64 members",
        19: "snappy data is broken",
    }
    for index, reason in expected.items():
        assert reason in reasons[index], (index, reasons[index])


def test_decompression_bombs() -> None:
    decoder = JSON.decoder(Layout(schema_of(a="bigint")), resolve)
    good = make_header(0) + b'{"a": 1}'
    # 8 MiB of zeros gzip to 8 kB; of 65 MiB, gzipped, no more than the limit is ever held.
    compressor = zlib.compressobj(9, wbits=31)
    bomb = b"".join(compressor.compress(b" " * (1 << 20)) for _ in range(65)) + compressor.flush()
    lying = b"\xff\xff\xff\xff\x07" + b"\0" * 20
    batch, bad = decoder.decode_valid(EventBuffer.of([good, make_header(1) + bomb, make_header(2) + lying, good]))
    assert batch.num_rows == 2
    assert [event.index for event in bad] == [1, 2]
    assert all(f"at most {LARGEST_PAYLOAD} are allowed" in event.reason for event in bad), bad


def test_compressed_events_that_are_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LARGEST_BATCH", 1 << 20)
    decoder = JSON.decoder(Layout(schema_of(a="bigint")), resolve)
    large = make_header(1) + gzip.compress(b'{"a": 1}' + b" " * ((1 << 19) - 8))
    with pytest.raises(Overfull):
        decoder.decode_valid(EventBuffer.of([large] * 3))
    batch, bad = decoder.decode_valid(EventBuffer.of([large] * 2))
    assert (batch.num_rows, bad) == (2, [])
    other = make_header(2) + cramjam.snappy.compress_raw(b'{"a": 1}' + b" " * ((1 << 19) - 8)).read()
    with pytest.raises(Overfull):
        decoder.decode_valid(EventBuffer.of([large, other, other]))


@pytest.mark.parametrize("codec", [1, 2])
def test_a_task_ends_at_many_events_that_grow_very_much(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_EXPANSION.default == batches.LARGEST_EXPANSION
    monkeypatch.setattr(batches, "FREE_EXPANSION", 1 << 20)
    monkeypatch.setattr(batches, "LARGEST_EXPANSION", 15)
    pack = gzip.compress if codec == 1 else lambda data: bytes(cramjam.snappy.compress_raw(data))
    bomb, calm = (make_header(codec) + pack(b'{"a": "' + text + b'"}') for text in (b"x" * 400_000, b"xy"))
    decoder = JSON.decoder(Layout(schema_of(a="string")), resolve)
    for _ in range(2):
        decoder.decode_valid(EventBuffer.of([bomb]))
    with pytest.raises(UnsupportedOperationError, match="after decompression, and .* at most 15 times"):
        decoder.decode_valid(EventBuffer.of([bomb]))
    batches.limit_expansion(decoder, 10_000)
    assert decoder.decode_valid(EventBuffer.of([bomb]))[0].num_rows == 1
    batch, bad = JSON.decoder(Layout(schema_of(a="string")), resolve).decode_valid(EventBuffer.of([calm] * 50_000))
    assert (batch.num_rows, bad) == (50_000, [])


def test_nuls_may_follow_behind_a_registry_header_only() -> None:
    # Flink's `pravega-registry` sends its whole buffer, the official serializer compresses its whole one.
    text = '{"type": "record", "name": "T", "fields": [{"name": "a", "type": "long"}]}'
    writers = {0: WriterSchema(text, "Avro", ""), 1: WriterSchema(text, "Avro", "application/x-gzip")}
    decoder = AVRO.decoder(Layout(AVRO.spark_schema(text), text), writers.__getitem__)
    events = [
        make_header(1) + gzip.compress(b"\2" + b"\0" * 127),
        make_header(1) + gzip.compress(b"\2"),
        make_header(0) + b"\2" + b"\0" * 58,
        make_header(1) + gzip.compress(b"\2\0\1"),
        make_header(0) + b"\2\0\1",
        make_header(0) + b"\4",
    ]
    batch, bad = decoder.decode_valid(EventBuffer.of(events))
    assert batch.column(0).to_pylist() == [1, 1, 1, 2]
    assert [event.index for event in bad] == [3, 4]
    _, bad = AVRO.decoder(Layout(AVRO.spark_schema(text), text)).decode_valid(EventBuffer.of([b"\2", b"\2\0"]))
    assert [(event.index, event.reason) for event in bad] == [(1, "it has 1 bytes more than its schema accounts for")]


@pytest.mark.parametrize("name", ["json", "debezium-json"])
def test_nuls_may_follow_documents_behind_a_registry_header(name: str) -> None:
    document = b'{"op": "c", "a": 5, "after": {"a": 5}}'
    columns = schema_of(a="bigint") if name == "json" else changelog_schema(schema_of(a="bigint"))
    wanted = columns if name == "json" else StructType([columns["after"]])
    padded = [document, document + bytes(58), document + b"\0 ", document + b"\0}", document[:-1] + b"\0"]
    writer = WriterSchema('{"type": "object"}', "Json", "")
    decoder = find_format(name).decoder(Layout(wanted), lambda encoding_id: writer)
    batch, bad = decoder.decode_valid(EventBuffer.of([make_header(0) + payload for payload in padded]))
    row = 5 if name == "json" else {"a": 5}
    assert batch.column(0).to_pylist() == [row, row]
    assert [event.index for event in bad] == [2, 3, 4]
    batch, bad = find_format(name).decoder(Layout(wanted)).decode_valid(EventBuffer.of(padded))
    assert batch.column(0).to_pylist() == [row]
    assert [event.index for event in bad] == [1, 2, 3, 4]


def test_a_registry_that_is_away_makes_no_event_bad() -> None:
    def away(encoding_id: int) -> WriterSchema:
        raise ServerUnavailableError("away")

    with pytest.raises(ServerUnavailableError):
        JSON.decoder(Layout(schema_of(a="bigint")), away).decode_valid(EventBuffer.of([make_header(0) + b"{}"]))


def test_an_id_that_was_unknown_is_asked_for_again() -> None:
    known: dict[int, WriterSchema] = {}

    def late(encoding_id: int) -> WriterSchema:
        if encoding_id not in known:
            raise SchemaNotFoundError("not yet")
        return known[encoding_id]

    decoder = JSON.decoder(Layout(schema_of(a="bigint")), late)
    events = EventBuffer.of([make_header(0) + b"{}"])
    assert len(decoder.decode_valid(events)[1]) == 1
    known[0] = WRITERS[0]
    assert decoder.decode(events).num_rows == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_order_over_many_pieces_and_ids(choices: list[tuple[int, bool]]) -> None:
    decoder = JSON.decoder(Layout(schema_of(a="bigint")), resolve)
    payloads, wanted = [], []
    for number, (encoding_id, is_good) in enumerate(choices):
        text = b'{"a": %d}' % number if is_good else b"{"
        codec: Any = {1: gzip.compress, 2: lambda data: bytes(cramjam.snappy.compress_raw(data))}.get(
            encoding_id, bytes
        )
        payloads.append(make_header(encoding_id) + codec(text))
        if is_good and encoding_id != 3:
            wanted.append(number)
    batch, bad = decoder.decode_valid(EventBuffer.of(payloads))
    assert batch.column(0).to_pylist() == wanted
    assert [event.index for event in bad] == sorted(set(range(len(choices))) - set(wanted))


def test_more_events_than_a_piece() -> None:
    count = 10_000
    payloads = [b'{"a": %d, "z": "%s"}' % (number, b"x" * (number % 7)) for number in range(count)]
    payloads[5_000] = b"{"
    batch, bad = JSON.decoder(Layout(schema_of(a="bigint"))).decode_valid(EventBuffer.of(payloads))
    assert [event.index for event in bad] == [5_000]
    assert batch.column(0).to_pylist() == [number for number in range(count) if number != 5_000]


def test_header_bytes() -> None:
    assert framing.make_header(0x01020304) == b"\1\1\2\3\4"
    assert framing.find_codec("application/x-gzip") is framing.find_codec("gzip")


def test_events_that_come_again_in_parts_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LARGEST_BATCH", 1 << 20)
    monkeypatch.setattr(batches, "FREE_EXPANSION", 2 << 20)
    monkeypatch.setattr(batches, "LARGEST_EXPANSION", 1)
    decoder = JSON.decoder(Layout(schema_of(a="bigint")), resolve)
    large = make_header(1) + gzip.compress(b'{"a": 1}' + b" " * ((1 << 19) - 8))
    with pytest.raises(Overfull):
        decoder.decode_valid(EventBuffer.of([large] * 4))
    for _ in range(2):
        decoder.decode_valid(EventBuffer.of([large] * 2))
    with pytest.raises(UnsupportedOperationError, match=f"have {5 << 19} bytes after decompression"):
        decoder.decode_valid(EventBuffer.of([large]))


@pytest.mark.parametrize("broken", ["sum", "block", "members"])
def test_what_broken_events_cost_counts_too(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "FREE_EXPANSION", 1 << 20)
    monkeypatch.setattr(batches, "LARGEST_EXPANSION", 1)
    text, compressor = b" " * 600_000, zlib.compressobj(wbits=31)
    event, reason = {
        "sum": (gzip.compress(text)[:-8] + b"\0" * 8, "incorrect data check"),
        "block": (compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 9, "invalid block type"),
        "members": (gzip.compress(text[:10_000]) * 66, "more than 64 members"),
    }[broken]
    decoder = JSON.decoder(Layout(schema_of(a="bigint")), resolve)
    _, [bad] = decoder.decode_valid(EventBuffer.of([make_header(1) + event]))
    assert reason in bad.reason
    with pytest.raises(UnsupportedOperationError, match=r"have 1[123]\d{5} bytes after decompression"):
        decoder.decode_valid(EventBuffer.of([make_header(1) + event]))
