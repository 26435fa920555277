"""Converts columns between Arrow's types, which programs see, and Spark's, which the rest of the catalog uses."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType, TimeType

from pyspark_pravega.errors import UnsupportedTypeError, shorten
from pyspark_pravega.formats.core.arrow_types import find_arrow_type

_COMMENT = b"comment"
_MOST_DIGITS = 38
"""The most digits of a decimal in Spark."""


def to_arrow_columns(columns: StructType) -> pa.Schema:
    """Return the Arrow schema of columns, with their comments in the metadata of its fields."""
    return pa.schema([_to_arrow_field(field) for field in columns])


def _to_arrow_field(field: StructField) -> pa.Field:
    comment = (field.metadata or {}).get("comment")
    metadata = None if comment is None else {_COMMENT: comment.encode()}
    return pa.field(field.name, find_arrow_type(field.dataType), field.nullable, metadata)


def to_spark_columns(schema: pa.Schema | StructType | None) -> StructType:
    """Return columns as Spark's types.

    Raises UnsupportedTypeError for anything but columns, and for a column without a type in Spark, which it names.
    """
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, pa.Schema | None):
        raise UnsupportedTypeError(
            f"Its columns are given as {type(schema).__name__} {shorten(repr(schema))}. Give an Arrow schema, like "
            "pyarrow.schema([('id', pyarrow.int32())]), or a StructType of Spark. Columns as SQL text work only in "
            "Spark."
        )
    return StructType([] if schema is None else [to_spark_field(field) for field in schema])


def to_spark_field(field: pa.Field) -> StructField:
    """Return a column as Spark's type. Raises UnsupportedTypeError naming the column."""
    comment = (field.metadata or {}).get(_COMMENT)
    metadata = None if comment is None else {"comment": comment.decode()}
    return StructField(field.name, to_spark_type(field.name, field.type), field.nullable, metadata)


def to_spark_type(name: str, type: pa.DataType | DataType) -> DataType:
    """Return the type of a column as Spark's type. Raises UnsupportedTypeError naming the column."""
    if isinstance(type, DataType):
        return type
    if pa.types.is_decimal(type) and type.precision > _MOST_DIGITS:
        raise UnsupportedTypeError(
            f"Column {name} has the Arrow type {type}, but Spark's decimals have at most 38 digits."
        )
    if pa.types.is_time32(type):
        return TimeType(0 if type.unit == "s" else 3)
    try:
        return from_arrow_type(type)
    except (PySparkException, AttributeError, KeyError):
        raise UnsupportedTypeError(
            f"Column {name} has the Arrow type {type}, which a table cannot have. Cast it: unsigned numbers to the "
            "next larger signed type, times of day to time64."
        ) from None
