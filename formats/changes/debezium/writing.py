"""Writes rows, and changes of rows, as Debezium's envelopes, encoded as a table with the same properties reads them.

| Spark | value in `after` |
|---|---|
| date | days since 1970 |
| timestamp | "2024-01-31T12:00:00.000000Z" |
| timestamp_ntz | number in the column's unit (`debezium.time-units`, `debezium.time-precision`), else microseconds |
| time(p) | number in the unit of `debezium.time-units`, `debezium.time-precision`, else microseconds, since midnight |
| decimal | digits as a string; with `debezium.decimal` = precise base64 of the unscaled number, double a number |
| binary | base64; with `debezium.binary` = base64-url-safe or hex a string of that kind |
| variant | the JSON text of the value |
| others | as format json writes them |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError

from ...avro.cells import write_decimal_cells
from ...core.arrow_types import replace_char_types
from ...core.columns import Misfit
from ...core.format import Layout, Settings
from ...core.spark_types import convert_parts, make_nullable
from ...core.spark_visitor import find_map_without_string_keys, iterate_leaf_types
from ...core.times_of_day import UNITS, find_wrong_times
from ...core.writing import BINARY, BatchEncoder, convert_leaves, join_parts, make_constant, spread
from ...json.schemas.schema_to_spark import convert_json_schema_to_spark
from ...json.variants import write_variants
from ...json.writing import JsonEncoder
from ..encodings.settings import BASE64, HEX, URL_SAFE, Rules
from ..encodings.texts import encode_bytes
from ..encodings.times import divide_down
from ..feed import CREATE, DELETE, OWN_CONNECTOR, READ, TIME_UNITS, UPDATE, WRITTEN_AT, RowChanges

WriteRows = Callable[[pa.RecordBatch], pa.LargeBinaryArray]


@dataclass(frozen=True)
class Envelope:
    """How the events of changes are written, in one encoding.

    `write` writes rows, and `write_former` those before a change, whose columns may be null even if the table's may
    not. An image is `present` before the row, or `absent`. The `parts` are what stands before and between the images,
    before and after the operation, which is written as `letters` say.
    """

    write: WriteRows
    write_former: WriteRows
    present: bytes
    absent: bytes
    parts: tuple[bytes, bytes, bytes, bytes]
    letters: Mapping[str, bytes]


class EnvelopeEncoder(BatchEncoder):
    """Writes rows as envelopes of their creation, and changes of rows as theirs."""

    def __init__(self, columns: T.StructType, encoding_id: int | None, codec: str, envelope: Envelope) -> None:
        super().__init__(columns, encoding_id, codec)
        self._envelope = envelope

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        self.to_struct(batch)
        envelope = self._envelope
        begin, middle, source, end = envelope.parts
        before = make_constant(begin + envelope.absent + middle + envelope.present)
        after = make_constant(source + envelope.letters[CREATE] + end)
        return self.frame([before, envelope.write(batch), after], len(batch))

    def encode_changes(self, changes: RowChanges) -> pa.LargeBinaryArray:
        envelope = self._envelope
        try:
            before = self._write_images(changes.before, envelope.write_former)
        except InvalidRowError as error:
            raise InvalidRowError(f"the row as it was before the statement: {error.message}") from None
        after = self._write_images(changes.after, envelope.write)
        letters = pa.array([envelope.letters[one] for one in changes.operations.to_pylist()], BINARY)
        begin, middle, source, end = map(make_constant, envelope.parts)
        payloads = self.frame([begin, before, middle, after, source, letters, end], len(letters))
        is_same = pc.and_(pc.equal(changes.operations, UPDATE), pc.equal(before, after))
        return pc.if_else(is_same, pa.scalar(None, BINARY), payloads)

    def _write_images(self, images: pa.StructArray, write: WriteRows) -> pa.LargeBinaryArray:
        present = images.is_valid().to_numpy(zero_copy_only=False)
        rows = pa.RecordBatch.from_struct_array(images.drop_null())
        cells = join_parts([make_constant(self._envelope.present), write(rows)], len(rows))
        return spread(cells, present).fill_null(make_constant(self._envelope.absent))


def make_json_encoder(layout: Layout, encoding_id: int | None, codec: str) -> EnvelopeEncoder:
    """Return an encoder of changes as `{"before":row,"after":row,...,"op":"u"}`, without a schema."""
    columns, settings = layout.columns, layout.settings
    check_writable(columns)
    rows = columns
    if layout.schema_text:
        JsonEncoder(Layout(columns, layout.schema_text))  # raises if it does not fit the table
        table = convert_json_schema_to_spark(layout.schema_text)
        rows = T.StructType([T.StructField(f.name, f.dataType, table[f.name].nullable) for f in columns.fields])
    now = int(settings.get(WRITTEN_AT, "0"))
    source = {"version": "1", "connector": OWN_CONNECTOR, "name": OWN_CONNECTOR, "ts_ms": now, "snapshot": "false"}
    tail = json.dumps({"source": source, "transaction": None}, separators=(",", ":"))
    parts = b'{"before":', b',"after":', f',{tail[1:-1]},"op":"'.encode(), f'","ts_ms":{now}}}'.encode()
    letters = {letter: letter.encode() for letter in (CREATE, READ, UPDATE, DELETE)}
    write, write_former = (RowDocuments(one, settings).documents for one in (rows, make_nullable(columns)))
    return EnvelopeEncoder(columns, encoding_id, codec, Envelope(write, write_former, b"", b"null", parts, letters))


def check_writable(schema: T.StructType) -> None:
    """Raise UnsupportedOperationError for maps whose keys are not strings, which only connectors write."""
    path = find_map_without_string_keys(schema)
    if path is not None:
        raise UnsupportedOperationError(
            f"rows cannot be inserted into column '{path}', a map whose keys are not strings: this project reads the "
            "entries that Kafka Connect's converters write, but does not write them"
        )


class RowDocuments:
    """Writes rows as JSON objects in Debezium's encodings. The object of a primary key is the routing key."""

    def __init__(self, schema: T.StructType, settings: Settings) -> None:
        rules = Rules.of(settings, OWN_CONNECTOR)
        struct = replace_char_types(schema)
        self._fields = struct.fields
        self._units = [
            (rules.find_unit_of_times(field.name) if _has_times(field) else rules.unit(field.name)) or "us"
            for field in struct.fields
        ]
        self._decimal = rules.decimal
        self._binary = rules.binary if rules.binary in (URL_SAFE, HEX) else ""
        fields = [T.StructField(f.name, self._type(f.dataType), f.nullable) for f in struct.fields]
        self._encoder = JsonEncoder(Layout(T.StructType(fields)))

    def documents(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        """Return one document for each row of a batch, made of the schema's columns only.

        Raises InvalidRowError naming the column for a row that the schema does not allow.
        """
        columns = [
            self._convert_column(batch.column(field.name), field, unit)
            for field, unit in zip(self._fields, self._units, strict=True)
        ]
        names = [field.name for field in self._fields]
        return self._encoder.encode(pa.RecordBatch.from_arrays(columns, names=names))

    def _convert_column(self, array: Any, field: T.StructField, unit: str) -> pa.Array:
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        try:
            rows, convert = np.arange(len(array)), lambda leaves, kind, path, rows: self._convert(leaves, kind, unit)
            return convert_leaves(array, field.dataType, field.name, rows, convert, self._type)
        except Misfit as error:
            raise InvalidRowError(f"a row cannot be written: column '{field.name}' is {error}") from None

    def _type(self, data_type: T.DataType) -> T.DataType:
        """Return the type whose JSON is the one that Debezium writes for a column."""
        if isinstance(data_type, T.DateType | T.TimestampNTZType | T.TimeType):
            return T.LongType()
        if isinstance(data_type, T.DecimalType):
            return data_type if self._decimal == "double" else T.StringType()
        if isinstance(data_type, T.VariantType) or (isinstance(data_type, T.BinaryType) and self._binary):
            return T.StringType()
        return convert_parts(data_type, self._type)

    def _convert(self, array: Any, data_type: T.DataType, unit: str) -> pa.Array:
        """Convert plain values to the type of `_type`. Raises Misfit for a time of day that its unit does not have."""
        if isinstance(data_type, T.DateType):
            return array.view(pa.int32()).cast(pa.int64())
        if isinstance(data_type, T.TimestampNTZType):
            micros, factor = array.view(pa.int64()), UNITS[unit] // 1000
            if factor:
                return micros if factor == 1 else divide_down(micros, factor)
            try:
                return pc.multiply_checked(micros, 1000)
            except pa.ArrowInvalid:
                raise Misfit(
                    "a timestamp too far from 1970 for nanoseconds: choose other 'debezium.time-units'"
                ) from None
        if isinstance(data_type, T.TimeType):
            return _count_times(array, data_type, unit)
        if isinstance(data_type, T.DecimalType) and self._decimal != "double":
            return array.cast(pa.string()) if self._decimal == "string" else _write_unscaled(array)
        if isinstance(data_type, T.BinaryType) and self._binary:
            return encode_bytes(array, self._binary)
        if isinstance(data_type, T.VariantType):
            return write_variants(array)
        return array


def _has_times(field: T.StructField) -> bool:
    return any(isinstance(leaf, T.TimeType) for leaf in iterate_leaf_types(field.dataType))


def _count_times(array: pa.Array, data_type: T.TimeType, unit: str) -> pa.Array:
    """Return times of day as whole units since midnight. Raises Misfit for one with more digits."""
    nanos = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    for wrong, words in find_wrong_times(nanos, data_type):
        if wrong.any():
            raise Misfit(words)
    counts, rest = np.divmod(nanos, UNITS[unit])
    if rest.any():
        raise Misfit(f"a time of day with more digits than its unit '{unit}' has; change '{TIME_UNITS}'")
    return pa.array(counts, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False))


def _write_unscaled(array: pa.Array) -> pa.Array:
    """Write the unscaled numbers in base64, in the fewest bytes."""
    octets, _ = write_decimal_cells(array.drop_null())
    return encode_bytes(spread(octets, array.is_valid().to_numpy(zero_copy_only=False)), BASE64)
