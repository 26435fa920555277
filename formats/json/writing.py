"""Writes rows as JSON documents. Values look as `spark_to_schema` says; null is written as null."""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_pravega.errors import InvalidSchemaError, UnsupportedTypeError

from ..core.arrow_types import strings_for_char_types
from ..core.number_types import wider_number
from ..core.scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from ..core.spark_visitor import child_path
from ..core.writing import BINARY, BatchEncoder, Cells, Rows, constant, joined, joined_lists, list_bounds, valid_text
from ..native.plans import Spec, Unplanned
from ..native.writer import NativeWriter, json_writer
from . import schema_model as model
from .schema_to_spark import spark_struct
from .timestamps import EPOCH_UNITS, ISO, epoch_cells

_NULL = constant(b"null")
_QUOTE = constant(b'"')

_ESCAPES = [(b"\\", b"\\\\"), (b'"', b'\\"')] + [
    (bytes([code]), json.dumps(chr(code)).strip('"').encode()) for code in range(0x20)
]
"""What may not stand in a string, backslash first because the replacements bring more of them."""


class JsonCells(Cells):
    """Turns a column into JSON values, and tells the native encoder how to."""

    native: Spec | None = None

    def plan(self) -> Spec:
        """Return the kind of the values for the native encoder. Raises Unplanned if it does not know it."""
        if self.native is None:
            raise Unplanned(f"column '{self.path}' has a kind that the native encoder does not know")
        return self.native


class JsonEncoder(BatchEncoder):
    """Writes rows as JSON objects; if the schema text's root is no object, the values of the only column.

    The native encoder writes the same bytes. It leaves batches with values that it does not know, good or bad, to
    Arrow's kernels.
    """

    def __init__(
        self,
        schema: StructType,
        schema_text: str | None = None,
        encoding_id: int | None = None,
        codec: str = "",
        timestamps: str = ISO,
    ) -> None:
        super().__init__(schema, encoding_id, codec)
        struct = strings_for_char_types(schema)
        assert isinstance(struct, StructType)
        root = model.parse_json_schema(schema_text) if schema_text else None
        if root is not None:
            table = strings_for_char_types(spark_struct(root))
            assert isinstance(table, StructType)
            struct = _fitted(struct, table)
        self._object = _Object("", struct, timestamps)
        self._wrapped = root is not None and not isinstance(root, model.Object)
        self._native: NativeWriter | None = json_writer(self._plan, self.header)

    def _plan(self) -> Spec:
        kind, *more = self._object.plan()
        if self._wrapped:
            [(_, *value)] = more[0]
            return (b"", *value)
        return (b"", False, kind, *more)

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        struct = self.struct_of(batch)
        if self._native is not None:
            written = self._native(struct.field(0) if self._wrapped else struct)
            if written is not None:
                return self.compressed(written)
        rows = np.arange(len(struct))
        parts = self._object.values(struct, rows) if self._wrapped else self._object.parts(struct, rows)
        return self.framed(parts, len(struct))


def _fitted(rows: StructType, table: StructType) -> StructType:
    """Return the rows' columns under the table's rules on nulls. Raises InvalidSchemaError for other columns."""
    columns = {field.name: field for field in table.fields}
    for name in columns:
        if name not in rows.fieldNames():
            raise InvalidSchemaError(f"column '{name}' is not in the rows to write")
    fields = []
    for field in rows.fields:
        column = columns.get(field.name)
        if column is None:
            raise InvalidSchemaError(f"column '{field.name}' is not in the schema text")
        given, wanted = field.dataType.simpleString(), column.dataType.simpleString()
        if given != wanted and wider_number(field.dataType, column.dataType) != column.dataType:
            raise InvalidSchemaError(
                f"column '{field.name}' of type {given} cannot be written as the schema's {wanted}"
            )
        data_type = column.dataType if given == wanted else field.dataType
        fields.append(StructField(field.name, data_type, column.nullable))
    return StructType(fields)


class _Object(JsonCells):
    def __init__(self, path: str, struct: StructType, timestamps: str) -> None:
        super().__init__(path)
        self._members = []
        for place, field in enumerate(struct.fields):
            begin = ("{" if place == 0 else ",") + json.dumps(field.name, ensure_ascii=False) + ":"
            cells = cells_of(field.dataType, child_path(path, field.name), timestamps)
            self._members.append((constant(begin.encode()), cells, field.nullable))

    def plan(self) -> Spec:
        return ("object", [(begin.as_py(), nullable, *cells.plan()) for begin, cells, nullable in self._members])

    def values(self, array: pa.StructArray, rows: Rows) -> list[Any]:
        columns = []
        for (_, cells, nullable), child in zip(self._members, array.flatten(), strict=True):
            column = cells.cells(child, rows, nullable)
            columns.append(column.fill_null(_NULL) if column.null_count else column)
        return columns

    def parts(self, array: pa.StructArray, rows: Rows) -> list[Any]:
        parts: list[Any] = []
        for (begin, _, _), column in zip(self._members, self.values(array, rows), strict=True):
            parts += [begin, column]
        return [*parts, constant(b"}")]

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return joined(self.parts(array, rows), len(array))


class _Array(JsonCells):
    def __init__(self, path: str, array: ArrayType, timestamps: str) -> None:
        super().__init__(path)
        self._element = cells_of(array.elementType, child_path(path, "element"), timestamps)
        self._nullable = array.containsNull

    def plan(self) -> Spec:
        return ("list", (b"", self._nullable, *self._element.plan()))

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        offsets, elements = list_bounds(array)
        cells = self._element.cells(elements, np.repeat(rows, np.diff(offsets)), self._nullable)
        if cells.null_count:
            cells = cells.fill_null(_NULL)
        return joined([constant(b"["), joined_lists(cells, offsets, b","), constant(b"]")], len(array))


class _Map(JsonCells):
    def __init__(self, path: str, map_type: MapType, timestamps: str) -> None:
        super().__init__(path)
        self._key = _String(child_path(path, "key"))
        self._value = cells_of(map_type.valueType, child_path(path, "value"), timestamps)
        self._nullable = map_type.valueContainsNull

    def plan(self) -> Spec:
        return ("map", (b"", self._nullable, *self._value.plan()))

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        offsets, entries = list_bounds(array)
        keys, values = entries.flatten()
        owners = np.repeat(rows, np.diff(offsets))
        cells = self._value.cells(values, owners, self._nullable)
        if cells.null_count:
            cells = cells.fill_null(_NULL)
        pairs = joined([self._key.present(keys, owners), constant(b":"), cells], len(entries))
        return joined([constant(b"{"), joined_lists(pairs, offsets, b","), constant(b"}")], len(array))


class _Text(JsonCells):
    """Writes a type whose cells are what Arrow's cast to string gives."""

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return array.cast(pa.large_string()).cast(BINARY)

    def quoted(self, cells: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        return joined([_QUOTE, cells, _QUOTE], len(cells))


class _Integral(_Text):
    native = ("integer",)


class _Decimal(_Text):
    native = ("decimal",)


class _String(_Text):
    native = ("text",)

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return self.quoted(_escaped(valid_text(array, self, rows)))


def _escaped(cells: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    buffer = cells.buffers()[2]
    found = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
    # Looking through the bytes once is much cheaper than looking for each of 34 characters.
    special = np.unique(found[(found < 0x20) | (found == ord('"')) | (found == ord("\\"))])
    for character, replacement in _ESCAPES:
        if character[0] in special:
            cells = pc.replace_substring(cells, pattern=character, replacement=replacement)
    return cells


class _Boolean(JsonCells):
    native = ("boolean",)

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return pc.if_else(array, constant(b"true"), constant(b"false"))


class _Floating(_Text):
    """Writes the shortest digits that give the same number back. Integral numbers get ".0", as in Java and Python."""

    native = ("float",)

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        text = array.cast(pa.large_string())
        if pa.types.is_float32(array.type):
            # A reader may go by way of double, so the digits must survive that too.
            same = pc.equal(text.cast(pa.float64()).cast(pa.float32(), safe=False), array)
            if not pc.all(same).as_py():
                text = pc.if_else(same, text, array.cast(pa.float64()).cast(pa.large_string()))
        cells = text.cast(BINARY)
        integral = pc.match_substring_regex(text, "^-?[0-9]+$")
        if pc.any(integral).as_py():
            tail = pc.if_else(integral, constant(b".0"), constant(b""))
            cells = joined([cells, tail], len(cells))
        finite = pc.is_finite(array)
        if pc.all(finite).as_py() is False:
            negative = pc.if_else(pc.less(array, 0), constant(b'"-Infinity"'), constant(b'"Infinity"'))
            special = pc.if_else(pc.is_nan(array), constant(b'"NaN"'), negative)
            cells = pc.if_else(finite, cells, special)
        return cells


class _Binary(_Text):
    native = ("base64",)

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        cells = [binascii.b2a_base64(value, newline=False) for value in array.to_pylist()]
        return self.quoted(pa.array(cells, BINARY))


class _Date(_Text):
    native = ("date",)

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        days = array.view(pa.int32()).to_numpy()
        self.refuse_first((days < FIRST_DAY) | (days > LAST_DAY), rows, _YEARS.format("date"))
        return self.quoted(super().present(array, rows))


class _Timestamp(_Text):
    """Writes ISO 8601 with microseconds (Arrow writes a blank for the T), or a number since 1970."""

    def __init__(self, path: str, zone: str | None, timestamps: str) -> None:
        super().__init__(path)
        self._type = pa.timestamp("us", zone)
        self._epoch = None if timestamps == ISO else epoch_cells(timestamps)
        self.native = ("moment", zone is not None) if timestamps == ISO else ("epoch", EPOCH_UNITS[timestamps])

    def present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        micros = array.view(pa.int64())
        numbers = micros.to_numpy()
        wrong = (numbers < FIRST_MICROS) | (numbers > LAST_MICROS)
        self.refuse_first(wrong, rows, _YEARS.format("timestamp"))
        if self._epoch is not None:
            return self._epoch(micros).cast(BINARY)
        # The session's time zone is part of Spark's type, but not of the instant.
        text = micros.view(self._type).cast(pa.large_string())
        return self.quoted(pc.replace_substring(text, " ", "T").cast(BINARY))


_YEARS = "a {} outside the years 0001 to 9999, which JSON's dates cannot tell; use format avro"


def cells_of(data_type: DataType, path: str, timestamps: str = ISO) -> JsonCells:
    """Return what writes a column of this type. Raises UnsupportedTypeError naming the column."""
    if isinstance(data_type, StructType):
        return _Object(path, data_type, timestamps)
    if isinstance(data_type, ArrayType):
        return _Array(path, data_type, timestamps)
    if isinstance(data_type, MapType):
        return _Map(path, data_type, timestamps)
    if isinstance(data_type, (TimestampType, TimestampNTZType)):
        return _Timestamp(path, "UTC" if isinstance(data_type, TimestampType) else None, timestamps)
    for kind, make in _LEAVES.items():
        if isinstance(data_type, kind):
            return make(path)
    raise UnsupportedTypeError(
        f"column '{path}' has type {data_type.simpleString()}, which cannot be written as text; leave the column out"
    )


_LEAVES: dict[type[DataType], Callable[[str], JsonCells]] = {
    BooleanType: _Boolean,
    IntegralType: _Integral,
    DecimalType: _Decimal,
    FloatType: _Floating,
    DoubleType: _Floating,
    StringType: _String,
    BinaryType: _Binary,
    DateType: _Date,
}
