"""The declared column against the event's own type: cases from the field, each with its right value or its reason.

Every type in every column is compared with Kafka Connect and Debezium themselves in tests/interop/test_connect_types.
"""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import types as t

from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.formats.changes.encodings.kafka_connect_schema import FieldSchema
from pyspark_pravega.formats.changes.encodings.matrix import MATRIX, Target, find_reading, find_target
from pyspark_pravega.formats.changes.encodings.semantic_types import NAMED, Semantic, choose_type, find_semantic
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Layout, find_format
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.changes.test_debezium_encodings import changelog_type, columns, decode, envelope, event

CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
DECIMAL: dict[str, Any] = {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}}


def one(schema: dict[str, Any], value: Any, data_type: t.DataType, **settings: str) -> Any:
    """What a column reads of one value beside a schema."""
    payload = {"before": None, "after": {"x": value}, "op": "c"}
    (row,) = decode(columns(x=data_type), [envelope(payload, [("x", schema)])], **settings)
    return row["after"]["x"]


def refused(schema: dict[str, Any], value: Any, data_type: t.DataType, **settings: str) -> str:
    """Why a value is refused."""
    with pytest.raises(BadEvent) as caught:
        one(schema, value, data_type, **settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data_type", "wanted"),
    [
        (t.DecimalType(10, 2), Decimal("1.50")),
        (t.DecimalType(38, 10), Decimal("1.5000000000")),
        (t.StringType(), "1.5"),
        (t.DoubleType(), 1.5),
    ],
)
def test_a_decimal_may_be_a_number_beside_a_schema(data_type: t.DataType, wanted: Any) -> None:
    """KAFKA-8595: `decimal.format` = NUMERIC of Kafka Connect's JSON converter."""
    assert one(DECIMAL, 1.5, data_type) == wanted
    assert one(DECIMAL, "AJY=", data_type) in (wanted, "1.50")
    assert one(DECIMAL, 2, t.LongType()) == 2


def test_digits_that_a_double_does_not_have_are_not_lost() -> None:
    payload = {"before": None, "after": {"x": 0.5}, "op": "c"}
    precise = envelope(payload, [("x", DECIMAL)]).replace(b"0.5", b"0.99999999999999999")
    with pytest.raises(BadEvent, match="expected a whole number"):
        decode(columns(x=t.LongType()), [precise])


@needs_native
def test_decimals_as_numbers_are_read_natively() -> None:
    table = columns(id=t.IntegerType(), p=t.DecimalType(10, 2), b=t.BinaryType())
    format = find_format("debezium-json")
    both = BothPaths("debezium-json", changelog_schema(table), format.schema_text(Layout(table), "t", "s"), None, {})
    fields = [("id", {"type": "int32"}), ("p", DECIMAL), ("b", {"type": "bytes"})]
    events = [
        envelope({"before": None, "after": {"id": number, "p": value, "b": text}, "op": "c"}, fields)
        for number, (value, text) in enumerate([(1.5, "AAECAwQF"), ("AJY=", "deadbeef"), (1.505, ""), (None, None)])
    ]
    batch, bad = both.check(EventBuffer.of(events))
    assert [row["after"]["p"] for row in batch.to_pylist()] == [Decimal("1.50"), Decimal("1.50"), None]
    assert [bad_event.index for bad_event in bad] == [2]
    # Without schema, what may be hex as well is left to Python, which refuses it.
    texts = ("AAECAwQF", "deadbeef", "DEADBEEF01")
    _, bad = both.check(EventBuffer.of([event({"id": 1, "b": text}) for text in texts]))
    assert [bad_event.index for bad_event in bad] == [1, 2]


MOMENTS = [
    ({"type": "int64", "name": TIME + "Timestamp"}, 1_532_563_200_000, 1_532_592_105_000),
    ({"type": "int64", "name": CONNECT + "Timestamp"}, 1_532_563_200_000, 1_532_592_105_000),
    ({"type": "int64", "name": TIME + "MicroTimestamp"}, 1_532_563_200_000_000, 1_532_563_200_000_001),
    ({"type": "int64", "name": TIME + "NanoTimestamp"}, 1_532_563_200_000_000_000, 1_532_563_200_000_000_001),
    ({"type": "string", "name": TIME + "ZonedTimestamp"}, "2018-07-26T02:00:00+02:00", "2018-07-26T00:00:00+02:00"),
    ({"type": "string", "name": TIME + "IsoTimestamp"}, "2018-07-26T00:00:00Z", "2018-07-26T00:00:00.000000001Z"),
]


@pytest.mark.parametrize(("schema", "midnight", "later"), MOMENTS)
def test_a_date_over_a_timestamp_is_exact_at_midnight(schema: dict[str, Any], midnight: Any, later: Any) -> None:
    assert one(schema, midnight, t.DateType()) == date(2018, 7, 26)
    reason = refused(schema, later, t.DateType())
    assert schema["name"] in reason and "is not midnight" in reason and "DATE" in reason


@pytest.mark.parametrize("data_type", [t.TimestampType(), t.TimestampNTZType()])
@pytest.mark.parametrize(
    ("schema", "words", "instead"),
    [
        ({"type": "int32", "name": TIME + "Date"}, "(int32, days since 1970)", "DATE or STRING"),
        ({"type": "int32", "name": CONNECT + "Date"}, "(int32, days since 1970)", "DATE or STRING"),
        ({"type": "int32", "name": TIME + "Year"}, "(int32, a year)", "INT or STRING"),
        ({"type": "int32", "name": TIME + "Time"}, "(int32, milliseconds of a day)", "STRING"),
        ({"type": "int64", "name": TIME + "MicroTime"}, "(int64, microseconds of a day)", "STRING"),
        ({"type": "int64", "name": TIME + "MicroDuration"}, "(int64, microseconds)", "BIGINT or STRING"),
        ({"type": "int64"}, "int64", "BIGINT or STRING, or name its unit in the table property"),
        ({"type": "int64", "name": "com.example.Count"}, "com.example.Count (int64)", "BIGINT or STRING"),
    ],
)
def test_a_timestamp_over_another_count_is_refused(
    schema: dict[str, Any], words: str, instead: str, data_type: t.DataType
) -> None:
    for settings in ({}, {"debezium__time_precision": "connect"}):
        reason = refused(schema, 17738, data_type, **settings)
        column = data_type.simpleString().upper()
        assert f"the event's type is {schema.get('name', '')}" in reason
        assert f"{words}, which a column of type {column} cannot hold; declare the column as {instead}" in reason


def test_a_plain_number_counts_in_the_unit_that_is_named() -> None:
    plain = {"type": "int64"}
    assert one(plain, 1000, t.TimestampNTZType(), debezium__time_units="x=ms") == datetime(1970, 1, 1, 0, 0, 1)
    moment = {"type": "int64", "name": TIME + "MicroTimestamp"}
    assert one(moment, 1000, t.TimestampNTZType(), debezium__time_units="x=ms") == datetime(1970, 1, 1, 0, 0, 0, 1000)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "int32"}, 17738),
        ({"type": "int32", "name": TIME + "Year"}, 2018),
        ({"type": "int64", "name": TIME + "MicroTime"}, 5),
        ({"type": "bytes"}, "AAEC"),
        (DECIMAL, "AJY="),
    ],
)
def test_a_date_over_what_counts_no_days_is_refused(schema: dict[str, Any], value: Any) -> None:
    reason = refused(schema, value, t.DateType())
    assert schema.get("name", schema["type"]) in reason and "a column of type DATE cannot hold" in reason


def test_texts_of_bytes_are_no_numbers() -> None:
    """Base64 may have nothing but digits."""
    for data_type in (t.LongType(), t.DoubleType(), t.DecimalType(10, 2)):
        assert "the event's type is bytes" in refused({"type": "bytes"}, "1234", data_type)


def test_days_out_of_32_bits_are_never_null() -> None:
    days = {"type": "int32", "name": TIME + "Date"}
    assert one(days, 2**31 - 1, t.DateType()) is None
    assert "not a day of the years 0001 to 9999" in refused(days, 2**31, t.DateType())


@pytest.mark.parametrize("connector", ["mysql", "oracle", "postgresql"])
def test_a_number_that_is_no_day_is_refused_without_schema(connector: str) -> None:
    table, source = columns(d=t.DateType()), {"connector": connector}
    for number in (1_532_592_105_000, 1_532_592_105, -(2**40)):
        with pytest.raises(BadEvent, match=f"the number {number} is not a day of the years 0001 to 9999; if it counts"):
            decode(table, [event({"d": number}, source=source)])
    assert decode(table, [event({"d": 17738}, source=source)])[0]["after"]["d"] == date(2018, 7, 26)
    infinite = [event({"d": number}, source=source) for number in (-2_147_472_692, -622_191_234, -735_160)]
    if connector == "postgresql":
        assert [row["after"]["d"] for row in decode(table, infinite)] == [None] * 3
    else:
        with pytest.raises(BadEvent, match="not a day of the years"):
            decode(table, infinite)


BYTES = bytes.fromhex("deadbeef00fbff")
TEXTS = {
    "bytes": "3q2+7wD7/w==",
    "base64": "3q2+7wD7/w==",
    "base64-url-safe": "3q2-7wD7_w==",
    "hex": "deadbeef00fbff",
}


@pytest.mark.parametrize(("mode", "text"), TEXTS.items())
def test_bytes_are_read_by_the_mode(mode: str, text: str) -> None:
    table = columns(b=t.BinaryType())
    assert decode(table, [event({"b": text})], debezium__binary=mode)[0]["after"]["b"] == BYTES
    # A schema of bytes is base64, whatever the property says.
    assert one({"type": "bytes"}, "3q2+7wD7/w==", t.BinaryType(), debezium__binary=mode) == BYTES
    assert one({"type": "bytes"}, "deadbeef", t.BinaryType(), debezium__binary=mode) == b"u\xe6\x9dm\xe7\x9f"
    assert one({"type": "bytes"}, "deadbeef", t.StringType()) == "deadbeef"
    if mode == "bytes":
        assert "'debezium.binary'" in refused({"type": "string"}, text, t.BinaryType(), debezium__binary=mode)
    else:
        assert one({"type": "string"}, text, t.BinaryType(), debezium__binary=mode) == BYTES


@pytest.mark.parametrize("text", ["deadbeef", "DEADBEEF", "AAAAAAAA", "1234567890"])
def test_a_text_that_may_be_hex_needs_the_property(text: str) -> None:
    table = columns(b=t.BinaryType())
    with pytest.raises(BadEvent, match="may be hex as well as base64; set the table property 'debezium.binary'"):
        decode(table, [event({"b": text})])
    assert decode(table, [event({"b": text})], debezium__binary="hex")[0]["after"]["b"] == bytes.fromhex(text)
    reason = refused({"type": "string"}, text, t.BinaryType())
    assert "the event's type is string, the column's BINARY" in reason and "set the table property" in reason


@pytest.mark.parametrize(
    ("mode", "text"), [("hex", "xx"), ("hex", "abc"), ("hex", "de ad"), ("base64-url-safe", "+/8A"), ("base64", "-_8A")]
)
def test_a_text_of_another_mode_is_refused(mode: str, text: str) -> None:
    with pytest.raises(BadEvent, match="the string.* is not"):
        decode(columns(b=t.BinaryType()), [event({"b": text})], debezium__binary=mode)


@pytest.mark.parametrize("mode", [None, *TEXTS])
def test_inserted_bytes_are_read_back(mode: str | None) -> None:
    table = columns(b=t.BinaryType(), list=t.ArrayType(t.BinaryType()), at=t.TimestampNTZType())
    settings = {} if mode is None else {"debezium.binary": mode}
    rows = [{"b": value, "list": [value, None], "at": datetime(2024, 1, 31)} for value in (BYTES, b"", bytes(6), None)]
    found = find_format("debezium-json")
    for precision in ("adaptive", "isostring", "nanoseconds", "microseconds", "connect", "adaptive_time_microseconds"):
        chosen = settings | {"debezium.time-precision": precision}
        batch = pa.RecordBatch.from_struct_array(pa.array(rows, changelog_type(table)))
        payloads = found.encoder(Layout(table, settings=chosen)).encode(batch)
        decoder = found.decoder(Layout(changelog_schema(table), found.schema_text(Layout(table), "t", "s"), chosen))
        assert [row["after"] for row in decoder.decode(EventBuffer.of_arrow(payloads)).to_pylist()] == rows
    assert json.loads(payloads[0].as_py())["after"]["b"] == TEXTS[mode or "base64"]


@pytest.mark.parametrize("placeholder", ["__debezium_unavailable_value", "<gone>~~~?"])
def test_the_placeholder_is_known_in_every_mode(placeholder: str) -> None:
    raw = placeholder.encode()
    texts = [placeholder, base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex()]
    table = columns(b=t.BinaryType())
    events = [event({"b": text}, "u") for text in texts]
    rows = decode(table, events, debezium__unavailable_value=placeholder, debezium__binary="hex")
    assert [row["unavailable"] for row in rows] == [["b"]] * 4


@pytest.mark.parametrize("connector", ["oracle", "sqlserver", "db2", "informix", "vitess", ""])
def test_a_connector_without_one_unit_needs_the_property(connector: str) -> None:
    """Oracle's DATE is always milliseconds, its TIMESTAMP microseconds."""
    table = columns(c=t.TimestampNTZType())
    events = [event({"c": 1_532_592_105_000}, source={"connector": connector} if connector else None)]
    with pytest.raises(BadEvent) as caught:
        decode(table, events)
    assert (f"the connector '{connector}'" if connector else "an event without connector") in str(caught.value)
    assert "set the table property 'debezium.time-units', for example 'created=ms'" in str(caught.value)
    moment = datetime(2018, 7, 26, 8, 1, 45)
    assert decode(table, events, debezium__time_units="c=ms")[0]["after"]["c"] == moment
    assert decode(table, events, debezium__time_precision="connect")[0]["after"]["c"] == moment


@pytest.mark.parametrize(("precision", "number"), [("microseconds", 10**6), ("nanoseconds", 10**9), ("connect", 1000)])
@pytest.mark.parametrize("connector", ["oracle", "mysql", "postgresql"])
def test_modes_with_one_unit(precision: str, number: int, connector: str) -> None:
    events = [event({"c": number}, source={"connector": connector})]
    (row,) = decode(columns(c=t.TimestampNTZType()), events, debezium__time_precision=precision)
    assert row["after"]["c"] == datetime(1970, 1, 1, 0, 0, 1)


def test_isostrings_without_schema() -> None:
    table = columns(d=t.DateType(), at=t.TimestampNTZType())
    (row,) = decode(
        table,
        [event({"d": "2018-07-26Z", "at": "2018-07-26T08:01:45.125Z"})],
        debezium__time_precision="isostring",
    )
    assert row["after"] == {"d": date(2018, 7, 26), "at": datetime(2018, 7, 26, 8, 1, 45, 125000)}
    with pytest.raises(BadEvent, match="the unit of the number 5 is unknown"):
        decode(table, [event({"at": 5})], debezium__time_precision="isostring")


PAIRS: list[tuple[str, Any, t.DataType, Any]] = [
    ("int16", [[1, 1.5], [2, None]], t.ShortType(), [(1, 1.5), (2, None)]),
    ("int16", [[1, 1.5], [2, 2.5], [1, 3.5]], t.LongType(), [(1, 3.5), (2, 2.5)]),
    ("int16", [[1, 1.5]], t.StringType(), [("1", 1.5)]),
    ("boolean", [[True, 0]], t.BooleanType(), [(True, 0.0)]),
    ("int32", [], t.IntegerType(), []),
    ("string", {"7": 1}, t.IntegerType(), [(7, 1.0)]),
]


@pytest.mark.parametrize(("keys", "value", "key_type", "wanted"), PAIRS)
def test_maps_have_keys_of_any_type(keys: str, value: Any, key_type: t.DataType, wanted: Any) -> None:
    """DBZ-8121: Connect's JSON converter writes them as arrays of key and value."""
    schema = {"type": "map", "keys": {"type": keys}, "values": {"type": "double"}}
    data_type = t.MapType(key_type, t.DoubleType())
    assert one(schema, value, data_type) == wanted
    (row,) = decode(columns(x=data_type), [event({"x": value})])
    assert row["after"]["x"] == wanted


@pytest.mark.parametrize(
    ("keys", "value", "key_type", "reason"),
    [
        ({"type": "int64", "name": TIME + "NanoTimestamp"}, [[1, 0], [2, 0]], t.TimestampNTZType(), "are one key in"),
        ({"type": "int32"}, [[1, 2, 3]], t.IntegerType(), "expected an array of a key and a value"),
        ({"type": "int32"}, [[None, 2]], t.IntegerType(), "a map has a key that is null"),
        ({"type": "int32"}, [["x", 2]], t.IntegerType(), "expected a whole number"),
        ({"type": "int32"}, 5, t.IntegerType(), "expected an object or an array of entries, found an integer"),
        ({"type": "int32"}, [[5, 2]], t.DateType(), "the event's type is int32, which a column of type DATE"),
    ],
)
def test_entries_that_are_no_map_make_their_event_bad(
    keys: dict[str, Any], value: Any, key_type: t.DataType, reason: str
) -> None:
    schema = {"type": "map", "keys": keys, "values": {"type": "int32"}}
    assert reason in refused(schema, value, t.MapType(key_type, t.IntegerType()))


def test_maps_of_confluents_avro_converter() -> None:
    """AvroData writes an array of records."""
    entry = {
        "type": "record",
        "name": "MapEntry",
        "namespace": "io.confluent.connect.avro",
        "fields": [
            {"name": "key", "type": {"type": "int", "connect.type": "int16"}},
            {"name": "value", "type": "double"},
        ],
    }
    row = {"type": "record", "name": "Value", "fields": [{"name": "m", "type": {"type": "array", "items": entry}}]}
    schema = {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "after", "type": row}, {"name": "op", "type": "string"}],
    }
    out = io.BytesIO()
    value = {"after": {"m": [{"key": 1, "value": 1.5}, {"key": 2, "value": 2.5}]}, "op": "c"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    data = b"\0\0\0\0\7" + out.getvalue()
    settings = {"debezium.avro-schemas": json.dumps({"7": schema})}
    found = find_format("debezium-avro")
    inferred = found.infer_columns([EventBuffer.of([data])], settings)  # type: ignore[attr-defined]
    assert inferred == columns(m=t.MapType(t.ShortType(), t.DoubleType()))
    text = found.schema_text(Layout(inferred), "t", "s")
    assert found.spark_schema(text) == inferred
    rows = found.decoder(Layout(changelog_schema(inferred), text, settings)).decode(EventBuffer.of([data])).to_pylist()
    assert rows[0]["after"] == {"m": [(1, 1.5), (2, 2.5)]}


@pytest.mark.parametrize("format", ["debezium-json", "debezium-avro"])
def test_maps_with_other_keys_are_columns_but_not_inserted(format: str) -> None:
    found = find_format(format)
    table = columns(
        id=t.IntegerType(), m=t.ArrayType(t.MapType(t.DateType(), t.MapType(t.LongType(), t.StringType(), False)))
    )
    assert found.spark_schema(found.schema_text(Layout(table), "t", "s")) == table
    with pytest.raises(UnsupportedOperationError, match=r"cannot be inserted into column 'm\.element'"):
        found.encoder(Layout(table))
    with pytest.raises(Exception, match="keys of type date cannot be written, only those of type string"):
        find_format(format.removeprefix("debezium-")).schema_text(Layout(table), "t", "s")


def test_intervals_of_oracle_are_read_if_they_are_whole() -> None:
    schema = {"type": "double", "name": TIME + "MicroDuration"}
    assert one(schema, 2675275199000000.0, t.LongType()) == 2_675_275_199_000_000
    assert one(schema, 0.5, t.DoubleType()) == 0.5
    assert f"{TIME}MicroDuration (float64, microseconds)" in refused(schema, 0.5, t.LongType())


def test_the_least_nanoseconds_do_not_wrap() -> None:
    schema = {"type": "int64", "name": TIME + "NanoTimestamp"}
    assert one(schema, -(2**63), t.TimestampNTZType()) == datetime(1677, 9, 21, 0, 12, 43, 145224)
    assert one(schema, 2**63 - 1, t.TimestampType()) == datetime(2262, 4, 11, 23, 47, 16, 854775, UTC)


def test_maps_of_structs_need_fields_of_one_type() -> None:
    moment = {"type": "int64", "name": TIME + "Timestamp", "field": "a"}
    struct = {"type": "struct", "fields": [moment, moment | {"field": "b"}]}
    wanted = t.MapType(t.StringType(), t.TimestampNTZType())
    assert one(struct, {"a": 1000, "b": None}, wanted) == [("a", datetime(1970, 1, 1, 0, 0, 1)), ("b", None)]
    other = {"type": "struct", "fields": [moment, {"type": "int64", "field": "b"}]}
    assert "its fields have different types" in refused(other, {"a": 1000, "b": 1}, wanted)


def test_every_semantic_type_has_a_line_and_can_be_inferred() -> None:
    assert set(MATRIX) == set(Semantic)
    assert all(Target.STRING in row for row in MATRIX.values())
    kinds = ["boolean", "int8", "int16", "int32", "int64", "float32", "float64", "string", "bytes", "union"]
    schemas = [FieldSchema(kind) for kind in kinds] + [
        FieldSchema(kind, name, scale=2, precision=precision, fields={"scale": FieldSchema("int32")})
        for name, meaning in NAMED.items()
        for kind in (*meaning.kinds, "int16")
        for precision in (0, 10, 60)
    ]
    schemas += [FieldSchema("array", element=inner) for inner in schemas]
    schemas += [FieldSchema("map", element=inner, key=key) for key in schemas[:40] for inner in schemas[:40]]
    schemas += [FieldSchema("struct", fields={"x": inner}) for inner in schemas] + [FieldSchema("struct")]
    for schema in schemas:
        check_inferred(schema)
    assert {find_semantic(inner) for inner in schemas} == set(Semantic) - {Semantic.NO_SCHEMA}


def check_inferred(schema: FieldSchema | None) -> None:
    """The column that is inferred for a schema reads it, and so do its parts."""
    data_type = choose_type(schema)
    target = find_target(data_type)
    assert target is not None and find_reading(schema, target) is not None, (schema, data_type)
    if schema is None:
        return
    if isinstance(data_type, t.ArrayType | t.MapType):
        check_inferred(schema.element)
    if isinstance(data_type, t.MapType):
        key = find_target(data_type.keyType)
        assert key is not None and find_reading(schema.key, key) is not None
    if isinstance(data_type, t.StructType):
        for field in schema.fields.values():
            check_inferred(field)
