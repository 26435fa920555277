"""Timestamps in JSON as numbers since 1970."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.formats.core.scalars import FIRST_MICROS, LAST_MICROS
from pyspark_pravega.formats.json.timestamps import EPOCH_UNITS
from tests.formats.core.test_bad_events import schema_of

JSON = find_format("json")
SCHEMA = schema_of(t="timestamp", n="timestamp_ntz")


def read(payload: bytes, unit: str) -> tuple[int | None, str | None]:
    """Microseconds, or why not; both alone and beside an event that makes the reader look at each value."""
    decoder = JSON.decoder(Layout(schema_of(t="timestamp"), settings={"json.timestamp-format": unit}))
    alone, bad = decoder.decode_valid(EventBuffer.of([payload]))
    beside, bad_beside = decoder.decode_valid(EventBuffer.of([payload, b'{"t":"?"}']))
    assert alone.equals(beside)
    assert [event.reason for event in bad] == [event.reason for event in bad_beside[:-1]]
    return (None, bad[0].reason) if bad else (alone.column(0).view(pa.int64())[0].as_py(), None)


READ = [
    ("epoch-seconds", b"1700000000", 1_700_000_000_000_000),
    ("epoch-seconds", b"1700000000.123456789", 1_700_000_000_123_456),
    ("epoch-seconds", b"1700000000.999999999999999999999999999999999999", 1_700_000_000_999_999),
    ("epoch-seconds", b"-0.0000001", -1),
    ("epoch-seconds", b"1.5e9", 1_500_000_000_000_000),
    ("epoch-seconds", b"1e-999999999", 0),
    ("epoch-seconds", b"-1e-999999999", -1),
    ("epoch-seconds", b"0e999999999", 0),
    ("epoch-seconds", b"0." + b"1" * 4_000_000, 111_111),
    ("epoch-seconds", b"-0." + b"1" * 4_000_000, -111_112),
    ("epoch-millis", b"1700000000123", 1_700_000_000_123_000),
    ("epoch-millis", b"-1", -1_000),
    ("epoch-millis", b"1.001", 1_001),
    ("epoch-micros", b"1700000000123456", 1_700_000_000_123_456),
    ("epoch-micros", b"1.9", 1),
    ("epoch-micros", b"null", None),
]


@pytest.mark.parametrize(("unit", "number", "micros"), READ, ids=lambda case: repr(case)[:30])
def test_numbers_are_read_exactly(unit: str, number: bytes, micros: int | None) -> None:
    assert read(b'{"t":%s}' % number, unit) == (micros, None)


REFUSED = [
    ("epoch-seconds", b'"2024-01-01T00:00:00Z"', "expected a timestamp as a number (epoch-seconds), found a string"),
    ("epoch-seconds", b'"1700000000"', "found a string"),
    ("epoch-millis", b"true", "found a boolean"),
    ("epoch-seconds", b"1700000000000", "1700000000000 (epoch-seconds) is outside the years 0001 to 9999"),
    ("epoch-micros", b"9" * 4000, "outside the years"),
    ("epoch-micros", b"1e999999999", "outside the years"),
    ("epoch-micros", b"1e99999999999999999999", "outside the years"),
    ("epoch-seconds", b"-99999999999", "outside the years"),
]


@pytest.mark.parametrize(("unit", "number", "reason"), REFUSED, ids=lambda case: repr(case)[:30])
def test_what_is_no_timestamp_is_a_bad_event(unit: str, number: bytes, reason: str) -> None:
    micros, found = read(b'{"t":%s}' % number, unit)
    assert micros is None
    assert found is not None and found.startswith("column 't': ") and reason in found


@given(st.lists(st.integers(FIRST_MICROS, LAST_MICROS) | st.none(), min_size=1), st.sampled_from(sorted(EPOCH_UNITS)))
def test_what_is_written_is_read(values: list[int | None], unit: str) -> None:
    settings = {"json.timestamp-format": unit.upper()}
    text = JSON.schema_text(Layout(SCHEMA, settings=settings), "t", "s")
    assert JSON.spark_schema(text) == SCHEMA
    column = pa.array(values, pa.int64())
    types = arrow_schema(SCHEMA)
    batch = pa.RecordBatch.from_arrays([column.view(field.type) for field in types], schema=types)
    payloads = JSON.encoder(Layout(SCHEMA, text, settings)).encode(batch).to_pylist()
    assert JSON.decoder(Layout(SCHEMA, text, settings)).decode(EventBuffer.of(payloads)).equals(batch)
    for payload, micros in zip(payloads, values, strict=True):
        number = json.loads(payload)["t"]
        if micros is not None and micros % EPOCH_UNITS[unit] == 0:
            assert number == micros // EPOCH_UNITS[unit] and isinstance(number, int)


def test_the_schema_says_numbers() -> None:
    text = JSON.schema_text(Layout(SCHEMA, settings={"json.timestamp-format": "epoch-millis"}), "t", "s")
    assert json.loads(text)["properties"] == {"t": {"type": "number"}, "n": {"type": "number"}}


def test_inside_of_others() -> None:
    schema = schema_of(a="int")
    nested = json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "l", "type": {"type": "array", "elementType": "timestamp", "containsNull": True},
                 "nullable": True, "metadata": {}},
            ],
        }
    )  # fmt: skip
    schema = type(schema).fromJson(json.loads(nested))
    settings = {"json.timestamp-format": "epoch-seconds"}
    batch = JSON.decoder(Layout(schema, settings=settings)).decode(EventBuffer.of([b'{"l":[0,null,1.5]}']))
    utc = datetime.UTC
    assert batch.to_pylist() == [
        {
            "l": [
                datetime.datetime(1970, 1, 1, tzinfo=utc),
                None,
                datetime.datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=utc),
            ]
        }
    ]
    assert JSON.encoder(Layout(schema, settings=settings)).encode(batch).to_pylist() == [b'{"l":[0,null,1.5]}']
