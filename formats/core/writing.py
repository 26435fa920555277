"""Shared by the encoders: turns rows into bytes column by column, by Arrow's kernels instead of row by row.

Each column becomes one or more binary arrays with a cell per row, and joining the cells of a row gives its
payload. Lists are encoded by their flattened elements, which are then joined per list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, MapType, StructType

from pyspark_pravega.errors import InvalidRowError

from .framing import Codec, find_codec, make_header
from .scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from .spark_types import ELEMENT, list_fields
from .spark_visitor import join_path

Rows = npt.NDArray[np.int64]

BINARY = pa.large_binary()
"""With 64-bit offsets, because an encoded batch of large rows may exceed 2 GiB."""


def make_constant(value: bytes) -> pa.Scalar:
    """Return bytes that are the same for every row, as one part of a join."""
    return pa.scalar(value, BINARY)


_NOTHING = make_constant(b"")


def join_parts(parts: list[Any], count: int) -> pa.LargeBinaryArray:
    """Join the parts of each row; null where any part is null."""
    if not any(isinstance(part, pa.Array) for part in parts):
        return pa.array([b"".join(part.as_py() for part in parts)] * count, BINARY)
    return pc.binary_join_element_wise(*parts, _NOTHING)


ConvertType = Callable[[DataType], DataType]
ConvertLeaf = Callable[[pa.Array, DataType, str, Rows], pa.Array]
"""Converts the plain values of one type and column path; the last argument has the row of each."""


def convert_leaves(
    array: pa.Array, data_type: DataType, path: str, rows: Rows, convert: ConvertLeaf, convert_type: ConvertType
) -> pa.Array:
    """Return an array, nested or not, with all plain values in it converted. `rows` has the row of each value.

    Arrays whose types stay, by `convert_type`, are left alone.
    """
    if convert_type(data_type) == data_type:
        return array
    fields, kind = {field.name: field.dataType for field in list_fields(data_type)}, array.type
    if not fields:
        return convert(array, data_type, path, rows)

    def convert_part(part: pa.Array, name: str, owners: Rows) -> pa.Array:
        if name not in fields:
            return part
        return convert_leaves(part, fields[name], join_path(path, name), owners, convert, convert_type)

    if isinstance(data_type, StructType):
        parts = [convert_part(part, field.name, rows) for field, part in zip(kind, array.flatten(), strict=True)]
        members = [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=members, mask=array.is_null())
    # What is stored under a null list is left out.
    bounds, entries = find_list_bounds(array.drop_null())
    absent, lengths = array.is_null().to_numpy(zero_copy_only=False), np.zeros(len(array), np.int64)
    lengths[~absent] = np.diff(bounds)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    offsets, inside = pa.array(ends, pa.int32(), mask=np.append(absent, False)), np.repeat(rows, lengths)
    if isinstance(data_type, MapType):
        keys, values = (convert_part(*part, inside) for part in zip(entries.flatten(), fields, strict=True))
        key_field, item_field = kind.key_field.with_type(keys.type), kind.item_field.with_type(values.type)
        return pa.MapArray.from_arrays(offsets, keys, values, type=pa.map_(key_field, item_field))
    elements = convert_part(entries, ELEMENT, inside)
    return pa.ListArray.from_arrays(offsets, elements, type=pa.list_(kind.value_field.with_type(elements.type)))


def join_lists(cells: pa.LargeBinaryArray, offsets: Rows, separator: bytes) -> pa.LargeBinaryArray:
    """Join the cells of each list."""
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), cells)
    return pc.binary_join(lists, make_constant(separator))


def find_list_bounds(array: pa.Array) -> tuple[Rows, pa.Array]:
    """Return offsets from 0, and flattened elements (for maps: entries as a struct), of a list array without nulls."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(array.type):
        fields = [array.type.key_field, array.type.item_field]
        elements = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    else:
        elements = array.values
    return offsets - first, elements.slice(first, last - first)


NOT_UTF8 = "a string that is not valid UTF-8"


def spread(cells: pa.Array, filled: npt.NDArray[np.bool_]) -> pa.Array:
    """Put the cells at the places where `filled` is true, and null at the others."""
    return cells.take(pa.array(np.cumsum(filled) - 1, pa.int64(), mask=~filled))


def make_row_error(row: int, path: str, value: object) -> InvalidRowError:
    """Return the error for a value at this row of the batch, in words; `path` is "" for the row itself."""
    column = f"column '{path}'" if path else "the row"
    return InvalidRowError(f"row {int(row)} of the batch cannot be written: {column} is {value}")


class Cells(ABC):
    """Turns one column into binary cells."""

    no_null = "null, but the column is NOT NULL"
    """What messages say of a null that is not allowed."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        """Return the cells of an array without nulls."""

    def cells(self, array: pa.Array, rows: Rows, nullable: bool) -> pa.LargeBinaryArray:
        """Return the cells of any array, null where it is null. Raises InvalidRowError for a forbidden null."""
        if array.null_count == 0:
            return self.write_present(array, rows)
        validity = array.is_valid().to_numpy(zero_copy_only=False)
        if not nullable:
            self.refuse(rows[np.flatnonzero(~validity)[0]], self.no_null)
        return spread(self.write_present(array.drop_null(), rows[validity]), validity)

    def refuse(self, row: int, value: str) -> None:
        """Raise InvalidRowError: the value at this row of the batch cannot be written."""
        raise make_row_error(row, self.path, value)

    def refuse_first(self, wrong: npt.NDArray[np.bool_], rows: Rows, value: str) -> None:
        """Refuse the first of the marked values, if there is one."""
        if wrong.any():
            self.refuse(rows[np.flatnonzero(wrong)[0]], value)

    def check_years(self, numbers: Rows, type: pa.DataType, rows: Rows) -> None:
        """Refuse the first date (in days) or timestamp (in microseconds) that reading would not take."""
        is_date = pa.types.is_date(type)
        first, last = (FIRST_DAY, LAST_DAY) if is_date else (FIRST_MICROS, LAST_MICROS)
        kind = "date" if is_date else "timestamp"
        self.refuse_first((numbers < first) | (numbers > last), rows, f"a {kind} outside the years 0001 to 9999")


def encode_valid_text(array: pa.Array, cells: Cells, rows: Rows) -> pa.LargeBinaryArray:
    """Return a string column as bytes. Raises InvalidRowError for a string that is not UTF-8, as Spark allows."""
    index = find_invalid_text(array)
    if index is not None:
        cells.refuse(rows[index], NOT_UTF8)
    return array.cast(pa.large_string()).cast(BINARY)


def find_invalid_text(array: pa.Array) -> int | None:
    """Return the index of the first string that is not UTF-8, as Spark allows; None if all are. Takes no nulls."""
    wide = array.cast(pa.large_string())
    try:
        wide.validate(full=True)
        return None
    except pa.ArrowInvalid:
        for index, value in enumerate(wide.cast(BINARY).to_pylist()):
            try:
                value.decode()
            except UnicodeDecodeError:
                return index
        raise


class BatchEncoder:
    """The common part of the encoders: checks batches, then frames and compresses payloads."""

    def __init__(self, schema: StructType, encoding_id: int | None, codec: str) -> None:
        self._names = schema.names
        self._header = b"" if encoding_id is None else make_header(encoding_id)
        self._codec: Codec = find_codec(codec)

    def to_struct(self, batch: pa.RecordBatch) -> pa.StructArray:
        """Return the batch as one struct column. Raises InvalidRowError if its columns are not the table's."""
        if batch.schema.names != self._names:
            raise InvalidRowError(
                f"the rows have the columns {', '.join(batch.schema.names)}, but the columns to write are "
                f"{', '.join(self._names)}"
            )
        return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))

    @property
    def header(self) -> bytes:
        """Return the bytes to join before each payload; none if the payload is compressed afterwards."""
        return b"" if self._codec.compressed else self._header

    def frame(self, parts: list[Any], count: int) -> pa.LargeBinaryArray:
        """Join the parts of payloads, compress them if necessary, and put the header before them."""
        return self.compress(join_parts([make_constant(self.header), *parts], count))

    def compress(self, payloads: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Compress payloads that begin with `header`, and put the registry's header before them, if necessary."""
        if not self._codec.compressed:
            return payloads
        compress, begin = self._codec.compress, self._header
        return pa.array([begin + compress(payload) for payload in payloads.to_pylist()], BINARY)
