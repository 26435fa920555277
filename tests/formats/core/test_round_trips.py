"""What an encoder writes its decoder reads back exactly: every type, framed and not, all codecs."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import math
import pickle
import struct
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError, UnsupportedTypeError
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Format, Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import find_codec
from tests.formats.strategies import FIRST_MICROS, LAST_MICROS, assert_same_batch, batches, field_names

AVRO, JSON, RAW, CSV = map(find_format, ("avro", "json", "raw", "csv"))
OF_CHANGES = [find_format("debezium-json"), find_format("debezium-avro")]
any_names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


def round_trip(format: Format, schema: StructType, batch: pa.RecordBatch, framed: bool, codec: str) -> None:
    text = format.schema_text(Layout(schema), "t", "s")
    encoder = format.encoder(Layout(schema, text), 7 if framed else None, codec)
    events = EventBuffer.of_arrow(encoder.encode(batch))
    writer = WriterSchema(text, str(format.registry_format), find_codec(codec).registry_name)

    def resolve(encoding_id: int) -> WriterSchema:
        assert encoding_id == 7
        return writer

    decoder = format.decoder(Layout(schema, text), resolve if framed else None)
    assert decoder.schema.equals(arrow_schema(schema), check_metadata=True)
    assert_same_batch(decoder.decode(events), batch)


codecs = st.sampled_from([(False, ""), (True, ""), (True, "gzip"), (True, "snappy")])


@given(batches(field_names), codecs)
def test_avro(case: tuple[StructType, pa.RecordBatch], framing: tuple[bool, str]) -> None:
    round_trip(AVRO, *case, *framing)


@given(batches(any_names), codecs)
def test_json(case: tuple[StructType, pa.RecordBatch], framing: tuple[bool, str]) -> None:
    round_trip(JSON, *case, *framing)


@given(batches())
def test_avro_is_what_another_implementation_reads_and_writes(case: tuple[StructType, pa.RecordBatch]) -> None:
    schema, batch = case
    text = AVRO.schema_text(Layout(schema), "t", "s")
    parsed = fastavro.parse_schema(json.loads(text))
    theirs = []
    for payload in AVRO.encoder(Layout(schema, text)).encode(batch).to_pylist():
        source = io.BytesIO(payload)
        value = fastavro.schemaless_reader(source, parsed, None)
        assert source.read() == b""
        target = io.BytesIO()
        fastavro.schemaless_writer(target, parsed, value)
        theirs.append(target.getvalue())
    assert_same_batch(AVRO.decoder(Layout(schema, text)).decode(EventBuffer.of(theirs)), batch)


@given(batches(any_names))
def test_json_is_strict_json(case: tuple[StructType, pa.RecordBatch]) -> None:
    schema, batch = case

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for payload in JSON.encoder(Layout(schema)).encode(batch).to_pylist():
        assert list(json.loads(payload.decode(), parse_constant=refuse)) == schema.names


@given(st.lists(st.binary(max_size=40)))
def test_raw(payloads: list[bytes]) -> None:
    schema = RAW.spark_schema("")
    batch = pa.RecordBatch.from_pydict({"event": payloads}, schema=arrow_schema(schema))
    events = EventBuffer.of_arrow(RAW.encoder(Layout(schema)).encode(batch))
    assert_same_batch(RAW.decoder(Layout(schema)).decode(events), batch)
    assert [bytes(events.payload(index)) for index in range(len(events))] == payloads


def column(format: Format, data_type: DataType, cells: Sequence[Any], nullable: bool = True) -> list[object]:
    """The cells after a round trip in a column `c`."""
    schema = StructType([StructField("c", data_type, nullable)])
    batch = pa.RecordBatch.from_arrays([pa.array(cells, arrow_schema(schema)[0].type)], schema=arrow_schema(schema))
    events = EventBuffer.of_arrow(format.encoder(Layout(schema)).encode(batch))
    found = format.decoder(Layout(schema)).decode(events)
    assert_same_batch(found, batch)
    return list(found.column(0).to_pylist())


@pytest.mark.parametrize("format", [AVRO, JSON], ids=["avro", "json"])
class TestEdges:
    def test_integers(self, format: Format) -> None:
        column(format, LongType(), [2**63 - 1, -(2**63), 0, -1, 63, 64, -64, -65, 2**31, None])
        column(format, IntegerType(), [2**31 - 1, -(2**31)])

    def test_doubles(self, format: Format) -> None:
        numbers = [1.0, -0.0, 0.0, 0.1, 1e15, 1e16, 123456789012.0, 1e10, 1e9, 1e21, 1e22, 1e-7, 5e-324, 2.0**53]
        column(format, DoubleType(), [*numbers, 1.7976931348623157e308, math.inf, -math.inf, math.nan, None])

    def test_floats(self, format: Format) -> None:
        bits = [0x3DCCCCCD, 0x00000001, 0x7F7FFFFF, 0x4B800000, 0x80000000, 0x7F800000, 0x7FC00000, 0x15AE43FD]
        column(format, FloatType(), [struct.unpack("<f", struct.pack("<I", bit))[0] for bit in bits])

    def test_decimals(self, format: Format) -> None:
        largest = 10**38 - 1
        column(format, DecimalType(38, 0), [*map(decimal.Decimal, (largest, -largest, 0)), None])
        column(format, DecimalType(38, 38), [decimal.Decimal("1E-38"), decimal.Decimal("-0.5")])
        numbers = [128, 127, -128, -129, 255, 256, -256, 32767, 32768, -1, 0]
        column(format, DecimalType(10, 2), [decimal.Decimal(number).scaleb(-2) for number in numbers])

    def test_dates(self, format: Format) -> None:
        column(format, DateType(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)])

    def test_timestamps(self, format: Format) -> None:
        micros = [FIRST_MICROS, LAST_MICROS, -1, 0, 1, None]
        for data_type in (TimestampType(), TimestampNTZType()):
            column(format, data_type, micros)

    def test_texts(self, format: Format) -> None:
        every_control = "".join(map(chr, range(0x20)))
        column(format, StringType(), ["", '"', "\\", every_control, "\x7f\u2028é€😀\ud7ff\ue000\U0010ffff", "\0", None])

    def test_binary(self, format: Format) -> None:
        column(format, BinaryType(), [b"", bytes(range(256)), b"\0", None])

    def test_nested_nulls(self, format: Format) -> None:
        inner = StructType([StructField("x", IntegerType(), False), StructField("y", ArrayType(StringType()))])
        column(format, inner, [None, {"x": 1, "y": None}, {"x": 2, "y": []}, {"x": 3, "y": [None, ""]}])
        column(format, ArrayType(inner, False), [None, [], [{"x": 1, "y": ["a"]}], [{"x": 1, "y": None}] * 3])
        column(format, ArrayType(ArrayType(inner)), [[None, []], [[None, {"x": 1, "y": None}]], None])
        column(format, MapType(StringType(), inner), [None, [], [("", None), ("k", {"x": 1, "y": None})]])
        column(format, MapType(StringType(), MapType(StringType(), IntegerType())), [[("a", [("b", None)])], None])

    def test_the_zone_of_the_session_does_not_matter(self, format: Format) -> None:
        schema = StructType([StructField("c", TimestampType())])
        there = pa.RecordBatch.from_arrays([pa.array([0, 1], pa.timestamp("us", "America/New_York"))], names=["c"])
        events = EventBuffer.of_arrow(format.encoder(Layout(schema)).encode(there))
        assert format.decoder(Layout(schema)).decode(events).column(0).cast(pa.int64()).to_pylist() == [0, 1]

    def test_a_slice_of_a_batch(self, format: Format) -> None:
        inner = StructType([StructField("x", IntegerType()), StructField("m", MapType(StringType(), LongType()))])
        schema = StructType([StructField("c", ArrayType(inner)), StructField("d", DecimalType(5, 1))])
        rows = [{"c": [{"x": number, "m": [("k", number)]}, None], "d": decimal.Decimal(number)} for number in range(6)]
        batch = pa.RecordBatch.from_pylist([{"c": None, "d": None}, *rows], schema=arrow_schema(schema)).slice(2, 3)
        events = EventBuffer.of_arrow(format.encoder(Layout(schema)).encode(batch))
        assert_same_batch(format.decoder(Layout(schema)).decode(events), batch)

    def test_no_rows(self, format: Format) -> None:
        column(format, StringType(), [])

    def test_only_the_wanted_columns(self, format: Format) -> None:
        inner = StructType([StructField(name, LongType()) for name in "xyz"])
        schema = StructType([StructField("a", LongType()), StructField("n", inner), StructField("b", StringType())])
        text = format.schema_text(Layout(schema), "t", "s")
        rows = [{"a": 1, "n": {"x": 1, "y": 2, "z": 3}, "b": "x"}, {"a": None, "n": None, "b": None}]
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
        events = EventBuffer.of_arrow(format.encoder(Layout(schema, text)).encode(batch))
        wanted = StructType([schema["b"], StructField("n", StructType([inner["z"], inner["x"]]))])
        found = format.decoder(Layout(wanted, text)).decode(events)
        assert found.to_pylist() == [{"b": "x", "n": {"z": 3, "x": 1}}, {"b": None, "n": None}]
        nothing = format.decoder(Layout(StructType([]), text)).decode(events)
        assert (nothing.num_rows, nothing.num_columns) == (2, 0)

    def test_decoders_and_encoders_can_be_pickled_by_their_parts(self, format: Format) -> None:
        assert type(pickle.loads(pickle.dumps(format))) is type(format)

    def test_a_null_in_a_not_null_column_cannot_be_written(self, format: Format) -> None:
        inner = StructType([StructField("x", ArrayType(IntegerType(), False), False)])
        schema = StructType([StructField("id", LongType(), False), StructField("s", inner)])
        loose = StructType(
            [StructField("id", LongType()), StructField("s", StructType([StructField("x", ArrayType(IntegerType()))]))]
        )
        encoder = format.encoder(Layout(schema))
        for rows, reason in [
            ([{"id": 1, "s": None}, {"id": None, "s": None}], r"row 1 .* column 'id' is null"),
            ([{"id": 1, "s": {"x": None}}], r"row 0 .* column 's\.x' is null"),
            (
                [{"id": 1, "s": {"x": [1]}}, {"id": 2, "s": {"x": [1, None]}}],
                r"row 1 .* column 's\.x\.element' is null",
            ),
        ]:
            with pytest.raises(InvalidRowError, match=reason):
                encoder.encode(pa.RecordBatch.from_pylist(rows, schema=arrow_schema(loose)))

    def test_a_string_that_is_no_text_cannot_be_written(self, format: Format) -> None:
        schema = StructType([StructField("c", StringType())])
        broken = pa.array([b"fine", b"\xff"], pa.binary()).view(pa.string())
        with pytest.raises(InvalidRowError, match="row 1 .* column 'c' is a string that is not valid UTF-8"):
            format.encoder(Layout(schema)).encode(pa.RecordBatch.from_arrays([broken], names=["c"]))

    def test_other_columns_than_the_tables(self, format: Format) -> None:
        schema = StructType([StructField("c", StringType())])
        with pytest.raises(InvalidRowError, match="the rows have the columns d, but the columns to write are c"):
            format.encoder(Layout(schema)).encode(pa.RecordBatch.from_pydict({"d": ["x"]}))

    def test_unknown_codec(self, format: Format) -> None:
        schema = StructType([StructField("c", StringType())])
        with pytest.raises(UnsupportedOperationError, match="codec 'zstd' is not supported"):
            format.encoder(Layout(schema), 1, "zstd")


OUTSIDE = [
    *(
        (kind, number)
        for kind in (TimestampType(), TimestampNTZType())
        for number in (FIRST_MICROS - 1, LAST_MICROS + 1)
    ),
    *((DateType(), number) for number in (-719_163, 2_932_897)),
]


@pytest.mark.parametrize("format", [AVRO, JSON, CSV, OF_CHANGES[1]], ids=["avro", "json", "csv", "debezium-avro"])
@pytest.mark.parametrize(("data_type", "number"), OUTSIDE)
def test_no_dates_outside_the_years_1_to_9999_are_written(format: Format, data_type: DataType, number: int) -> None:
    schema = StructType([StructField("c", data_type)])
    batch = pa.RecordBatch.from_arrays([pa.array([number], arrow_schema(schema)[0].type)], names=["c"])
    with pytest.raises(InvalidRowError, match="column 'c' is a .* outside the years 0001 to 9999"):
        format.encoder(Layout(schema, format.schema_text(Layout(schema), "t", "s") or None)).encode(batch)


def struct_of(**fields: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


TEXT, WHOLE = StringType(), IntegerType()
NAMED = struct_of(
    a=WHOLE,
    b=struct_of(x=TEXT, y=TEXT),
    c=ArrayType(struct_of(n=TEXT, m=TEXT)),
    d=MapType(TEXT, struct_of(k=WHOLE, l=WHOLE)),
)
TURNED = struct_of(
    d=MapType(TEXT, struct_of(l=WHOLE, k=WHOLE)),
    c=ArrayType(struct_of(m=TEXT, n=TEXT)),
    b=struct_of(y=TEXT, x=TEXT),
    a=WHOLE,
)


@pytest.mark.parametrize("format", [AVRO, JSON, *OF_CHANGES], ids=["avro", "json", "debezium-json", "debezium-avro"])
def test_fields_of_structs_go_by_their_names(format: Format) -> None:
    """In a table whose fields have another order, the rows are those that an INSERT by name would write."""
    value = {"a": 1, "b": {"x": "x", "y": "y"}, "c": [{"n": "n", "m": "m"}], "d": [("z", {"k": 5, "l": 6})]}
    table, rows = struct_of(s=NAMED), struct_of(s=TURNED)
    text = format.schema_text(Layout(table), "t", "s")
    in_order, turned = (
        format.encoder(Layout(given, text))
        .encode(pa.RecordBatch.from_pylist([{"s": value}], schema=arrow_schema(given)))
        .to_pylist()[0]
        for given in (table, rows)
    )
    if format in (JSON, OF_CHANGES[0]):
        in_order, turned = (json.loads(event) | {"ts_ms": 0, "source": None} for event in (in_order, turned))
    assert in_order == turned


def test_members_of_unions_go_by_their_names() -> None:
    shapes = [{"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]} for name in "AB"]
    text = json.dumps({"type": "record", "name": "T", "fields": [{"name": "u", "type": shapes}]})
    member = StructType([StructField("x", IntegerType())])
    rows = StructType([StructField("u", StructType([StructField(f"member{place}", member) for place in (1, 0)]))])
    batch = pa.RecordBatch.from_pylist([{"u": {"member1": {"x": 1}, "member0": None}}], schema=arrow_schema(rows))
    assert AVRO.encoder(Layout(rows, text)).encode(batch).to_pylist() == [b"\x02\x02"]


def test_raw_refuses() -> None:
    two = StructType([StructField("a", BinaryType()), StructField("b", BinaryType())])
    for schema in (two, StructType([StructField("a", StringType())]), StructType([])):
        with pytest.raises(UnsupportedTypeError, match="exactly one column, of type BINARY"):
            RAW.schema_text(Layout(schema), "t", "s")
    one = RAW.spark_schema("")
    with pytest.raises(UnsupportedOperationError):
        RAW.encoder(Layout(one), 5)
    with pytest.raises(InvalidRowError, match="row 1 .* column 'event'"):
        RAW.encoder(Layout(one)).encode(pa.RecordBatch.from_pydict({"event": pa.array([b"", None])}))


def test_the_same_rows_give_the_same_bytes() -> None:
    schema = StructType([StructField("c", StringType())])
    batch = pa.RecordBatch.from_pydict({"c": ["x" * 300, "y"]})
    for codec in ("", "gzip", "snappy"):
        encoded = [JSON.encoder(Layout(schema), 1, codec).encode(batch).to_pylist() for _ in range(2)]
        assert encoded[0] == encoded[1]
