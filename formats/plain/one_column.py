"""What the formats share whose events are the values of one column, and those that have no registry header."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StructType

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError, UnsupportedTypeError


def check_one_column(schema: StructType, data_type: type[DataType], format: str, others: str) -> None:
    """Raise UnsupportedTypeError unless the only column is of this type; `others` are formats for other columns."""
    if len(schema) == 1 and isinstance(schema[0].dataType, data_type):
        return
    found = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema) or "none"
    raise UnsupportedTypeError(
        f"a {format} table has exactly one column, of type {data_type.typeName().upper()}, but these were given: "
        f"{found}; use format {others} for others"
    )


def check_bare(format: str, encoding_id: int | None, codec: str) -> None:
    """Raise UnsupportedOperationError for a registry header or a codec, which events of the format cannot have."""
    if encoding_id is not None or codec not in ("", "none"):
        raise UnsupportedOperationError(
            f"{format} events have neither registry header nor codec; use format avro or json, or leave 'codec' out"
        )


def no_schema(format: str) -> UnsupportedOperationError:
    """The error for who asks for the name of a type in the registry."""
    return UnsupportedOperationError(f"a {format} table has no schema in the registry; use format avro or json")


def without_columns(count: int) -> pa.RecordBatch:
    """Rows that are only counted."""
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def events_of(batch: pa.RecordBatch) -> pa.Array:
    """The only column. Raises InvalidRowError for a null."""
    column = batch.column(0)
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InvalidRowError(
            f"row {row} of the batch has no value in column '{batch.schema.names[0]}': "
            "an event cannot be null; filter such rows out"
        )
    return column
