"""Writes rows as Avro data, by the table's schema text, whether this project or another program made it.

A timestamp is cut to the unit of the schema (milliseconds). A union of several types is written from a
struct with exactly one member set.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core import writing
from ..core.arrow_types import replace_char_types
from ..core.spark_types import SPARK_TYPE
from ..core.spark_visitor import join_path
from ..core.times_of_day import UNITS, check_times
from ..core.writing import Rows
from . import schema_model as avro
from .cells import (
    Parts,
    ValueCells,
    make_binary_cells,
    write_decimal_cells,
    write_fixed_decimal_cells,
    write_varint,
    write_varint_cells,
)
from .leaves import describe_type
from .recursion.recursive_writing import JsonText
from .schema_to_spark import list_targets, make_spark_struct


class AvroEncoder(writing.BatchEncoder):
    """Writes rows by a schema text."""

    def __init__(self, schema: StructType, schema_text: str, encoding_id: int | None = None, codec: str = "") -> None:
        super().__init__(schema, encoding_id, codec)
        struct = replace_char_types(schema)
        node = avro.parse_avro(schema_text)
        # Refuses parts that no column can hold.
        make_spark_struct(node)
        root = node if isinstance(node, avro.Record) else avro.enclose(node, struct.names[0])
        self._root = _Record("", root, struct)

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        struct = self.to_struct(batch)
        return self.frame(self._root.parts(struct, np.arange(len(struct))), len(struct))


class _Record(ValueCells):
    def __init__(self, path: str, record: avro.Record, struct: StructType) -> None:
        super().__init__(path)
        names = {field.name: number for number, field in enumerate(struct.fields)}
        unknown = [name for name in names if record.field_named(name) is None]
        missing = [target.name for target in record.fields if target.name not in names]
        for name in unknown + missing:
            lacking = "the schema text" if name in unknown else "the rows to write"
            raise InvalidSchemaError(f"column '{join_path(path, name)}' is not in {lacking}")
        self._fields = [
            (
                names[target.name],
                _make_value_cells(target.type, struct[target.name].dataType, join_path(path, target.name)),
            )
            for target in record.fields
        ]

    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        children = array.flatten()
        if not children:
            return [pa.array([b""] * len(array), writing.BINARY)]
        return [part for number, value in self._fields for part in value.all_parts(children[number], rows)]


class _Union(ValueCells):
    """Writes null or a value of one type. `null_branch` is None if the union has no null."""

    def __init__(self, path: str, null_branch: int | None, branch: int, value: ValueCells) -> None:
        super().__init__(path)
        self._null = None if null_branch is None else _write_branch_number(null_branch)
        self._number = _write_branch_number(branch)
        self._value = value

    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        return [self._number, *self._value.parts(array, rows)]

    def all_parts(self, array: pa.Array, rows: Rows) -> Parts:
        if array.null_count == 0 or self._null is None:
            return super().all_parts(array, rows)
        validity = array.is_valid()
        present = validity.to_numpy(zero_copy_only=False)
        numbers = pc.if_else(validity, self._number, self._null)
        cells = self._value.write_present(array.drop_null(), rows[present])
        return [numbers, writing.spread(cells, present).fill_null(writing.make_constant(b""))]


class _Members(ValueCells):
    """Writes a union of several types, from a struct with a member for each."""

    def __init__(self, path: str, null_branch: int | None, members: dict[str, tuple[int, ValueCells]]) -> None:
        super().__init__(path)
        self._null = None if null_branch is None else _write_branch_number(null_branch)
        self._members = members

    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        return self.all_parts(array, rows)

    def all_parts(self, array: pa.Array, rows: Rows) -> Parts:
        children, members = array.flatten(), [self._members[field.name] for field in array.type]
        set_members = [child.is_valid().to_numpy(zero_copy_only=False) for child in children]
        counts = np.sum(set_members, axis=0)
        self.refuse_first(counts > 1, rows, "a union with more than one member set")
        if self._null is None:
            self.refuse_first(counts == 0, rows, "null (no member of the union is set), but it is NOT NULL")
        parts: Parts = []
        for (branch, value), child, is_set in zip(members, children, set_members, strict=True):
            if is_set.any():
                cells = writing.join_parts(
                    [_write_branch_number(branch), value.write_present(child.drop_null(), rows[is_set])], is_set.sum()
                )
                parts.append(writing.spread(cells, is_set).fill_null(writing.make_constant(b"")))
        if self._null is not None:
            parts.append(pc.if_else(pa.array(counts == 0), self._null, writing.make_constant(b"")))
        return parts


class _Items(ValueCells):
    """Writes arrays, and maps as arrays of entries: `key` writes their keys."""

    def __init__(self, path: str, item: ValueCells, key: ValueCells | None = None) -> None:
        super().__init__(path)
        self._item = item
        self._key = key

    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        """Return one block of items and the empty block that ends it; for no items, only the empty block."""
        offsets, items = writing.find_list_bounds(array)
        lengths = np.diff(offsets)
        owners, count = np.repeat(rows, lengths), len(items)
        keys: Parts = []
        if self._key is not None:
            of_keys, items = items.flatten()
            keys = self._key.parts(of_keys, owners)
        cells = writing.join_parts(keys + self._item.all_parts(items, owners), count)
        end = pc.if_else(pa.array(lengths == 0), writing.make_constant(b""), writing.make_constant(b"\0"))
        return [write_varint_cells(lengths), writing.join_lists(cells, offsets, b""), end]


WriteParts = Callable[[pa.Array, Rows, ValueCells], Parts]
"""Writes an array without nulls; the cells refuse what the schema does not allow."""


class _Leaf(ValueCells):
    """Writes a column of plain values."""

    def __init__(self, path: str, write: WriteParts) -> None:
        super().__init__(path)
        self._write = write

    def parts(self, array: pa.Array, rows: Rows) -> Parts:
        return self._write(array, rows, self)


def _write_booleans(array: pa.Array, rows: Rows, cells: ValueCells) -> Parts:
    return [pc.if_else(array, writing.make_constant(b"\1"), writing.make_constant(b"\0"))]


def _write_integers(array: pa.Array, rows: Rows, cells: ValueCells) -> Parts:
    return [write_varint_cells(array.to_numpy().astype(np.int64))]


def _write_moments(array: pa.Array, rows: Rows, cells: ValueCells, unit: int = 1) -> Parts:
    """Write dates, or timestamps in a unit of microseconds."""
    stored = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
    numbers = array.view(stored).to_numpy().astype(np.int64)
    cells.check_years(numbers, array.type, rows)
    return [write_varint_cells(numbers // unit)]


def _write_times(array: pa.Array, rows: Rows, cells: ValueCells, data_type: DataType, unit: int) -> Parts:
    return [write_varint_cells(check_times(array, rows, cells, data_type) // unit)]


def _write_floating(array: pa.Array, rows: Rows, cells: ValueCells, stored: str) -> Parts:
    data = np.ascontiguousarray(array.to_numpy().astype(stored))
    return [make_binary_cells(data.view(np.uint8), data.itemsize, len(array))]


def _write_bytes(array: pa.Array, rows: Rows, cells: ValueCells) -> Parts:
    lengths = pc.binary_length(array).to_numpy().astype(np.int64)
    return [write_varint_cells(lengths), array.cast(writing.BINARY)]


def _write_strings(array: pa.Array, rows: Rows, cells: ValueCells) -> Parts:
    return _write_bytes(writing.encode_valid_text(array, cells, rows), rows, cells)


def _write_uuids(array: pa.Array, rows: Rows, cells: ValueCells, as_bytes: bool) -> Parts:
    octets = []
    for text, row in zip(array.to_pylist(), rows, strict=True):
        try:
            octets.append(uuid.UUID(text).bytes)
        except ValueError:
            cells.refuse(row, f"'{text[:40]}', which is not a UUID")
    return [pa.array(octets, writing.BINARY)] if as_bytes else _write_strings(array, rows, cells)


def _write_symbols(array: pa.Array, rows: Rows, cells: ValueCells, enum: avro.Enum, symbols: pa.Array) -> Parts:
    numbers = pc.index_in(array.cast(pa.large_string()), symbols)
    if numbers.null_count:
        index = pc.index(numbers.is_null(), True).as_py()
        some = ", ".join(enum.symbols[:20])
        wrong = f"'{array[index].as_py()[:40]}', which is not a symbol of {describe_type(enum)}: {some}"
        cells.refuse(rows[index], wrong)
    return [write_varint_cells(numbers.to_numpy().astype(np.int64))]


def _write_fixed(array: pa.Array, rows: Rows, cells: ValueCells, size: int) -> Parts:
    wrong = pc.binary_length(array).to_numpy() != size
    cells.refuse_first(wrong, rows, f"binary of a length other than the {size} bytes of the schema's fixed")
    return [array.cast(writing.BINARY)]


def _write_decimals(array: pa.Array, rows: Rows, cells: ValueCells) -> Parts:
    octets, lengths = write_decimal_cells(array)
    return [write_varint_cells(lengths), octets]


def _write_fixed_decimals(array: pa.Array, rows: Rows, cells: ValueCells, size: int) -> Parts:
    octets, wrong = write_fixed_decimal_cells(array, size)
    cells.refuse_first(wrong, rows, f"a number too large for the {size} bytes of the schema's fixed")
    return [octets]


def _write_branch_number(branch: int) -> pa.Scalar:
    return writing.make_constant(write_varint(branch))


def _make_value_cells(node: avro.Node, data_type: DataType, path: str) -> ValueCells:
    """Return a writer of a column of `data_type` as `node`. Raises InvalidSchemaError if that is not possible."""
    if not isinstance(node, avro.Union):
        return _make_single_cells(node, data_type, path)
    numbers = {id(branch): number for number, branch in enumerate(node.branches)}
    targets = list_targets(node)
    if len(targets) == 1:
        # For [int, long] and [float, double] the wider type is written.
        same = [branch for branch in node.not_null if _name_kind(branch) == _name_kind(targets[0])]
        return _Union(path, node.null_number, numbers[id(same[0])], _make_single_cells(targets[0], data_type, path))
    names = [f"member{number}" for number in range(len(targets))]
    if not isinstance(data_type, StructType) or sorted(data_type.names) != sorted(names):
        raise _make_mismatch_error(node, data_type, path)
    members = {}
    for name, branch in zip(names, node.not_null, strict=True):
        cells = _make_single_cells(branch, data_type[name].dataType, join_path(path, name))
        members[name] = numbers[id(branch)], cells
    return _Members(path, node.null_number, members)


def _name_kind(node: avro.Node) -> str:
    return node.name if isinstance(node, avro.Primitive | avro.Named) else type(node).__name__


def _make_single_cells(node: avro.Node, data_type: DataType, path: str) -> ValueCells:
    if isinstance(node, avro.Record) and isinstance(data_type, StructType):
        return _Record(path, node, data_type)
    if isinstance(node, avro.Record) and isinstance(data_type, StringType):
        return JsonText(path, node)
    if isinstance(node, avro.Array) and isinstance(data_type, ArrayType):
        return _Items(path, _make_value_cells(node.items, data_type.elementType, join_path(path, "element")))
    if isinstance(node, avro.Map) and isinstance(data_type, MapType):
        value = _make_value_cells(node.values, data_type.valueType, join_path(path, "value"))
        return _Items(path, value, _Leaf(join_path(path, "key"), _write_strings))
    write = _choose_writer(node, data_type)
    if write is None:
        raise _make_mismatch_error(node, data_type, path)
    return _Leaf(path, write)


def _make_mismatch_error(node: avro.Node, data_type: DataType, path: str) -> InvalidSchemaError:
    return InvalidSchemaError(
        f"column '{path}' of type {data_type.simpleString()} cannot be written as the schema's {describe_type(node)}"
    )


def _choose_writer(node: avro.Node, data_type: DataType) -> WriteParts | None:
    """Return what writes plain values, None if the types do not match."""
    name = data_type.simpleString()
    is_text = name.startswith("string")
    if isinstance(node, avro.Enum):
        symbols = pa.array(node.symbols, pa.large_string())
        return partial(_write_symbols, enum=node, symbols=symbols) if is_text else None
    if not isinstance(node, avro.Fixed | avro.Primitive):
        return None
    size = node.size if isinstance(node, avro.Fixed) else None
    if node.logical == "decimal":
        if name != f"decimal({node.precision},{node.scale})":
            return None
        return _write_decimals if size is None else partial(_write_fixed_decimals, size=size)
    if node.logical == "uuid":
        return partial(_write_uuids, as_bytes=size is not None) if is_text else None
    if size is not None:
        return partial(_write_fixed, size=size) if name == "binary" else None
    if node.logical in avro.TIMES_OF_DAY:
        unit = UNITS[avro.find_time_unit(node.logical, node.name) or "us"]
        same = name == node.attributes.get(SPARK_TYPE)
        return partial(_write_times, data_type=data_type, unit=unit) if same else None
    if node.logical is not None:
        expected = "date" if node.logical == "date" else "timestamp"
        if node.logical.startswith("local-"):
            expected = "timestamp_ntz"
        unit = 1000 if node.logical.endswith("-millis") else 1
        return partial(_write_moments, unit=unit) if name == expected else None
    return _PRIMITIVES.get((node.name, "string" if is_text else name))


_PRIMITIVES: dict[tuple[str, str], WriteParts] = {
    ("boolean", "boolean"): _write_booleans,
    **dict.fromkeys((("int", name) for name in ("tinyint", "smallint", "int")), _write_integers),
    **dict.fromkeys((("long", name) for name in ("tinyint", "smallint", "int", "bigint")), _write_integers),
    ("float", "float"): partial(_write_floating, stored="<f4"),
    ("double", "float"): partial(_write_floating, stored="<f8"),
    ("double", "double"): partial(_write_floating, stored="<f8"),
    ("bytes", "binary"): _write_bytes,
    ("string", "string"): _write_strings,
}
