"""Writes rows as Debezium's envelopes with `op` c, in the encodings that a table with the same properties reads.

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

import base64
import json
from collections.abc import Callable
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError

from ...core.arrow_types import replace_char_types
from ...core.columns import Misfit
from ...core.format import Settings
from ...core.spark_visitor import find_map_without_string_keys, iterate_leaf_types
from ...core.times_of_day import UNITS as CLOCK_UNITS
from ...core.times_of_day import find_wrong_times
from ...core.writing import BatchEncoder, make_constant
from ...json.schemas.schema_to_spark import convert_json_schema_to_spark
from ...json.variants import write_variants
from ...json.writing import JsonEncoder
from ..encodings.settings import HEX, URL_SAFE, Rules
from ..encodings.texts import encode_bytes
from ..feed import OWN_CONNECTOR as CONNECTOR
from ..feed import TIME_UNITS, UNITS, WRITTEN_AT

_EXACT = Context(prec=80)


class EnvelopeEncoder(BatchEncoder):
    """Writes an envelope around each row."""

    def __init__(
        self,
        schema: T.StructType,
        encoding_id: int | None,
        codec: str,
        rows: Callable[[pa.RecordBatch], pa.LargeBinaryArray],
        around: tuple[bytes, bytes],
    ) -> None:
        """Take what writes rows, and the parts of an envelope before and after its row."""
        super().__init__(schema, encoding_id, codec)
        self._rows, self._around = rows, around

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        self.to_struct(batch)
        begin, end = map(make_constant, self._around)
        return self.frame([begin, self._rows(batch), end], len(batch))


def make_json_encoder(
    schema: T.StructType, schema_text: str | None, encoding_id: int | None, codec: str, settings: Settings
) -> EnvelopeEncoder:
    """Return an encoder of inserted rows as `{"before":null,"after":row,...,"op":"c"}`, without a schema."""
    check_writable(schema)
    rows = schema
    if schema_text:
        JsonEncoder(schema, schema_text)  # raises if it does not fit the table
        table = convert_json_schema_to_spark(schema_text)
        rows = T.StructType([T.StructField(f.name, f.dataType, table[f.name].nullable) for f in schema.fields])
    now = int(settings.get(WRITTEN_AT, "0"))
    source = {"version": "1", "connector": CONNECTOR, "name": CONNECTOR, "ts_ms": now, "snapshot": "false"}
    tail = json.dumps({"source": source, "transaction": None, "op": "c", "ts_ms": now}, separators=(",", ":"))
    around = b'{"before":null,"after":', b"," + tail[1:].encode()
    return EnvelopeEncoder(schema, encoding_id, codec, RowDocuments(rows, settings).documents, around)


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
        rules = Rules.of(settings, CONNECTOR)
        struct = replace_char_types(schema)
        assert isinstance(struct, T.StructType)
        self._fields = struct.fields
        self._units = [
            (rules.find_unit_of_times(field.name) if _has_times(field) else rules.unit(field.name)) or "us"
            for field in struct.fields
        ]
        self._decimal = rules.decimal
        self._binary = rules.binary if rules.binary in (URL_SAFE, HEX) else ""
        self._encoder = JsonEncoder(
            T.StructType([T.StructField(f.name, self._type(f.dataType), f.nullable) for f in struct.fields])
        )

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
        try:
            return self._convert(array, field.dataType, unit)
        except Misfit as error:
            raise InvalidRowError(f"a row cannot be written: column '{field.name}' is {error}") from None

    def _type(self, data_type: T.DataType) -> T.DataType:
        """Return the type whose JSON is the one that Debezium writes for a column."""
        if isinstance(data_type, T.StructType):
            return T.StructType([T.StructField(f.name, self._type(f.dataType), f.nullable) for f in data_type.fields])
        if isinstance(data_type, T.ArrayType):
            return T.ArrayType(self._type(data_type.elementType), data_type.containsNull)
        if isinstance(data_type, T.MapType):
            return T.MapType(data_type.keyType, self._type(data_type.valueType), data_type.valueContainsNull)
        if isinstance(data_type, T.DateType | T.TimestampNTZType | T.TimeType):
            return T.LongType()
        if isinstance(data_type, T.DecimalType):
            return data_type if self._decimal == "double" else T.StringType()
        if isinstance(data_type, T.VariantType) or (isinstance(data_type, T.BinaryType) and self._binary):
            return T.StringType()
        return data_type

    def _convert(self, array: Any, data_type: T.DataType, unit: str) -> pa.Array:
        """Convert values to the type of `_type`. Raises Misfit for a time of day that its unit does not have."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if isinstance(data_type, T.DateType):
            return array.view(pa.int32()).cast(pa.int64())
        if isinstance(data_type, T.TimestampNTZType):
            return _convert_to_units(array.view(pa.int64()), unit)
        if isinstance(data_type, T.TimeType):
            return _count_times(array, data_type, unit)
        if isinstance(data_type, T.DecimalType) and self._decimal != "double":
            return array.cast(pa.string()) if self._decimal == "string" else _write_unscaled(array)
        if isinstance(data_type, T.BinaryType) and self._binary:
            return encode_bytes(array, self._binary)
        if isinstance(data_type, T.VariantType):
            return write_variants(array)
        if isinstance(data_type, T.StructType):
            children = [
                self._convert(child, field.dataType, unit)
                for child, field in zip(array.flatten(), data_type.fields, strict=True)
            ]
            return pa.StructArray.from_arrays(children, names=data_type.names, mask=array.is_null())
        if isinstance(data_type, T.ArrayType):
            lists = array.cast(pa.list_(array.type.value_type))
            values = self._convert(lists.values, data_type.elementType, unit)
            return pa.ListArray.from_arrays(_make_offsets(lists), values)
        if isinstance(data_type, T.MapType):
            values = self._convert(array.items, data_type.valueType, unit)
            return pa.MapArray.from_arrays(_make_offsets(array), array.keys, values)
        return array


def _make_offsets(lists: pa.Array) -> pa.Array:
    """Return offsets that mark null lists."""
    if lists.null_count == 0:
        return lists.offsets
    missing = lists.is_null().to_numpy(zero_copy_only=False)
    return pa.array(lists.offsets.to_numpy(), pa.int32(), mask=np.append(missing, False))


def _convert_to_units(micros: pa.Array, unit: str) -> pa.Array:
    """Convert microseconds to whole units, rounded down."""
    factor = UNITS[unit]
    if factor == 0:
        return pc.multiply_checked(micros, 1000)
    if factor == 1:
        return micros
    numbers = micros.fill_null(0).to_numpy(zero_copy_only=False) // factor
    return pa.array(numbers, pa.int64(), mask=micros.is_null().to_numpy(zero_copy_only=False))


def _has_times(field: T.StructField) -> bool:
    return any(isinstance(leaf, T.TimeType) for leaf in iterate_leaf_types(field.dataType))


def _count_times(array: pa.Array, data_type: T.TimeType, unit: str) -> pa.Array:
    """Return times of day as whole units since midnight. Raises Misfit for one with more digits."""
    nanos = array.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    for wrong, words in find_wrong_times(nanos, data_type):
        if wrong.any():
            raise Misfit(words)
    counts, rest = np.divmod(nanos, CLOCK_UNITS[unit])
    if rest.any():
        raise Misfit(f"a time of day with more digits than its unit '{unit}' has; change '{TIME_UNITS}'")
    return pa.array(counts, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False))


def _write_unscaled(array: pa.Array) -> pa.Array:
    """Write the unscaled numbers in base64, in the fewest bytes."""
    scale = array.type.scale
    texts: list[str | None] = []
    for value in array.to_pylist():
        if value is None:
            texts.append(None)
            continue
        number = int(value.scaleb(scale, _EXACT))
        size = number.bit_length() // 8 + 1
        texts.append(base64.b64encode(number.to_bytes(size, "big", signed=True)).decode("ascii"))
    return pa.array(texts, pa.string())


__all__ = ["CONNECTOR", "EnvelopeEncoder", "RowDocuments", "check_writable", "make_json_encoder"]
