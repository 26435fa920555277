"""Checks the lengths of CHAR(n) and VARCHAR(n) in rows that are to be written, and pads CHAR, as Spark's INSERT does.

Spark does it in the plan of a statement on a table of a catalog. Other ways to write (by options, by streaming queries,
in Python) leave it to the source, so every writer of rows does it here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import CharType, DataType, StructType, VarcharType

from .arrow_types import replace_char_types
from .writing import NOT_UTF8, Rows, convert_leaves, find_invalid_text, make_row_error

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
                fitted = convert_leaves(batch.column(number), columns[name], name, rows, _fit, replace_char_types)
                batch = batch.set_column(number, batch.schema.field(number), fitted)
        return batch

    return fit


def _fit(array: pa.Array, data_type: DataType, path: str, rows: Rows) -> pa.Array:
    """Return plain values as long as their type says. `rows` has the row of each value."""
    if not isinstance(data_type, CharType | VarcharType):
        return array
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
