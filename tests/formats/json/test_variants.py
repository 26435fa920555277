"""VARIANTs are written as Java's `to_json` shows them, if they can be read back."""

from __future__ import annotations

import json
import random
import re
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.variant_utils import VariantUtils

from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.formats.core.arrow_types import find_arrow_type
from pyspark_pravega.formats.core.columns import Misfit
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.formats.json.variant_text import write_double, write_float, write_variant_text

NO_KEYS = b"\x01\x00\x00"
VARIANT = t.VariantType()
DAY = 86_400_000_000


def scalar(kind: int, content: bytes) -> str:
    """The text of a VARIANT of a kind."""
    return write_variant_text(bytes([kind << 2]) + content, NO_KEYS, 512)


def parsed(text: str) -> dict[str, bytes]:
    value, metadata = VariantUtils.parse_json(text)
    return {"value": value, "metadata": metadata}


def nested(levels: int, key: bytes | None = None) -> dict[str, bytes]:
    """The VARIANT of so many arrays, or objects, around a 1. Their offsets have four bytes, as Java reads them too."""
    value = b"\x0c\x01"
    for _ in range(levels):
        begin = b"\x0f\x01" if key is None else b"\x0e\x01\x00"
        value = begin + bytes(4) + len(value).to_bytes(4, "little") + value
    return {"value": value, "metadata": NO_KEYS if key is None else b"\x01\x01\x00" + bytes([len(key)]) + key}


def encode(data_type: t.DataType, value: Any, *, nullable: bool = True, format: str = "json") -> bytes:
    """The event of a row with the column v."""
    schema = t.StructType([t.StructField("v", data_type, nullable)])
    batch = pa.record_batch([pa.array([value], find_arrow_type(data_type))], names=["v"])
    chosen = find_format(format)
    event: bytes = chosen.encoder(Layout(schema, chosen.schema_text(Layout(schema), "t", "s"))).encode(batch)[0].as_py()
    return event


def read(data_type: t.DataType, event: bytes) -> Any:
    schema = t.StructType([t.StructField("v", data_type)])
    format = find_format("json")
    [row] = (
        format.decoder(Layout(schema, format.schema_text(Layout(schema), "t", "s")))
        .decode(EventBuffer.of([event]))
        .to_pylist()
    )
    return row["v"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (0.001, "0.001"), (9.99e-4, "9.99E-4"), (9999999.0, "9999999.0"),
        (1e7, "1.0E7"), (-1234567.891, "-1234567.891"), (100.5, "100.5"), (1.5e300, "1.5E300"), (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"), (2.2250738585072014e-308, "2.2250738585072014E-308"), (0.1, "0.1"), (2e23, "2.0E23"),
        (1.7976931348623157e308, "1.7976931348623157E308"), (2.0**-44, "5.684341886080802E-14"),
    ],
)  # fmt: skip
def test_doubles_are_noted_as_in_java(value: float, text: str) -> None:
    assert write_double(value) == text
    assert scalar(7, struct.pack("<d", value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (16777216.0, "1.6777216E7"), (1e10, "1.0E10"), (1.4e-45, "1.4E-45"),
        (3.4028235e38, "3.4028235E38"), (0.3, "0.3"), (-2.5, "-2.5"), (33554430.0, "3.355443E7"),
        (1.1754944e-38, "1.1754944E-38"),
    ],
)  # fmt: skip
def test_floats_are_noted_as_in_java(value: float, text: str) -> None:
    assert scalar(14, struct.pack("<f", value)) == text


def test_numbers_are_what_they_were() -> None:
    chance = random.Random(11)
    form = re.compile(r"-?\d+\.\d+(E-?\d+)?")
    for _ in range(3000):
        double = struct.unpack("<d", chance.randbytes(8))[0]
        float32 = np.frombuffer(chance.randbytes(4), "<f4")[0]
        if np.isfinite(double):
            text = write_double(double)
            assert form.fullmatch(text) and float(text) == double
        if np.isfinite(float32):
            text = write_float(float32)
            assert form.fullmatch(text) and np.float32(text) == float32
        scale = chance.randrange(39)
        unscaled = chance.randrange(-(10**38) + 1, 10**38) // 10 ** chance.randrange(38)
        text = scalar(10, bytes([scale]) + unscaled.to_bytes(16, "little", signed=True))
        digits = tuple(map(int, str(abs(unscaled))))
        exact = format(Decimal((int(unscaled < 0), digits, -scale)), "f")
        assert text == (exact.rstrip("0").removesuffix(".") if scale else exact)


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        (11, (-1).to_bytes(4, "little", signed=True), '"1969-12-31"'),
        (11, (19_782).to_bytes(4, "little"), '"2024-02-29"'),
        (11, (2_932_897).to_bytes(4, "little"), '"+10000-01-01"'),
        (11, (-719_529).to_bytes(4, "little", signed=True), '"-0001-12-31"'),
        (12, (0).to_bytes(8, "little"), '"1970-01-01 00:00:00+00:00"'),
        (12, (-1).to_bytes(8, "little", signed=True), '"1969-12-31 23:59:59.999999+00:00"'),
        (13, (500_000 + DAY).to_bytes(8, "little"), '"1970-01-02 00:00:00.5"'),
        (15, b"\x02\x00\x00\x00\x00\x01", '"AAE="'),
        (20, UUID("00112233-4455-6677-8899-aabbccddeeff").bytes, '"00112233-4455-6677-8899-aabbccddeeff"'),
    ],
)
def test_values_that_json_lacks(kind: int, content: bytes, text: str) -> None:
    assert scalar(kind, content) == text


@pytest.mark.parametrize(
    ("kind", "content"), [(7, struct.pack("<d", float("nan"))), (14, b"\x00\x00\x80\xff"), (17, b"")]
)
def test_values_without_a_text(kind: int, content: bytes) -> None:
    with pytest.raises(Misfit, match="a VARIANT that has no JSON"):
        scalar(kind, content)


def test_damaged_bytes() -> None:
    whole = parsed('{"a": [1, 2.5, "text"], "b": {"c": null}}')
    for size in range(len(whole["value"])):
        with pytest.raises(Misfit, match="its bytes are damaged"):
            write_variant_text(whole["value"][:size], whole["metadata"], 512)
    for size in range(len(whole["metadata"])):
        with pytest.raises(Misfit, match="its bytes are damaged"):
            write_variant_text(whole["value"], whole["metadata"][:size], 512)


@pytest.mark.parametrize("key", [None, b"k"], ids=["arrays", "objects"])
def test_as_deep_as_is_read(key: bytes | None) -> None:
    event = encode(VARIANT, nested(511, key))
    again = encode(VARIANT, read(VARIANT, event))
    assert again == event and event.count(b"[" if key is None else b"{") >= 511
    with pytest.raises(InvalidRowError, match="column 'v' is a VARIANT whose .* nested more than 511 levels deep"):
        encode(VARIANT, nested(512, key))
    lists = t.ArrayType(VARIANT)
    assert read(lists, encode(lists, [nested(510, key)])) is not None
    with pytest.raises(InvalidRowError, match="more than 510 levels deep"):
        encode(lists, [nested(511, key)])
    assert json.loads(encode(VARIANT, nested(512, key), format="debezium-json"))["after"]["v"].count("1") == 1
    with pytest.raises(InvalidRowError, match="column 'v' is a VARIANT whose .* nested more than 512 levels deep"):
        encode(VARIANT, nested(513, key), format="debezium-json")


def test_a_json_null_is_null() -> None:
    null = parsed("null")
    assert encode(VARIANT, null) == b'{"v":null}'
    assert encode(t.ArrayType(VARIANT), [null, parsed("1"), None]) == b'{"v":[null,1,null]}'
    required = [
        (VARIANT, null, "'v'"),
        (t.ArrayType(VARIANT, False), [parsed("1"), null], "'v.element'"),
        (t.MapType(t.StringType(), VARIANT, False), [("k", null)], "'v.value'"),
        (t.StructType([t.StructField("x", VARIANT, False)]), {"x": null}, "'v.x'"),
    ]
    for data_type, value, path in required:
        with pytest.raises(InvalidRowError, match=f"column {path} is null, but the column is NOT NULL"):
            encode(data_type, value, nullable=data_type is not VARIANT)
    assert json.loads(encode(VARIANT, null, format="debezium-json"))["after"] == {"v": None}
    with pytest.raises(InvalidRowError, match="column 'v' is null, but the column is NOT NULL"):
        encode(VARIANT, null, nullable=False, format="debezium-json")


@pytest.mark.parametrize("format", ["json", "debezium-json"])
def test_what_is_not_read_is_not_written(format: str) -> None:
    with pytest.raises(InvalidRowError, match="'v' is a VARIANT that could not be read back .*keys mix characters"):
        encode(VARIANT, parsed('[{"\ufb00": 1, "\U00010000": 2}]'), format=format)
    # Each empty array has three bytes of text, and six bytes of a VARIANT.
    long, empty, count = (
        bytes([16 << 2]) + (15 << 20).to_bytes(4, "little") + b"x" * (15 << 20),
        b"\x03\x00\x00",
        180_000,
    )
    offsets = np.arange(count + 1, dtype="<u4") * len(empty)
    offsets[-1] += len(long) - len(empty)
    value = b"\x1f" + count.to_bytes(4, "little") + offsets.tobytes() + empty * (count - 1) + long
    assert len(write_variant_text(value, NO_KEYS, 512)) < 16 << 20
    with pytest.raises(InvalidRowError, match="'v' is a VARIANT that could not be read back .*VARIANT_SIZE_LIMIT"):
        encode(VARIANT, {"value": value, "metadata": NO_KEYS}, format=format)
