"""Maps Spark types to the Arrow types that Spark expects from a Python data source."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyspark.sql.types as T
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type

from .spark_types import convert_parts

# Before Spark 4.2 the times in Arrow columns are always in UTC, and the function takes no time zone.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return Spark's Arrow schema in UTC, with char(n) and varchar(n) as the strings that Spark reads."""
    return to_arrow_schema(replace_char_types(schema), **_IN_UTC)


def find_arrow_type(data_type: T.DataType) -> pa.DataType:
    """Return the Arrow type of a column of this Spark type, as in `arrow_schema`."""
    return to_arrow_type(replace_char_types(data_type), **_IN_UTC)


def make_record_batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Return a batch of columns. A batch without columns keeps its number of rows."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    nothing = pa.array([{}] * rows, pa.struct([]))
    return pa.RecordBatch.from_struct_array(nothing).replace_schema_metadata(schema.metadata)


@overload
def replace_char_types(data_type: T.StructType) -> T.StructType: ...


@overload
def replace_char_types(data_type: T.DataType) -> T.DataType: ...


def replace_char_types(data_type: T.DataType) -> T.DataType:
    """Replace char(n) and varchar(n) with string anywhere in a type, as Spark does before it reads or writes."""
    if isinstance(data_type, (T.CharType, T.VarcharType)):
        return T.StringType()
    return convert_parts(data_type, replace_char_types)


def make_array(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Return whole numbers as an array over the same memory.

    `pa.array` looks for pandas each time. If there is none, that takes longer than a small batch.
    """
    whole = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def restore_order(parts: Sequence[Sequence[pa.Array]], positions: Sequence[npt.NDArray[np.int64]]) -> list[pa.Array]:
    """Join the columns of several parts, whose rows have these positions in the whole, in the order of positions."""
    everything = np.concatenate(positions)
    order = np.empty(len(everything), np.int64)
    order[everything] = np.arange(len(everything))
    return [pa.concat_arrays(column).take(make_array(order)) for column in zip(*parts, strict=True)]
