"""Times of day in Avro, JSON and CSV, by what fastavro and Python's own `time` say of the same values."""

from __future__ import annotations

import io
import json
from datetime import time
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructField, StructType, TimeType

from pyspark_pravega.errors import InvalidRowError, UnsupportedTypeError
from pyspark_pravega.formats.changes.feed import changelog_schema
from pyspark_pravega.formats.core.arrow_types import find_arrow_type
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, WriterSchema, find_format
from pyspark_pravega.formats.core.framing import make_header

NANOS = pa.time64("ns")
TEXT, COUNTED = dict[str, str](), {"json.timestamp-format": "epoch-millis"}
DAY = 86_400 * 10**9


def columns(*digits: int) -> StructType:
    return StructType([StructField(f"c{place}", TimeType(number)) for place, number in enumerate(digits)])


def batch(columns: StructType, *rows: tuple[int | None, ...]) -> pa.RecordBatch:
    """Rows of nanoseconds."""
    arrays = [pa.array(column, pa.int64()).view(NANOS) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, columns.names)


def nanos(value: time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 10**6 + value.microsecond) * 1000


@given(st.lists(st.tuples(st.times(), st.times(), st.times()), min_size=1, max_size=20))
def test_every_time_comes_back_and_fastavro_reads_it(values: list[tuple[time, time, time]]) -> None:
    schema = columns(0, 3, 6)
    rows = [(a.replace(microsecond=0), b.replace(microsecond=b.microsecond // 1000 * 1000), c) for a, b, c in values]
    written = batch(schema, *[tuple(map(nanos, row)) for row in rows], (None, None, None))
    for name, settings in (("avro", TEXT), ("json", TEXT), ("json", COUNTED), ("csv", TEXT)):
        found = find_format(name)
        text = found.schema_text(Layout(schema, settings=settings), "t", "s")
        assert found.spark_schema(text) == schema
        payloads = found.encoder(Layout(schema, text, settings)).encode(written)
        assert found.decoder(Layout(schema, text, settings)).decode(EventBuffer.of_arrow(payloads)).equals(written)
        for payload, row in zip(payloads.to_pylist(), rows, strict=False):
            if name == "avro":
                read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(json.loads(text)), None)
                assert tuple(read.values()) == row
            elif settings is TEXT:
                texts = list(json.loads(payload).values()) if name == "json" else payload.decode().split(",")
                assert tuple(map(time.fromisoformat, texts)) == row
            else:
                assert tuple(round(count * 10**6) for count in json.loads(payload).values()) == tuple(map(nanos, row))


TIMES = {"time-millis": ("int", 1), "time-micros": ("long", 1000)}


@pytest.mark.parametrize("writer", ["time-millis", "time-micros", "plain int", "plain long"])
@pytest.mark.parametrize("digits", [0, 3, 6])
def test_avro_counts_of_other_programs(writer: str, digits: int) -> None:
    """A writer's own unit counts; a number without one has the column's."""
    base, per_milli = TIMES.get(writer, (writer.removeprefix("plain "), 1 if digits <= 3 else 1000))
    theirs: Any = {"type": base, "logicalType": writer} if writer in TIMES else base
    schema = {"type": "record", "name": "t", "fields": [{"name": "c0", "type": theirs}]}
    avro = find_format("avro")
    assert avro.spark_schema(json.dumps(schema))[0].dataType == (IntegerType() if base == "int" else LongType())
    text = avro.schema_text(Layout(columns(digits)), "t", "")
    decoder = avro.decoder(Layout(columns(digits), text), {0: WriterSchema(json.dumps(schema), "Avro", "")}.__getitem__)
    plain = {"type": "record", "name": "t", "fields": [{"name": "c0", "type": base}]}

    def read(count: int) -> Any:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, plain, {"c0": count})
        rows, bad = decoder.decode_valid(EventBuffer.of([make_header(0) + out.getvalue()]))
        return bad[0].reason if bad else rows.to_pylist()[0]["c0"]

    if base == "long" and writer == "plain long" and digits <= 3:
        assert "which cannot be read as int (time-millis)" in read(1)
        return
    if writer == "plain int" and digits == 6:
        assert "which cannot be read as long (time-micros)" in read(5)
        return
    assert read(45_296_000 * per_milli) == time(12, 34, 56)
    assert read(0) == time(0)
    assert "is not a time of day" in read(-1) and "is not a time of day" in read(86_400_000 * per_milli)
    finest = read(45_296_000 * per_milli + 1)
    if 1000 // per_milli >= 10 ** (6 - digits):
        assert finest == time(12, 34, 56, 1000 // per_milli)
    else:
        assert finest.endswith(f"has more digits than TIME({digits})")


def test_other_logical_types_are_no_times_of_day() -> None:
    avro = find_format("avro")
    text = avro.schema_text(Layout(columns(6)), "t", "")
    for base, logical in (("int", "date"), ("long", "timestamp-micros")):
        fields = [{"name": "c0", "type": {"type": base, "logicalType": logical}}]
        schema = json.dumps({"type": "record", "name": "t", "fields": fields})
        decoder = avro.decoder(Layout(columns(6), text), {0: WriterSchema(schema, "Avro", "")}.__getitem__)
        _, bad = decoder.decode_valid(EventBuffer.of([make_header(0) + b"\0"]))
        assert f"was written as {base} ({logical}), which cannot be read as long (time-micros)" in bad[0].reason


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ('"12:00"', time(12)),
        ('"12:00:00.100000000"', time(12, 0, 0, 100_000)),
        ('"12:00:00.1001"', "the string '12:00:00.1001' has more digits than TIME(3)"),
        ('"24:00:00"', "is not a time of day without offset"),
        ('"23:59:60"', "is not a time of day without offset"),
        ('"12:00:00Z"', "is not a time of day without offset"),
        ('"12:00:00+01:00"', "is not a time of day without offset"),
        ('"1:00:00"', "is not a time of day without offset"),
        ('"-01:00:00"', "is not a time of day without offset"),
        ('"12:00:00.0000000001"', "is not a time of day without offset"),
        ("43200000", "expected a time of day as a string, found an integer"),
        ("{}", "expected a time of day as a string, found an object"),
    ],
)
def test_texts_in_json(value: str, wanted: time | str) -> None:
    check(f'{{"c0": {value}}}', TEXT, wanted)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("0", time(0)),
        ("-0.0", time(0)),
        ("1.5e3", time(0, 0, 1, 500_000)),
        ("86399999", time(23, 59, 59, 999_000)),
        ("86399999.5", "has more digits than TIME(3)"),
        ("86400000", "is not a time of day, from 00:00:00"),
        ("-1", "is not a time of day, from 00:00:00"),
        ("1e400", "is not a time of day, from 00:00:00"),
        ("1e-400", "has digits beyond nanoseconds"),
        ("0.0000001", "has digits beyond nanoseconds"),
        ("0." + "1" * 4_000_000, "has digits beyond nanoseconds"),
        ("1." + "0" * 4_000_000, time(0, 0, 0, 1000)),
        ("1" * 5000, "it is not a JSON document"),
        ('"12:00:00"', "expected a time of day as a number (epoch-millis), found a string"),
    ],
    ids=lambda case: repr(case)[:30],
)
def test_numbers_in_json(value: str, wanted: time | str) -> None:
    check(f'{{"c0": {value}}}', COUNTED, wanted)


def check(document: str, settings: dict[str, str], wanted: time | str) -> None:
    rows, bad = (
        find_format("json")
        .decoder(Layout(columns(3), settings=settings))
        .decode_valid(EventBuffer.of([document.encode()]))
    )
    if isinstance(wanted, time):
        assert rows.to_pylist() == [{"c0": wanted}]
    else:
        assert wanted in bad[0].reason


@pytest.mark.parametrize("name", ["avro", "json", "csv", "debezium-json", "debezium-avro"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1, "not a time of day"),
        (DAY, "not a time of day"),
        (10**6 - 1000, "a time of day with more digits than TIME(3)"),
    ],
)
def test_what_no_column_holds_is_not_written(name: str, value: int, words: str) -> None:
    schema = columns(3)
    with pytest.raises(InvalidRowError, match="column 'c0' is .*") as caught:
        find_format(name).encoder(Layout(schema)).encode(batch(schema, (0,), (value,)))
    assert words in caught.value.message


@pytest.mark.parametrize("name", ["avro", "json", "debezium-json", "debezium-avro"])
def test_seven_digits_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"'c0' has type time\(7\).*at most 6 digits"):
        find_format(name).schema_text(Layout(columns(7)), "t", "s")


@pytest.mark.parametrize("name", ["avro", "json", "debezium-json", "debezium-avro"])
def test_times_within_other_values(name: str) -> None:
    fine, coarse = TimeType(6), TimeType(3)
    schema = StructType(
        [
            StructField("a", ArrayType(fine)),
            StructField("m", MapType(StringType(), coarse)),
            StructField("s", StructType([StructField("t", fine)])),
        ]
    )
    rows: list[dict[str, Any]] = [
        {"a": [time(1, 2, 3, 4), None], "m": {"k": time(5), "n": None}, "s": {"t": time(23, 59, 59, 999_999)}},
        {"a": None, "m": None, "s": None},
    ]
    found = find_format(name)
    text = found.schema_text(Layout(schema), "t", "s")
    assert found.spark_schema(text) == schema
    listed = [row | {"m": list((row["m"] or {}).items()) or None} for row in rows]
    wanted = pa.array(listed, find_arrow_type(schema))
    payloads = found.encoder(Layout(schema, text)).encode(pa.RecordBatch.from_struct_array(wanted))
    assert len(payloads) == 2
    if name.startswith("debezium"):
        read = found.decoder(Layout(changelog_schema(schema), text)).decode(EventBuffer.of_arrow(payloads))
        assert read.column("after").to_pylist() == wanted.to_pylist()
    else:
        assert (
            found.decoder(Layout(schema, text)).decode(EventBuffer.of_arrow(payloads)).to_pylist() == wanted.to_pylist()
        )
