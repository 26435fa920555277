"""Checks the lengths of CHAR(n) and VARCHAR(n) in rows that are to be written, and pads CHAR, as Spark's INSERT does.

Spark does it in the plan of a statement on a table of a catalog. Other ways to write (by options, by streaming queries,
in Python) leave it to the source, so every writer of rows does it here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StructType, VarcharType

from .arrow_types import replace_char_types
from .spark_visitor import join_path
from .writing import NOT_UTF8, Rows, find_invalid_text, make_row_error

FitLengths = Callable[[pa.RecordBatch], pa.RecordBatch]


def make_length_check(table: StructType) -> FitLengths:
    """Return a function that makes the texts of rows as long as the columns of a table say.

    Blanks at the end of a text that is too long are cut off, and those of CHAR(n) are padded with blanks. The function
    raises InvalidRowError naming the column for a text that is longer all the same. Columns are found by their names,
    and without one of such a type nothing is done.
    """
    columns = {field.name: field.dataType for field in table if replace_char_types(field.dataType) != field.dataType}
    if not columns:
        return lambda batch: batch

    def fit(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = np.arange(batch.num_rows)
        for number, name in enumerate(batch.schema.names):
            if name in columns:
                fitted = _fit(batch.column(number), columns[name], name, rows)
                batch = batch.set_column(number, batch.schema.field(number), fitted)
        return batch

    return fit


def _fit(array: pa.Array, data_type: DataType, path: str, rows: Rows) -> pa.Array:
    """Return the values at any depth as long as the type says. `rows` has the row of each value."""
    if replace_char_types(data_type) == data_type:
        return array
    match data_type:
        case CharType() | VarcharType():
            return _fit_texts(array, data_type, path, rows)
        case StructType():
            parts = {
                field.name: _fit(part, data_type[field.name].dataType, join_path(path, field.name), rows)
                if field.name in data_type.names
                else part
                for field, part in zip(array.type, array.flatten(), strict=True)
            }
            return pa.StructArray.from_arrays(list(parts.values()), fields=list(array.type), mask=array.is_null())
    kind = array.type
    if isinstance(data_type, MapType):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    # What is stored under a null list is left out, and offsets begin at 0.
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    offsets = pa.array(ends, mask=np.append(array.is_null().to_numpy(zero_copy_only=False), False))
    inside = np.repeat(rows, lengths)
    if isinstance(data_type, ArrayType):
        elements = _fit(array.flatten(), data_type.elementType, join_path(path, "element"), inside)
        return pa.ListArray.from_arrays(offsets, elements, type=kind)
    assert isinstance(data_type, MapType)
    keys, values = array.flatten().flatten()
    keys = _fit(keys, data_type.keyType, join_path(path, "key"), inside)
    values = _fit(values, data_type.valueType, join_path(path, "value"), inside)
    return pa.MapArray.from_arrays(offsets, keys, values, type=kind)


def _fit_texts(array: pa.Array, data_type: CharType | VarcharType, path: str, rows: Rows) -> pa.Array:
    longest, lengths = data_type.length, pc.utf8_length(array)
    bounds = pc.min_max(lengths).as_py()
    if bounds["max"] is None or (bounds["max"] <= longest and isinstance(data_type, VarcharType)):
        return array
    present = array.drop_null()
    if (invalid := find_invalid_text(present)) is not None:
        raise make_row_error(rows[array.is_valid().to_numpy(zero_copy_only=False)][invalid], path, NOT_UTF8)
    if bounds["max"] > longest:
        cut = pc.utf8_length(pc.utf8_rtrim(array, " "))
        if pc.max(cut).as_py() > longest:
            index = pc.index(pc.greater(cut, longest), True).as_py()
            allowed = f"{data_type.simpleString()} has at most {longest:,} (EXCEED_LIMIT_LENGTH)"
            raise make_row_error(rows[index], path, f"a text of {cut[index].as_py():,} characters, but {allowed}")
        array = pc.utf8_slice_codeunits(array, 0, longest)
    return pc.utf8_rpad(array, longest, " ") if isinstance(data_type, CharType) else array
