"""Turns Arrow data of a program into rows of a table: columns by name, and values of the columns' types.

A map with the same key twice is refused: Arrow allows it, but Spark does not, and events would keep only one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError, shorten
from pyspark_pravega.formats.core.arrow_types import arrow_schema
from pyspark_pravega.formats.core.defaults import CURRENT_DEFAULT, EXACT

_LONGEST_INTEGER = 20
"""The digits of the largest number in 64 bits."""

_LIKE: tuple[tuple[Callable[[pa.DataType], bool], ...], ...] = (
    (types.is_integer, types.is_floating, types.is_decimal),
    (types.is_string, types.is_large_string, types.is_string_view),
    (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
    (types.is_boolean,),
    (types.is_date,),
    (types.is_duration,),
    (types.is_time,),
)
"""What tells that a type is of a sort, for each sort but timestamps."""


class RowsOfTable:
    """Turns batches of one schema into batches of a table's columns."""

    def __init__(self, schema: pa.Schema, columns: StructType) -> None:
        """Compare the columns. Raises InvalidSchemaError if they do not fit, before anything is written."""
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._places = {name: index for index, name in enumerate(schema.names)}
        _check_names(schema, columns)
        for field in self._schema:
            if field.name in self._places:
                own_type = schema.field(self._places[field.name]).type
                if not can_become(own_type, field.type):
                    raise InvalidSchemaError(
                        f"Column {field.name} is {field.type}, but the rows have {own_type} for it. Cast it first."
                    )
        self._rows = 0

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch as rows of the table. Raises InvalidRowError naming a value that does not fit."""
        arrays = [
            self._conform_column(batch, field, target)
            for field, target in zip(self._columns, self._schema, strict=True)
        ]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _conform_column(self, batch: pa.RecordBatch, field: StructField, target: pa.Field) -> pa.Array:
        if field.name not in self._places:
            return pa.nulls(batch.num_rows, target.type)
        array = batch.column(self._places[field.name])
        if array.type != target.type:
            try:
                array = _cast(array, target.type)
            except pa.ArrowException as error:
                raise InvalidRowError(
                    f"Column {field.name} is {target.type}, but a value of type {array.type} does not fit: "
                    f"{str(error).splitlines()[0]}"
                ) from None
        if not field.nullable and array.null_count:
            row = self._rows + pc.index(array.is_null(), True).as_py()
            raise InvalidRowError(f"Row {row} has no value in column {field.name}, which is NOT NULL")
        if (twice := find_repeated_key(array)) is not None:
            row, key = twice
            raise InvalidRowError(
                f"Row {self._rows + row} has the key {shorten(repr(key))} twice in a map of column {field.name}, "
                "but a map has one value for each key. Keep one of them."
            )
        return array


def _check_names(schema: pa.Schema, columns: StructType) -> None:
    names = ", ".join(columns.names)
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise InvalidSchemaError(f"The rows have {', '.join(twice)} more than once. Its columns are {names}.")
    if unknown := [name for name in schema.names if name not in columns.names]:
        raise InvalidSchemaError(
            f"The rows have {', '.join(unknown)}, which {'is no column' if len(unknown) == 1 else 'are no columns'} of "
            f"the table. Its columns are {names}. Leave out what is unknown, or add it with add_column."
        )
    if missing := [field.name for field in columns if not field.nullable and field.name not in schema.names]:
        raise InvalidSchemaError(f"The rows lack NOT NULL columns: {', '.join(missing)}. Its columns are {names}.")
    for field in columns:
        default = (field.metadata or {}).get(CURRENT_DEFAULT)
        if default is not None and field.name not in schema.names:
            raise InvalidSchemaError(
                f"The rows have no {field.name}, whose DEFAULT {shorten(default)} only SQL evaluates. Give its values, "
                "or use INSERT."
            )


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_nested(array.type) and _contains(target, types.is_decimal):
        return _cast_nested(array, target)
    if types.is_decimal(target) and (types.is_decimal(array.type) or types.is_integer(array.type)):
        return _cast_decimals(array, target)
    cast = array.cast(target)  # raises for what is too large, or not a number
    if not (types.is_decimal(target) and types.is_floating(array.type)):
        return cast
    # Arrow rounds the exact value of a double, so 1.005 down; Spark rounds the number as it is written.
    step = Decimal(1).scaleb(-target.scale)
    rounded = [
        None if value is None else Decimal(repr(value)).quantize(step, ROUND_HALF_UP, EXACT)
        for value in array.to_pylist()
    ]
    return pa.array(rounded, target)


def _contains(type: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    """Return whether a type, or one within it, is of some kind."""
    parts = (type.field(index).type for index in range(type.num_fields))
    return is_wanted(type) or any(_contains(part, is_wanted) for part in parts)


def _cast_nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast values within lists, maps and structs like columns: Arrow does not check decimals there."""
    absent = array.is_null()
    if types.is_struct(target):
        # A part is null where the whole is null, whatever value is stored there.
        parts = [_cast_part(part, field, absent) for part, field in zip(array.flatten(), target, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=absent)
    if types.is_map(target):
        keys, items = array.type.key_field, array.type.item_field
        array = array.cast(pa.list_(pa.struct([keys, items])))
    # They begin with the slice, and leave out what is stored under a null list.
    values = array.flatten()
    lengths = pc.if_else(absent, 0, pc.list_value_length(array)).cast(pa.int64())
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    starts = pc.if_else(absent, None, pc.subtract(ends, lengths.cast(pa.int32())))
    offsets = pa.concat_arrays([starts, ends[-1:] if len(ends) else pa.array([0], pa.int32())])
    if types.is_map(target):
        key_values, item_values = values.flatten()
        key_values, item_values = _cast_part(key_values, target.key_field), _cast_part(item_values, target.item_field)
        return pa.MapArray.from_arrays(offsets, key_values, item_values, type=target)
    return pa.ListArray.from_arrays(offsets, _cast_part(values, target.value_field), type=target)


def _cast_part(array: pa.Array, target: pa.Field, absent: pa.Array | None = None) -> pa.Array:
    """Cast what a column has within it. `absent` marks the rows where the whole is null, which allows nulls here."""
    if not target.nullable and array.null_count > (0 if absent is None else absent.true_count):
        raise pa.ArrowInvalid(f"There is a null in {target.name}, which is NOT NULL")
    return array if array.type == target.type else _cast(array, target.type)


def _cast_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast whole numbers and decimals, each of which must fit."""
    if types.is_integer(array.type):
        # Arrow wants room for every number of the type, even if none is that large.
        array = array.cast(pa.decimal128(_LONGEST_INTEGER, 0))
    cast = array.cast(target)
    # Arrow does not notice a number that exceeds 128 bits once it has more digits behind the point.
    if target.scale > array.type.scale and not cast.cast(array.type, safe=False).equals(array):
        raise pa.ArrowInvalid(f"Decimal value does not fit in precision {target.precision}")
    return cast


def can_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether values of one type may become another's: both are of one sort, and casting checks each value."""
    if source.equals(target) or types.is_null(source):
        return True
    if types.is_dictionary(source):
        return can_become(source.value_type, target)
    if _is_list(source) and _is_list(target):
        return can_become(source.value_type, target.value_type)
    if types.is_map(source) and types.is_map(target):
        return can_become(source.key_type, target.key_type) and can_become(source.item_type, target.item_type)
    if types.is_struct(source) and types.is_struct(target):
        names = [field.name for field in target]
        return [field.name for field in source] == names and all(
            can_become(source.field(name).type, target.field(name).type) for name in names
        )
    if types.is_timestamp(source) and types.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    return any(all(any(is_one(type) for is_one in sort) for type in (source, target)) for sort in _LIKE)


def _is_list(type: pa.DataType) -> bool:
    return bool(types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type))


def find_repeated_key(array: pa.Array) -> tuple[int, Any] | None:
    """Return the first row of a column with a key twice in a map at any depth, and that key, or None."""
    repeated = [
        finding for finding in _find_repeated(array, np.arange(len(array), dtype=np.int64)) if finding is not None
    ]
    return min(repeated, key=lambda finding: finding[0], default=None)


def _find_repeated(array: pa.Array, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, Any] | None]:
    """Yield what is found in each map column within an array. `rows` gives the column's row for each value."""
    kind = array.type
    if not _contains(kind, types.is_map):
        return
    if types.is_struct(kind):
        present = array.is_valid()
        inside = rows[present.to_numpy(zero_copy_only=False)]
        for part in array.filter(present).flatten():
            yield from _find_repeated(part, inside)
        return
    if types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    inside = np.repeat(rows, lengths)
    values = array.flatten()
    if not types.is_map(kind):
        yield from _find_repeated(values, inside)
        return
    # Entries are never null, so their parts are those of all values.
    keys, items = values.flatten()
    yield _find_first_repeated(keys, np.repeat(np.arange(len(array), dtype=np.int64), lengths), inside)
    yield from _find_repeated(items, inside)


def _find_first_repeated(
    keys: pa.Array, maps: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> tuple[int, Any] | None:
    """Return the row and the key of the first entry whose map has the key already."""
    if not len(keys):
        return None
    coded = keys.dictionary_encode()
    pairs = maps * len(coded.dictionary) + coded.indices.to_numpy()
    _, first = np.unique(pairs, return_index=True)
    if len(first) == len(pairs):
        return None
    again = np.ones(len(pairs), np.bool_)
    again[first] = False
    index = int(np.flatnonzero(again)[0])
    return int(rows[index]), keys[index].as_py()
