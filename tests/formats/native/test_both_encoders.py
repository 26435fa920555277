"""The native encoder writes what the encoder in Python writes, byte for byte, and leaves to it what is refused."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.formats.core.format import NO_SETTINGS, Layout, Settings, find_format
from pyspark_pravega.formats.json.timestamps import EPOCH_UNITS, TIMESTAMP_FORMAT
from pyspark_pravega.formats.json.writing import JsonEncoder
from tests.formats.both_paths import needs_native, reference_only
from tests.formats.strategies import batches

UNITS = [NO_SETTINGS, *({TIMESTAMP_FORMAT: unit} for unit in EPOCH_UNITS)]


def both(
    schema: StructType, batch: pa.RecordBatch, settings: Settings = NO_SETTINGS, codec: str = "", text: str = ""
) -> tuple[Any, Any]:
    """The payloads as written natively, None if that refuses, and as written in Python."""
    make = find_format("json").encoder
    encoder = make(Layout(schema, text or None, settings), 7, codec)
    assert isinstance(encoder, JsonEncoder) and encoder._native is not None
    struct_array = encoder.to_struct(batch)
    written = encoder._native.encode(struct_array.field(0) if text else struct_array)
    found = encoder.encode(batch) if written is not None else None
    with reference_only():
        return found, make(Layout(schema, text or None, settings), 7, codec).encode(batch)


def one_column(data_type: DataType, values: pa.Array) -> tuple[StructType, pa.RecordBatch]:
    return StructType([StructField("v", data_type)]), pa.RecordBatch.from_arrays([values], names=["v"])


@needs_native
@given(case=batches(), settings=st.sampled_from(UNITS), codec=st.sampled_from(["", "gzip"]), first=st.integers(0, 2))
def test_any_rows(case: tuple[StructType, pa.RecordBatch], settings: Settings, codec: str, first: int) -> None:
    schema, batch = case
    found, wanted = both(schema, batch.slice(first), settings, codec)
    assert found is not None
    found.validate(full=True)
    assert found.equals(wanted)


@needs_native
def test_numbers_of_any_bits() -> None:
    chance = random.Random(26)
    bits = [chance.getrandbits(64) for _ in range(100_000)]
    powers = [
        sign * float(f"{digits}e{power}") for sign in (1, -1) for power in range(-330, 308) for digits in (1, 1.5)
    ]
    short = [chance.randrange(10**6) / 10 ** chance.randrange(12) for _ in range(50_000)]
    doubles = np.array(
        [*np.array(bits, np.uint64).view(np.float64), *powers, *short, -0.0, 2.0**53, 9999999999.0, 9999999999.9]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        floats = np.concatenate([np.array(bits, np.uint64).view(np.float32), doubles.astype(np.float32)])
    for data_type, values in ((DoubleType(), doubles), (FloatType(), floats)):
        found, wanted = both(*one_column(data_type, pa.array(values)))
        assert found.equals(wanted)


@needs_native
def test_texts_with_every_character_that_is_escaped() -> None:
    texts = [chr(code) * 2 + "é" for code in range(0x100)] + ["\u2028", "\U0001f600", ""]
    found, wanted = both(*one_column(StringType(), pa.array(texts, pa.large_string())))
    assert found.equals(wanted)
    assert found[1].as_py()[5:] == b'{"v":"\\u0001\\u0001\xc3\xa9"}'


@needs_native
def test_a_value_that_is_no_object() -> None:
    schema = StructType([StructField("value", ArrayType(LongType()))])
    batch = pa.RecordBatch.from_pydict({"value": pa.array([[1, None], [], None], pa.list_(pa.int64()))})
    found, wanted = both(schema, batch, text='{"type":["array","null"],"items":{"type":["integer","null"]}}')
    assert found.equals(wanted)
    assert [payload[5:] for payload in found.to_pylist()] == [b"[1,null]", b"[]", b"null"]


@needs_native
@pytest.mark.parametrize("levels", [99, 100])
def test_what_is_nested_too_deeply_is_written_in_python(levels: int) -> None:
    data_type: DataType = LongType()
    value: Any = 1
    arrow, text = pa.int64(), "1"
    for _ in range(levels):
        data_type, arrow, value, text = ArrayType(data_type), pa.list_(arrow), [value], f"[{text}]"
    schema, batch = one_column(data_type, pa.array([value], arrow))
    encoder = find_format("json").encoder(Layout(schema))
    assert isinstance(encoder, JsonEncoder) and (encoder._native is None) is (levels == 100)
    assert encoder.encode(batch).to_pylist() == [f'{{"v":{text}}}'.encode()]


REFUSED = {
    "null": (StructType([StructField("v", LongType(), False)]), pa.array([1, None])),
    "date": (StructType([StructField("v", DateType())]), pa.array([3_000_000], pa.int32()).view(pa.date32())),
    "timestamp": (
        StructType([StructField("v", TimestampType())]),
        pa.array([2**62], pa.int64()).view(pa.timestamp("us", "UTC")),
    ),
    "UTF-8": (StructType([StructField("v", StringType())]), pa.array([b"a", b"\xff"]).view(pa.string())),
    "null, but": (
        StructType([StructField("v", MapType(StringType(), LongType(), False))]),
        pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64())),
    ),
}


@needs_native
@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused_has_the_same_reason(reason: str) -> None:
    schema, values = REFUSED[reason]
    encoder = find_format("json").encoder(Layout(schema))
    with pytest.raises(InvalidRowError, match=reason):
        encoder.encode(pa.RecordBatch.from_arrays([values], names=["v"]))


@needs_native
def test_slices_and_nulls_inside_of_columns() -> None:
    rows = [
        None,
        {"a": [1, None], "b": {"x": Decimal("0.00000001")}, "c": datetime.date(2024, 2, 29)},
        {"a": None, "b": {}, "c": None},
        {"a": [], "b": {"x": Decimal("-12.50000000"), "y": None}, "c": datetime.date(1, 1, 1)},
    ]
    fields = [
        ("a", pa.list_(pa.int64())),
        ("b", pa.map_(pa.string(), pa.decimal128(20, 8))),
        ("c", pa.date32()),
    ]
    arrow = pa.struct(fields)
    values = pa.array(rows * 3, arrow).slice(2, 7)
    found, wanted = both(*one_column(from_arrow_type(arrow), values))
    assert found.equals(wanted)
    assert len(found) == 7
