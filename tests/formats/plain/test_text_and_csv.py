"""The formats text and csv: what they read, what they refuse, and that they read what they write."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from pyspark_pravega.errors import (
    InvalidOptionError,
    InvalidRowError,
    InvalidSchemaError,
    UnsupportedOperationError,
    UnsupportedTypeError,
)
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.core.test_bad_events import schema_of

TEXT, CSV = find_format("text"), find_format("csv")
VALUE = TEXT.spark_schema("")


class TestText:
    def test_reads_and_writes(self) -> None:
        payloads = ["", "plain", "zwei\nZeilen", "日本 \x00", "\ufeffBOM"]
        batch = pa.RecordBatch.from_pydict({"value": payloads})
        encoded = TEXT.encoder(Layout(VALUE)).encode(batch).to_pylist()
        assert encoded == [text.encode() for text in payloads]
        assert TEXT.decoder(Layout(VALUE)).decode(EventBuffer.of(encoded)).to_pydict() == {"value": payloads}
        assert TEXT.decoder(Layout(StructType([]))).decode(EventBuffer.of(encoded)).num_rows == len(payloads)

    @pytest.mark.parametrize("order", [[3, 2, 1, 0], [1, 1, 0]])
    def test_events_in_any_order(self, order: list[int]) -> None:
        payloads = [b"", b"\xff\xfe", b"second", b"longer than a view holds itself" * 1000]
        raw = find_format("raw")
        rows = raw.decoder(Layout(raw.spark_schema(""))).decode(EventBuffer.of(payloads).take(np.array(order)))
        assert rows.column(0).to_pylist() == [payloads[place] for place in order]

    def test_what_is_no_text_is_bad(self) -> None:
        good = b"good"
        bad_ones = [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"]
        events = [good, *(event for bad in bad_ones for event in (bad, good))]
        batch, bad = TEXT.decoder(Layout(VALUE)).decode_valid(EventBuffer.of(events))
        assert batch.to_pydict() == {"value": ["good"] * (len(bad_ones) + 1)}
        assert [event.index for event in bad] == [1, 3, 5, 7, 9]
        assert bad[1].reason == "it is not UTF-8 text (byte 1)"

    def test_what_is_no_text_cannot_be_written(self) -> None:
        broken = pa.array([b"fine", b"\xed\xa0\x80"], pa.binary()).view(pa.string())
        with pytest.raises(InvalidRowError, match="row 1 .* column 'value' is a string that is not valid UTF-8"):
            TEXT.encoder(Layout(VALUE)).encode(pa.RecordBatch.from_arrays([broken], names=["value"]))

    def test_refusals(self) -> None:
        with pytest.raises(UnsupportedTypeError, match="exactly one column, of type STRING"):
            TEXT.schema_text(Layout(schema_of(a="int")), "t", "s")
        with pytest.raises(UnsupportedOperationError, match="neither registry header nor codec"):
            TEXT.encoder(Layout(VALUE), codec="gzip")
        with pytest.raises(InvalidRowError, match="row 1 of the batch has no value"):
            TEXT.encoder(Layout(VALUE)).encode(pa.RecordBatch.from_pydict({"value": ["a", None]}))


COLUMNS = schema_of(
    i="int", s="string", d="double", n="decimal(5,2)", t="timestamp", l="timestamp_ntz", b="binary", f="boolean",
    y="date",
)  # fmt: skip
GOOD = b"1,x,0.5,1.20,2024-01-01T00:00:00Z,2024-01-01T00:00:00,AAE=,true,2024-01-01"


def only(place: int, text: bytes) -> bytes:
    """A record that is null but for one field."""
    return b",".join(text if column == place else b"" for column in range(len(COLUMNS)))


CSV_REFUSED = [
    (b"", "it is empty"),
    (b"1,x", "it has 2 fields, but the table has 9 columns"),
    (GOOD + b",", "it has 10 fields"),
    (GOOD + b"\n" + GOOD, "a line break at character"),
    (GOOD + b"\r\n\r\n", "a line break"),
    (GOOD + b"\0", "not a date"),
    (only(1, b'"x"y'), "the character 'y' at character 4 is out of place"),
    (only(1, b'"x'), "the character '\"' at character 1 is out of place"),
    (only(1, b'x"y'), "the character '\"'"),
    (only(1, b"\xff"), "not UTF-8 text (byte 1)"),
    (only(0, b"x"), "column 'i': 'x' is not a whole number"),
    (only(0, b" 1"), "not a whole number"),
    (only(0, b"1.0"), "not a whole number"),
    (only(0, b"1_0"), "not a whole number"),
    (only(0, "٣".encode()), "not a whole number"),
    (only(0, b"2147483648"), "out of the range of int"),
    (only(0, b"1" * 5000), "not a whole number"),
    (only(2, b"1e999"), "out of the range of double"),
    (only(2, b"nan"), "'nan' is not a number"),
    (only(2, b"0x1p3"), "not a number"),
    (only(3, b"1.234"), "more fraction digits"),
    (only(3, b"1000"), "out of the range of decimal(5,2)"),
    (only(4, b"2024-01-01T00:00:00"), "not a timestamp with Z"),
    (only(5, b"2024-01-01T00:00:00Z"), "not a timestamp without Z"),
    (only(6, b"A"), "not base64"),
    (only(7, b"yes"), "neither true nor false"),
    (only(8, b"2024-02-30"), "not a date"),
    (b"\xef\xbb\xbf" + GOOD, "it begins with a byte order mark (U+FEFF), which would belong to its first field"),
]
CSV_ACCEPTED = [
    (only(0, b"+7"), "i", 7),
    (only(0, b'"7"') + b"\n", "i", 7),
    (only(1, b'"a ""quoted"" word, and\r\na line"') + b"\r\n", "s", 'a "quoted" word, and\r\na line'),
    (only(1, b'""'), "s", ""),
    (only(1, b" x "), "s", " x "),
    (only(1, b""), "s", None),
    (only(1, '"\ufeffx"'.encode()), "s", "\ufeffx"),
    (only(2, b"-Infinity"), "d", float("-inf")),
    (only(2, b".5"), "d", 0.5),
    (only(2, b"5"), "d", 5.0),
    (only(3, b"-1.5e1"), "n", Decimal("-15.00")),
    (only(7, b"TRUE"), "f", True),
    (only(6, b'""'), "b", b""),
    (only(5, b"2024-01-31 12:00"), "l", datetime.datetime(2024, 1, 31, 12)),
]


class TestCsv:
    @pytest.mark.parametrize(("payload", "reason"), CSV_REFUSED, ids=lambda case: repr(case)[:30])
    def test_refuses(self, payload: bytes, reason: str) -> None:
        decoder = CSV.decoder(Layout(COLUMNS))
        good = decoder.decode(EventBuffer.of([GOOD, GOOD]))
        batch, bad = decoder.decode_valid(EventBuffer.of([GOOD, payload, GOOD]))
        assert [event.index for event in bad] == [1]
        assert reason in bad[0].reason, bad[0].reason
        assert batch.equals(good)

    @pytest.mark.parametrize(("payload", "column", "value"), CSV_ACCEPTED, ids=lambda case: repr(case)[:30])
    def test_accepts(self, payload: bytes, column: str, value: object) -> None:
        (row,) = CSV.decoder(Layout(COLUMNS)).decode(EventBuffer.of([payload])).to_pylist()
        assert row.pop(column) == value
        assert set(row.values()) == {None}

    def test_reads_some_columns_in_any_order(self) -> None:
        text = CSV.schema_text(Layout(COLUMNS), "t", "s")
        some = StructType([COLUMNS["f"], COLUMNS["i"]])
        assert CSV.decoder(Layout(some, text)).decode(EventBuffer.of([GOOD])).to_pylist() == [{"f": True, "i": 1}]
        assert CSV.decoder(Layout(StructType([]), text)).decode(EventBuffer.of([GOOD])).num_rows == 1
        with pytest.raises(InvalidSchemaError, match="no column 'zzz'"):
            CSV.decoder(Layout(schema_of(zzz="int"), text))

    def test_one_column(self) -> None:
        schema = schema_of(a="string")
        for payload, value in [(b"", None), (b'""', ""), (b"\n", None), (b"x\n", "x")]:
            assert CSV.decoder(Layout(schema)).decode(EventBuffer.of([payload])).to_pylist() == [{"a": value}]

    def test_null_in_a_not_null_column(self) -> None:
        _, bad = CSV.decoder(Layout(schema_of(a="int!", b="int"))).decode_valid(EventBuffer.of([b"1,", b",1"]))
        assert [(event.index, "NOT NULL" in event.reason) for event in bad] == [(1, True)]

    ROWS = st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "s": st.none() | st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(list(',"\\\r\n\t;')),
                                     max_size=8),
            "d": st.none() | st.floats(allow_nan=False),
            "n": st.none() | st.decimals(-999, 999, places=2),
            "t": st.none(),
            "l": st.none() | st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)),
            "b": st.none() | st.binary(max_size=5),
            "f": st.none() | st.booleans(),
            "y": st.none() | st.dates(),
        }
    )  # fmt: skip
    DIALECTS = st.sampled_from(
        [
            {},
            {"csv.delimiter": "tab"},
            {"csv.delimiter": ";", "csv.quote": "'", "csv.escape": "\\"},
            {"csv.null-value": "NULL"},
            {"csv.escape": "\\", "csv.null-value": "\\N"},
        ]
    )

    @given(st.lists(ROWS, min_size=1, max_size=5), DIALECTS)
    def test_reads_what_it_writes(self, rows: list[dict[str, object]], dialect: dict[str, str]) -> None:
        text = CSV.schema_text(Layout(COLUMNS), "t", "s")
        assert CSV.spark_schema(text) == COLUMNS
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(COLUMNS))
        payloads = CSV.encoder(Layout(COLUMNS, text, dialect)).encode(batch).to_pylist()
        assert CSV.decoder(Layout(COLUMNS, text, dialect)).decode(EventBuffer.of(payloads)).equals(batch)

    def test_quotes_are_written_where_they_are_needed(self) -> None:
        schema = schema_of(a="string", b="double")
        batch = pa.RecordBatch.from_pydict(
            {"a": ["plain", 'say "hi"', "a,b", "", None], "b": [1.0, None, 2.5, 0.0, 1e300]}
        )
        assert CSV.encoder(Layout(schema)).encode(batch).to_pylist() == [
            b"plain,1.0",
            b'"say ""hi""",',
            b'"a,b",2.5',
            b'"",0.0',
            b",1e+300",
        ]

    def test_refusals(self) -> None:
        nested = StructType([StructField("l", ArrayType(IntegerType()))])
        with pytest.raises(UnsupportedTypeError, match="column 'l' has type array<int>, but a CSV field"):
            CSV.schema_text(Layout(nested), "t", "s")
        with pytest.raises(UnsupportedOperationError, match="neither registry header nor codec"):
            CSV.encoder(Layout(COLUMNS), 1)
        with pytest.raises(InvalidSchemaError, match="but the table has .* in this order"):
            CSV.encoder(
                Layout(schema_of(b="int", a="int"), CSV.schema_text(Layout(schema_of(a="int", b="int")), "t", "s"))
            )
        for settings, message in [
            ({"csv.delimiter": "ab"}, "expected one character"),
            ({"csv.delimiter": '"'}, "is the quote or escape character too"),
            ({"csv.null-value": "a,b"}, "cannot be one field"),
        ]:
            with pytest.raises(InvalidOptionError, match=message):
                CSV.decoder(Layout(COLUMNS, settings=settings))

    @pytest.mark.parametrize("kept", ["", "{", "[]", "{}", '{"fields":[{"name":"a"}]}'])
    def test_kept_columns_that_are_damaged_are_told(self, kept: str) -> None:
        with pytest.raises(InvalidSchemaError, match="the columns kept with the table cannot be read"):
            CSV.spark_schema(kept)

    @given(st.binary(max_size=60) | st.text(',"\n\r\\x1', max_size=12).map(str.encode))
    def test_no_input_does_harm(self, payload: bytes) -> None:
        batch, bad = CSV.decoder(Layout(COLUMNS)).decode_valid(EventBuffer.of([GOOD, payload, GOOD]))
        assert batch.num_rows + len(bad) == 3
        assert all(event.index == 1 for event in bad)


def test_strings_only() -> None:
    schema = StructType([StructField("a", StringType()), StructField("b", StringType())])
    payload = b'"' + b'""' * 100_000 + b'",x'
    (row,) = CSV.decoder(Layout(schema)).decode(EventBuffer.of([payload])).to_pylist()
    assert (len(row["a"]), row["b"]) == (100_000, "x")
