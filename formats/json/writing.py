"""Writes rows as JSON documents. `spark_to_schema` describes the values.

Null is written as null. If another program's schema does not allow null, the property is left out instead.
"""

from __future__ import annotations

import json
from enum import StrEnum, auto
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from pyspark_pravega.errors import UnsupportedTypeError

from ..core.arrow_types import replace_char_types
from ..core.format import Layout
from ..core.spark_types import KEY, ROOT_COLUMN, fit_rows, list_fields
from ..core.spark_visitor import join_path
from ..core.times_of_day import is_time_of_day
from ..core.writing import BatchEncoder, Rows, find_list_bounds, join_lists, join_parts, make_constant
from ..native import Spec, Unplanned, make_natively
from . import plain_cells
from .document_rules import make_document_rules
from .schemas import schema_model as model
from .schemas.schema_parser import parse_json_schema
from .schemas.schema_to_spark import make_spark_struct
from .timestamps import ISO, read_timestamp_format
from .variants import VariantCells

_NOTHING = make_constant(b"")
_NO_NULL = "null, which the JSON schema does not allow there"
_DEEPEST = 100
"""Most levels of a value, so that the native code has enough stack."""


class Nulls(StrEnum):
    """How a null is written."""

    REFUSED = auto()
    WRITTEN = auto()
    LEFT_OUT = auto()
    """Nothing, not even the name."""


class JsonEncoder(BatchEncoder):
    """Writes rows as JSON objects; if the root of the schema text is not an object, the values of the only column.

    The native encoder writes the same bytes. It leaves batches with unusual or bad values to Arrow's kernels.
    """

    def __init__(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> None:
        super().__init__(layout.columns, encoding_id, codec)
        schema_text, timestamps = layout.schema_text, read_timestamp_format(layout.settings)
        struct = replace_char_types(layout.columns)
        parsed = parse_json_schema(schema_text) if schema_text else None
        root = parsed.root if parsed is not None else None
        if root is not None:
            table = replace_char_types(make_spark_struct(root))
            struct = fit_rows(struct, table, widening=True)
        self._wrapped = root is not None and not isinstance(root, model.Object)
        node = model.Object({ROOT_COLUMN: root}, {ROOT_COLUMN}) if root is not None and self._wrapped else root
        # A root that is no object has no object around it.
        self._object = _Object("", struct, timestamps, node, level=-1 if self._wrapped else 0)
        self._rules = make_document_rules(parsed, schema_text, timestamps) if parsed and schema_text else None
        self._native: Any = make_natively(
            lambda module: module.JsonEncoder(self._plan(), self.header), "JSON is encoded"
        )

    def _plan(self) -> Spec:
        plan = _plan_member("", Nulls.REFUSED, self._object, 0)
        return plan["shape"]["object"][0] | {"begin": ""} if self._wrapped else plan

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        struct = self.to_struct(batch)
        values = struct.field(0) if self._wrapped else struct
        if self._native is not None and (encoded := self._native.encode(values)) is not None:
            written = pa.array(encoded)
        else:
            rows = np.arange(len(struct))
            parts = self._object.values(struct, rows) if self._wrapped else self._object.parts(struct, rows)
            written = join_parts([make_constant(self.header), *parts], len(struct))
        if self._rules is not None:
            self._rules.check(written, len(self.header))
        return self.compress(written)


def _plan_member(begin: str, nulls: Nulls, cells: plain_cells.JsonCells, level: int) -> Spec:
    """Return the `Member` of `native/src/json_write.rs` for a column; `begin` is written before its values."""
    if level > _DEEPEST:
        raise Unplanned(f"column '{cells.path}' is nested more than {_DEEPEST} levels deep")
    return {"begin": begin, "missing": nulls, "shape": cells.plan(level + 1)}


class _Object(plain_cells.JsonCells):
    def __init__(self, path: str, struct: T.StructType, timestamps: str, node: model.Node | None, level: int) -> None:
        super().__init__(path)
        self._members: list[tuple[pa.Scalar, plain_cells.JsonCells, Nulls]] = []
        for number, field in enumerate(struct.fields):
            begin = ("{" if number == 0 else ",") + json.dumps(field.name, ensure_ascii=False) + ":"
            member = model.find_part(node, field.name)
            cells = make_cells(field.dataType, join_path(path, field.name), timestamps, member, level + 1)
            nulls = Nulls.WRITTEN if field.nullable else Nulls.REFUSED
            if field.nullable and member is not None and not member.takes_null:
                cells.no_null = _NO_NULL
                demanded = isinstance(node, model.Object) and field.name in node.required
                nulls = Nulls.REFUSED if demanded else Nulls.LEFT_OUT
            self._members.append((make_constant(begin.encode()), cells, nulls))

    def plan(self, level: int) -> Spec:
        members = [(begin.as_py().decode(), nulls, cells) for begin, cells, nulls in self._members]
        return {"object": [_plan_member(*member, level) for member in members]}

    def values(self, array: pa.StructArray, rows: Rows) -> list[Any]:
        """Return the values of each member; null where one is left out."""
        columns = []
        for (_, cells, nulls), child in zip(self._members, array.flatten(), strict=True):
            write = cells.cells_or_null if nulls is Nulls.WRITTEN else cells.cells
            columns.append(write(child, rows, nulls is not Nulls.REFUSED))
        return columns

    def parts(self, array: pa.StructArray, rows: Rows) -> list[Any]:
        parts: list[Any] = []
        values = self.values(array, rows)
        for (begin, _, _), column in zip(self._members, values, strict=True):
            member = [begin, column]
            parts += [join_parts(member, len(array)).fill_null(_NOTHING)] if column.null_count else member
        if any(value.null_count for value in values) or not values:
            # The first member that is there has no comma before it.
            parts = [pc.binary_replace_slice(join_parts(parts, len(array)), 0, 1, b"{")]
        return [*parts, make_constant(b"}")]

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return join_parts(self.parts(array, rows), len(array))


class _Items(plain_cells.JsonCells):
    """Writes lists as arrays, and maps as objects."""

    def __init__(
        self, path: str, data_type: T.ArrayType | T.MapType, timestamps: str, node: model.Node | None, level: int
    ) -> None:
        super().__init__(path)
        *keys, item = list_fields(data_type)
        part = model.find_part(node, item.name)
        self._key = plain_cells.LeafCells(join_path(path, KEY), plain_cells.write_strings) if keys else None
        self._item = make_cells(item.dataType, join_path(path, item.name), timestamps, part, level + 1)
        self._nullable = item.nullable and (part is None or part.takes_null)
        if item.nullable and not self._nullable:
            self._item.no_null = _NO_NULL

    def plan(self, level: int) -> Spec:
        item = _plan_member("", Nulls.WRITTEN if self._nullable else Nulls.REFUSED, self._item, level)
        return {"list" if self._key is None else "map": item}

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        offsets, items = find_list_bounds(array)
        owners = np.repeat(rows, np.diff(offsets))
        if self._key is None:
            begin, end, cells = b"[", b"]", self._item.cells_or_null(items, owners, self._nullable)
        else:
            keys, values = items.flatten()
            written = self._item.cells_or_null(values, owners, self._nullable)
            pairs = [self._key.write_present(keys, owners), make_constant(b":"), written]
            begin, end, cells = b"{", b"}", join_parts(pairs, len(items))
        return join_parts([make_constant(begin), join_lists(cells, offsets, b","), make_constant(end)], len(array))


def make_cells(
    data_type: T.DataType, path: str, timestamps: str = ISO, node: model.Node | None = None, level: int = 0
) -> plain_cells.JsonCells:
    """Return a writer of a column of this type. Raises UnsupportedTypeError naming the column.

    `node`: the schema of its values in the table's schema text, if there is one. `level`: how many objects and arrays
    are around each value.
    """
    if isinstance(data_type, T.StructType):
        return _Object(path, data_type, timestamps, node, level)
    if isinstance(data_type, T.ArrayType | T.MapType):
        return _Items(path, data_type, timestamps, node, level)
    if isinstance(data_type, T.VariantType):
        return VariantCells(path, level)
    if isinstance(node, model.Anything) and (node.types & plain_cells.CONTAINERS or "string" not in node.types):
        return plain_cells.make_kept_cells(path, node.types)
    if isinstance(node, model.Scalar) and node.foreign and isinstance(data_type, (T.FloatType, T.DoubleType)):
        return plain_cells.LeafCells(path, plain_cells.write_finite, "finite")
    if isinstance(data_type, (T.TimestampType, T.TimestampNTZType)):
        return plain_cells.make_timestamp_cells(
            path, "UTC" if isinstance(data_type, T.TimestampType) else None, timestamps
        )
    if is_time_of_day(data_type):
        return plain_cells.make_time_cells(path, data_type, timestamps)
    for kind, (write, native) in plain_cells.LEAVES.items():
        if isinstance(data_type, kind):
            return plain_cells.LeafCells(path, write, native)
    raise UnsupportedTypeError(
        f"column '{path}' has type {data_type.simpleString()}, which cannot be written as text; leave the column out"
    )
