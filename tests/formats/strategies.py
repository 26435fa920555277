"""Generated Spark schemas, and values that fit them, for round trips."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from pyspark_pravega.formats.core.arrow_types import arrow_schema

FIRST_MICROS = -62_135_596_800_000_000
LAST_MICROS = 253_402_300_799_999_999
"""The years 0001 to 9999."""

decimal_types = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: DecimalType(precision, scale))
)
primitive_types: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from(
        [
            BooleanType(),
            ByteType(),
            ShortType(),
            IntegerType(),
            LongType(),
            FloatType(),
            DoubleType(),
            StringType(),
            BinaryType(),
            DateType(),
            TimestampType(),
            TimestampNTZType(),
            CharType(3),
            VarcharType(7),
            StringType("UNICODE_CI"),
        ]
    ),
    decimal_types,
)
field_names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
metadata = st.one_of(
    st.just({}),
    st.dictionaries(st.sampled_from(["comment", "note", "__CHAR_VARCHAR_TYPE_STRING"]), st.text(max_size=8)),
    st.dictionaries(st.text(max_size=5), json_values, max_size=2),
)


def structs(inner: st.SearchStrategy[DataType], names: st.SearchStrategy[str]) -> st.SearchStrategy[StructType]:
    fields = st.builds(StructField, names, inner, st.booleans(), metadata)
    return st.lists(fields, min_size=1, max_size=4, unique_by=lambda field: field.name).map(StructType)


def schemas(names: st.SearchStrategy[str] = field_names) -> st.SearchStrategy[StructType]:
    """Any schema that Avro and JSON can hold, with these column names."""
    types = st.recursive(
        primitive_types,
        lambda inner: st.one_of(
            st.builds(ArrayType, inner, st.booleans()),
            st.builds(MapType, st.just(StringType()), inner, st.booleans()),
            structs(inner, names),
        ),
        max_leaves=6,
    )
    return structs(types, names)


texts = st.text(st.characters(codec="utf-8"), max_size=8)
"""No lone surrogates: those are no characters, and Spark's strings cannot hold them."""

doubles = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.1, 1e21, 1e10, -0.0, 5e-324, 1e9])
floats = st.floats(width=32) | st.sampled_from([struct.unpack("f", struct.pack("f", 0.1))[0], 16777216.0])


def values(data_type: DataType) -> st.SearchStrategy[Any]:
    """Values of a type, without null."""
    if isinstance(data_type, StructType):
        return st.fixed_dictionaries({field.name: nullable(field.dataType, field.nullable) for field in data_type})
    if isinstance(data_type, ArrayType):
        return st.lists(nullable(data_type.elementType, data_type.containsNull), max_size=3)
    if isinstance(data_type, MapType):
        return st.dictionaries(texts, nullable(data_type.valueType, data_type.valueContainsNull), max_size=3).map(
            lambda value: list(value.items())
        )
    if isinstance(data_type, DecimalType):
        limit = 10**data_type.precision - 1
        scale = data_type.scale
        return st.integers(-limit, limit).map(lambda number: decimal.Decimal(f"{number}E-{scale}"))
    name = data_type.simpleString()
    if name.startswith(("string", "char", "varchar")):
        return texts
    bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}.get(name)
    if bits is not None:
        return st.integers(-(2**bits), 2**bits - 1)
    return {
        "boolean": st.booleans(),
        "float": floats,
        "double": doubles,
        "binary": st.binary(max_size=8),
        "date": st.dates(),
        "timestamp": st.datetimes(timezones=st.just(datetime.UTC)),
        "timestamp_ntz": st.datetimes(),
    }[name]


def nullable(data_type: DataType, may_be_null: bool) -> st.SearchStrategy[Any]:
    return st.none() | values(data_type) if may_be_null else values(data_type)


@st.composite
def batches(draw: st.DrawFn, names: st.SearchStrategy[str] = field_names) -> tuple[StructType, pa.RecordBatch]:
    """A schema and some rows of it, in Spark's Arrow layout."""
    schema = draw(schemas(names))
    rows = draw(st.lists(values(schema), max_size=5))
    return schema, pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))


def same(left: Any, right: Any) -> bool:
    """Equal values, where NaN is NaN and -0.0 is not 0.0."""
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and bool(left == right)


def assert_same_batch(found: pa.RecordBatch, wanted: pa.RecordBatch) -> None:
    """Same schema, metadata and nullability included, and same values."""
    assert found.schema.equals(wanted.schema, check_metadata=True)
    found.validate(full=True)
    assert found.num_rows == wanted.num_rows
    left, right = found.to_pylist(), wanted.to_pylist()
    for one, other in zip(left, right, strict=True):
        assert same(one, other), (one, other)
